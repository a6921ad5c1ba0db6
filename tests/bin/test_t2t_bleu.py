"""t2t-bleu, from files to printed lines."""

import functools
import json
import pathlib
import re
from collections.abc import Callable

import pytest
import sacrebleu
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from support.commands import printed_by, refusal
from support.usr_dirs import forgotten, write_usr_dir
from t2t_lite import registry, waiting
from t2t_lite.bin import t2t_bleu


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Callable[..., list[str]]:
    """Returns a function that writes a translation and a reference; it returns their flags."""

    def write(translation: str, reference: str) -> list[str]:
        paths = {"translation": translation, "reference": reference}
        for name, text in paths.items():
            (tmp_path / name).write_bytes(text.encode())
        return [f"--{name}={tmp_path / name}" for name in paths]

    return write


run = functools.partial(printed_by, t2t_bleu.main)
refused = functools.partial(refusal, t2t_bleu.main)


def test_scores_are_sacrebleus(golden, files):
    corpora = json.loads((golden / "bleu.json").read_text(encoding="utf-8"))["corpora"]
    corpus = max(corpora, key=lambda corpus: len(corpus["reference"]))
    hypotheses, references = corpus["hypothesis"], corpus["reference"]
    texts = ("".join(f"{line}\n" for line in lines) for lines in (hypotheses, references))
    lines = run(*files(*texts)).splitlines()
    cased = sacrebleu.corpus_bleu(hypotheses, [references]).score
    uncased = sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True).score
    assert lines[:2] == [f"BLEU_uncased = {uncased:6.2f}", f"BLEU_cased = {cased:6.2f}"]
    assert lines[2].startswith("BLEU_uncased signature: nrefs:1|case:lc|eff:no|tok:13a|smooth:exp")
    assert lines[3].startswith("BLEU_cased signature: nrefs:1|case:mixed|")


def test_the_papers_scores_are_labelled(files):
    texts = (f"Das ist der Roll-out des {word} Systems.\n" for word in ("neuen", "alten"))
    lines = run(*files(*texts), "--paper").splitlines()
    names = "BLEU_compound_split", "BLEU_sacrebleu_13a"
    scores = [float(lines[i].removeprefix(f"{name} = ")) for i, name in enumerate(names)]
    assert scores[0] > scores[1] > 0
    assert lines[2].startswith("BLEU_compound_split signature: nrefs:1|case:mixed|")
    assert "tok:13a+compounds|smooth:none" in lines[2]
    assert lines[3].startswith("BLEU_sacrebleu_13a signature: nrefs:1|case:mixed|eff:no|tok:13a|")


def test_white_space_at_the_ends_of_lines_does_not_count(files):
    flags = files("ein Haus\nzwei Katzen \n", "ein Haus\r\nzwei Katzen\r\n")
    assert "exact match (% of outputs) = 100.00" in run(*flags, "--metrics=exact_match")
    assert registry.problem("sentiment_imdb").reference("a film", "pos\r") == "pos"


def test_other_metrics(files):
    texts = files("a b c\n", "a b d\n")
    lines = run(*texts, "--metrics=exact_match,ter").splitlines()
    assert lines[:2] == ["exact match (% of outputs) =   0.00", "TER =  33.33"]
    assert lines[2].startswith("TER signature: nrefs:1|case:lc|tok:tercom|")
    for flags, message in (
        (["--metrics=ter", "--paper"], "--paper and --metrics exclude each other"),
        (["--metrics=tre"], "unknown metric 'tre'; did you mean 'ter'"),
        (["--metrics=command:cat"], "needs the sources"),
    ):
        assert message in refused(*texts, *flags)


def test_a_metric_of_the_users(tmp_path, files):
    code = """
        import t2t_lite
        from t2t_lite.metrics.exact import ExactMatch

        class AnyMatch(ExactMatch):
            title = "any match"

        t2t_lite.register_metric("any_match")(AnyMatch)
    """
    package = write_usr_dir(tmp_path / "bleu_usr_dir", code)
    flags = [*files("a b c\n", "a b c\n"), f"--t2t_usr_dir={package}"]
    with forgotten():
        assert "= 100.00" in run(*flags, "--metrics=any_match")


def test_odd_line_breaks_do_not_split_lines(files):
    text = "the quick\u2028brown fox\u0085jumps over it\nand so on and so on\n"
    words = [word for flag in files(text, text[:-1]) for word in flag.split("=")]
    assert run(*words).startswith("BLEU_uncased = 100.00\nBLEU_cased = 100.00\n")


def test_unequal_line_counts_name_both_files(tmp_path, files):
    error = refused(*files("a\nb\nc\n", "a\nb\n"), code=1)
    assert f"{tmp_path}/translation has 3 lines but {tmp_path}/reference has 2" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"a\n\xffb\n", ", line 2: byte 0xff"), (b"", "no sentences")],
)
def test_unusable_files(tmp_path, content, message):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert message in refused(f"--translation={path}", f"--reference={path}", code=1)


def test_both_files_are_needed():
    assert "--reference is missing: Reference translations" in refused("--translation=x")


@pytest.fixture
def translations(tmp_path: pathlib.Path) -> Callable[..., list[str]]:
    """Returns a function that writes translations of steps; it returns t2t-bleu's flags."""
    (tmp_path / "reference").write_text("a cat sleeps on the mat\n")
    folder = tmp_path / "translations"
    folder.mkdir()

    def write(*steps: int) -> list[str]:
        for step in steps:
            text = "a cat sleeps on the mat" if step == 20 else "A cat sleeps on the sofa"
            (folder / f"problem-{step}").write_text(text + "\n")
            (folder / f"problem-{step}.origin.json").touch()
        return [f"--translations_dir={folder}", f"--reference={tmp_path}/reference"]

    return write


def scored(output: str) -> list[int]:
    """The steps whose scores were printed, in order."""
    return [int(step) for step in re.findall(r"problem-(\d+): BLEU_cased", output)]


def test_translations_of_checkpoints_are_scored_in_order(translations):
    output = run(*translations(100, 20, 3))
    assert scored(output) == [3, 20, 100]
    assert "problem-20: BLEU_uncased = 100.00\n" in output
    assert scored(run(*translations(), "--min_steps=20")) == [20, 100]


@pytest.mark.integration
def test_the_next_call_goes_on_where_the_last_one_ended(translations, tmp_path):
    flags = [f"--event_dir={tmp_path}/events", "--tag_suffix=_beam4"]
    assert scored(run(*translations(3, 20), *flags)) == [3, 20]
    assert scored(run(*translations(100), *flags)) == [100]
    events = EventAccumulator(f"{tmp_path}/events", size_guidance={"tensors": 0}).Reload()
    curve = events.Tensors("BLEU_cased_beam4")
    assert [event.step for event in curve] == [3, 20, 100]
    assert float(tf.make_ndarray(curve[1].tensor_proto)) == pytest.approx(100)
    (tmp_path / "events" / "last_evaluated_step.txt").write_text("twenty")
    assert "'twenty', not a number of updates" in refused(*translations(), *flags, code=1)


def test_a_folder_without_translations_is_not_passed_over_in_silence(
    translations, tmp_path, capsys
):
    flags = [*translations(3), f"--event_dir={tmp_path}/events"]
    run(*flags)
    assert run(*flags) == ""
    message = "has no translations to score from update 4 on; --min_steps=0 also scores"
    assert message in capsys.readouterr().err
    assert "no such folder" in refused(f"--translations_dir={tmp_path}/none", flags[1], code=1)
    missing = f"--reference={tmp_path}/none", "--wait_minutes=0.001"
    assert "none: no such file" in refused(f"--translations_dir={tmp_path}/none", *missing, code=1)


def test_translations_that_come_later_are_scored(translations, monkeypatch):
    arrivals = iter([20])
    monkeypatch.setattr(waiting, "_POLL", 0.001)
    check = t2t_bleu._require_pairs

    def require_pairs(*pair):
        translations(next(arrivals, 100))
        check(*pair)

    monkeypatch.setattr(t2t_bleu, "_require_pairs", require_pairs)
    assert scored(run(*translations(3), "--wait_minutes=0.01")) == [3, 20, 100]


@pytest.mark.parametrize(
    ("flag", "needed"),
    [
        ("--event_dir=a", "translations_dir"),
        ("--tag_suffix=_a", "event_dir"),
        ("--min_steps=0", "translations_dir"),
        ("--wait_minutes=1", "translations_dir"),
    ],
)
def test_flags_of_a_folder_need_it(flag, needed, files):
    name = flag.partition("=")[0]
    assert f"{name} needs --{needed}: give both" in refused(*files("a\n", "a\n"), flag)


@pytest.mark.parametrize("flag", ["--translation=a", "--paper", "--metrics=chrf"])
def test_a_folder_has_scores_of_its_own(translations, flag):
    assert "exclude each other" in refused(*translations(3), flag)


def test_two_translations_of_one_step_are_refused(translations, tmp_path):
    flags = translations(3)
    (tmp_path / "translations" / "other-3").write_text("a cat\n")
    assert "are of the same step" in refused(*flags, code=1)
