"""The tutorials' command lines do what they say; trainings are cut to a few steps."""

import pathlib
import re

import pytest

from support.rounding import assert_close

_BLEU = re.compile(r"^BLEU_cased = +\d+\.\d\d", re.M)
# A training with two evaluations, so that there is a best checkpoint.
_TWO_EVALUATIONS = (
    "--train_steps=4 --local_eval_frequency=2 --eval_steps=1 "
    "--decode_hparams=beam_size=1,extra_length=5"
)


def write_package(folder: pathlib.Path, source: str) -> None:
    """Writes a module to the path that its first line names."""
    path = folder / source.partition("\n")[0].removeprefix("# ")
    path.parent.mkdir()
    path.write_text(source, encoding="utf-8")


@pytest.mark.slow
def test_your_own_two_files_and_metric(pages, shell, tmp_path):
    pairs = [(f"word{i} and {i}", f"Wort{i} und {i}") for i in range(300)]
    for name, part in (("train", pairs[20:]), ("dev", pairs[:20])):
        for side, language in ((0, "en"), (1, "de")):
            lines = "".join(pair[side] + "\n" for pair in part)
            (tmp_path / f"your_{name}.{language}").write_text(lines, encoding="utf-8")
    assert _BLEU.search(shell(pages["data.md"].block("Your own two files", "bash").code))
    evaluate = pages["extending.md"].block("A metric", "bash")
    write_package(tmp_path, pages["extending.md"].block("A metric", "python").code)
    short = "--decode_hparams=beam_size=1,extra_length=5"
    scores = shell(f"{evaluate.code.rstrip()} {short}")
    assert re.search(r"^length_ratio +\d", scores, re.M)


@pytest.mark.slow
def test_classification(pages, shell, tmp_path):
    page = pages["classification.md"]
    write_package(tmp_path, page.block("Train one on your own text", "python").code)
    rows = [f"{('sport', 'politics', 'science')[i % 3]}\tText number {i}.\n" for i in range(200)]
    (tmp_path / "your_train.tsv").write_text("".join(rows[20:]), encoding="utf-8")
    (tmp_path / "your_dev.tsv").write_text("".join(rows[:20]), encoding="utf-8")
    output = shell(page.block("Train one on your own text", "bash").code)
    assert re.search(r"^exact match \(% of outputs\) = ", output, re.M)
    heading = "Labels with their probabilities"
    shell(page.block(heading, "bash").code)
    (line,) = (tmp_path / "labels.txt").read_text(encoding="utf-8").splitlines()
    labels = {"sport", "politics", "science"}
    assert {word for word in line.split("\t") if word.isalpha()} == labels
    shown = shell(f"python - <<'END'\n{page.block(heading, 'python').code}END\n").splitlines()
    assert {row.split()[0] for row in shown} == labels
    # A softmax over the labels, padding and EOS, whose logarithms are taken back.
    total = sum(float(row.split()[1]) for row in shown)
    assert_close(total, 1.0, terms=2 * (len(labels) + 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heading", "score"), [("A problem", "exact match (% of outputs) = "), ("A model", "BLEU")]
)
def test_extensions(pages, shell, tmp_path, heading, score):
    write_package(tmp_path, pages["extending.md"].block(heading, "python").code)
    printed = shell(pages["extending.md"].block(heading, "bash").code)
    assert any(line.startswith(score) for line in printed.splitlines())


@pytest.mark.slow
def test_the_whole_path_and_what_can_be_done_with_the_run(pages, shell, shared_data, tmp_path):
    code = pages["training.md"].block("The whole path", "bash").code
    assert "TMP_DIR=/tmp/t2t_datagen" in code
    code = code.replace("TMP_DIR=/tmp/t2t_datagen", f"TMP_DIR={shared_data}")
    assert _BLEU.search(shell(code.replace("--train_steps=10000", _TWO_EVALUATIONS)))
    assert len((tmp_path / "translation.de").read_text(encoding="utf-8").split("\n")) == 2
    shell(pages["training.md"].block("Watch a run", "bash").code)
    for page, heading in (
        ("decoding.md", "Decoding"),
        ("evaluation.md", "BLEU of a file"),
        ("evaluation.md", "Look at attention"),
        ("serving.md", "Export"),
    ):
        shell(pages[page].block(heading, "bash").code)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"report.html", "nbest.json", "scores.txt", "attention.html", "figure.svg"}
    assert {path.name for path in (tmp_path / "exports").iterdir()} >= {"translate", "keras"}


@pytest.mark.slow
def test_the_registered_data_sets(pages, shell, shared_data):
    code = pages["data.md"].block("Registered data sets", "bash").code
    assert "TMP_DIR=/tmp/t2t_datagen" in code
    output = shell(code.replace("TMP_DIR=/tmp/t2t_datagen", f"TMP_DIR={shared_data}"))
    assert "steps per epoch" in output
    assert "29,000 examples" in output


@pytest.mark.slow
def test_parsing(pages, shell, shared_data):
    code = pages["parsing.md"].block("Parsing", "bash").code
    assert "TMP_DIR=$HOME/nltk_data" in code
    output = shell(code.replace("TMP_DIR=$HOME/nltk_data", f"TMP_DIR={shared_data}"))
    assert re.search(r"^Bracketing F1 = ", output, re.M)
    words = re.findall(r"[^\s()]+(?=\))", output.splitlines()[-1])
    assert words == ["The", "company", "said", "it", "will", "sell", "the", "unit", "."]
