"""t2t-bleu, from files to printed lines."""

import functools
import json
import pathlib
import sys

import pytest
import sacrebleu

from support.commands import printed_by, refusal
from t2t_lite import registry
from t2t_lite.bin import t2t_bleu

run = functools.partial(printed_by, t2t_bleu.main)
refused = functools.partial(refusal, t2t_bleu.main)


def write(path: pathlib.Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_scores_are_sacrebleus(golden, tmp_path):
    corpora = json.loads((golden / "bleu.json").read_text(encoding="utf-8"))["corpora"]
    corpus = max(corpora, key=lambda corpus: len(corpus["reference"]))
    hypotheses, references = corpus["hypothesis"], corpus["reference"]
    translation = write(tmp_path / "out", "".join(line + "\n" for line in hypotheses))
    reference = write(tmp_path / "ref", "".join(line + "\n" for line in references))
    lines = run(f"--translation={translation}", f"--reference={reference}").splitlines()
    cased = sacrebleu.corpus_bleu(hypotheses, [references]).score
    uncased = sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True).score
    assert lines[:2] == [f"BLEU_uncased = {uncased:6.2f}", f"BLEU_cased = {cased:6.2f}"]
    assert lines[2].startswith("BLEU_uncased signature: nrefs:1|case:lc|eff:no|tok:13a|smooth:exp")
    assert lines[3].startswith("BLEU_cased signature: nrefs:1|case:mixed|")


def test_the_papers_scores_are_labelled(tmp_path):
    translation = write(tmp_path / "out", "Das ist der Roll-out des neuen Systems.\n")
    reference = write(tmp_path / "ref", "Das ist der Roll-out des alten Systems.\n")
    flags = f"--translation={translation}", f"--reference={reference}", "--paper"
    lines = run(*flags).splitlines()
    names = ["BLEU_compound_split", "BLEU_sacrebleu_13a"]
    scores = [
        float(line.removeprefix(f"{name} = ")) for name, line in zip(names, lines[:2], strict=True)
    ]
    assert scores[0] > scores[1] > 0
    assert lines[2].startswith("BLEU_compound_split signature: nrefs:1|case:mixed|")
    assert "tok:13a+compounds|smooth:none" in lines[2]
    assert lines[3].startswith("BLEU_sacrebleu_13a signature: nrefs:1|case:mixed|eff:no|tok:13a|")


def test_white_space_at_the_ends_of_lines_does_not_count(tmp_path):
    translation = write(tmp_path / "out", "ein Haus\nzwei Katzen \n")
    reference = write(tmp_path / "ref", "ein Haus\r\nzwei Katzen\r\n")
    flags = f"--translation={translation}", f"--reference={reference}", "--metrics=exact_match"
    assert "exact match (% of outputs) = 100.00" in run(*flags)
    assert registry.problem("sentiment_imdb").reference("a film", "pos\r") == "pos"


def test_other_metrics(tmp_path):
    translation, reference = write(tmp_path / "out", "a b c\n"), write(tmp_path / "ref", "a b d\n")
    files = [f"--translation={translation}", f"--reference={reference}"]
    lines = run(*files, "--metrics=exact_match,ter").splitlines()
    assert lines[:2] == ["exact match (% of outputs) =   0.00", "TER =  33.33"]
    assert lines[2].startswith("TER signature: nrefs:1|case:lc|tok:tercom|")
    for flags, message in (
        (["--metrics=ter", "--paper"], "--paper and --metrics exclude each other"),
        (["--metrics=tre"], "unknown metric 'tre'; did you mean 'ter'"),
        (["--metrics=command:cat"], "needs the sources"),
    ):
        assert message in refused(*files, *flags)


def test_a_metric_of_the_users(tmp_path):
    package = tmp_path / "bleu_usr_dir"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import t2t_lite\nfrom t2t_lite.metrics.exact import ExactMatch\n\n\n"
        "class AnyMatch(ExactMatch):\n    title = 'any match'\n\n\n"
        "t2t_lite.register_metric('any_match')(AnyMatch)\n"
    )
    path = write(tmp_path / "text", "a b c\n")
    flags = [f"--translation={path}", f"--reference={path}", f"--t2t_usr_dir={package}"]
    try:
        assert "= 100.00" in run(*flags, "--metrics=any_match")
    finally:
        registry._metrics._entries.pop("any_match", None)
        sys.modules.pop(package.name, None)


def test_odd_line_breaks_do_not_split_lines(tmp_path):
    text = "the quick\u2028brown fox\u0085jumps over it\nand so on and so on\n"
    translation, reference = write(tmp_path / "out", text), write(tmp_path / "ref", text[:-1])
    printed = run("--translation", translation, "--reference", reference)
    assert printed.startswith("BLEU_uncased = 100.00\nBLEU_cased = 100.00\n")


def test_unequal_line_counts_name_both_files(tmp_path):
    translation = write(tmp_path / "out", "a\nb\nc\n")
    reference = write(tmp_path / "ref", "a\nb\n")
    error = refused(f"--translation={translation}", f"--reference={reference}", code=1)
    assert f"{translation} has 3 lines but {reference} has 2" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"a\n\xffb\n", ", line 2: byte 0xff"), (b"", "no sentences")],
)
def test_unusable_files(tmp_path, content, message):
    path = str(tmp_path / "file") if content is None else write(tmp_path / "file", content)
    assert message in refused(f"--translation={path}", f"--reference={path}", code=1)


def test_both_files_are_needed():
    assert "--reference is missing: Reference translations" in refused("--translation=x")
