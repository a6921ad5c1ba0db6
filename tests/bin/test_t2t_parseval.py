"""t2t-parseval, from files to EVALB's table."""

import functools
import gzip
import pathlib

import pytest

from support.commands import exit_code, printed_by, refusal
from t2t_lite.bin import t2t_parseval

TREE = "(S (NP (N I)) (VP (V see)))\n"
OTHER = "(S (NP (N I)) (VP (V saw)))\n"


run = functools.partial(exit_code, t2t_parseval.main)


@pytest.fixture
def parseval(tmp_path: pathlib.Path):
    """Returns a function that scores texts, written to the files gold, test and param."""

    def score(gold: str, test: str, param: str = "") -> int:
        for name, text in {"gold": gold, "test": test, "param": param}.items():
            (tmp_path / name).write_bytes(text.encode())
        return run(*(f"--{name}={tmp_path / name}" for name in ("gold", "test", "param")))

    return score


def test_agrees_with_evalb(shared_data, capsys):
    sample = shared_data / "evalb" / "sample_01-12"
    param = sample.with_name("sample.prm")
    assert run(f"--gold={sample}.gld", f"--test={sample}.tst", f"--param={param}") == 0
    out, err = capsys.readouterr()
    assert out == pathlib.Path(f"{sample}.rsl").read_text()
    assert err == "12 : Words unmatch (is|was)\n"


def test_nothing_is_left_out_by_default(tmp_path, capsys):
    gold, test = tmp_path / "gold.gz", tmp_path / "test"
    gold.write_bytes(gzip.compress(b"(TOP (S (ADVP (R up)) (. .)))\n\n"))
    test.write_text("(TOP (S (PRT (R up)) (. .)))\n\n")
    assert run(f"--gold={gold}", f"--test={test}") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[3:6] == [
        "   1    2    0   66.67  66.67     2      3    3      0      2     2   100.00",
        "   2    0    2    0.00   0.00     0      0    0      0      0     0     0.00",
        "=" * 76,
    ]
    assert "Bracketing FMeasure       =  66.67" in out


def test_the_second_summary_is_of_short_sentences(parseval, capsys):
    long = "(S (NP (N I)) (VP (V see) (NP (N it))))\n"
    flat = "(S (NP (N I)) (V see) (NP (N it)))\n"
    assert parseval(TREE + long, TREE + flat, "CUTOFF_LEN 2\n") == 0
    everything, short = capsys.readouterr().out.split("-- All --")[1].split("-- len<=2 --")
    assert "Number of sentence        =      2\n" in everything
    assert "Bracketing Recall         =  85.71\n" in everything
    assert "Number of sentence        =      1\n" in short
    assert "Bracketing Recall         = 100.00\n" in short


def test_evalb_stops_after_two_errors_more_than_max_error(parseval, tmp_path, capsys):
    assert parseval(TREE * 4, TREE + OTHER * 2 + TREE, "MAX_ERROR 1\n") == 0
    assert "Number of Error sentence  =      2\n" in capsys.readouterr().out
    assert parseval(TREE * 4, TREE + OTHER * 3, "MAX_ERROR 1\n") == 1
    out, err = capsys.readouterr()
    assert [line.split()[2] for line in out.splitlines()[3:]] == ["0", "1", "1"]
    *lines, last = err.splitlines()
    assert lines == [f"{number} : Words unmatch (see|saw)" for number in (2, 3, 4)]
    assert (
        f"{tmp_path / 'test'}, line 4: 3 sentences differ from {tmp_path / 'gold'} in their words"
        in last
    )
    assert "DELETE_LABEL" in last


@pytest.mark.parametrize(
    ("gold", "test", "param", "message"),
    [
        (TREE + "(S (x a)\n", TREE * 2, "", "gold, line 2: closing brackets missing"),
        (TREE * 2, TREE + "(S (x a)))\n", "", "test, line 2: an extra closing bracket"),
        (TREE, "(S I (V see))\n", "", "test, line 1: bracket 'S' contains a word and"),
        (TREE * 2, TREE, "", "test has 1 lines but "),
        ("", "", "", "gold: there are no trees"),
        (TREE, TREE, "\nLABELLED 1\n", "param, line 2: unknown keyword 'LABELLED'"),
    ],
)
def test_unusable_files(parseval, gold, test, param, message, capsys):
    assert parseval(gold, test, param) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_both_files_are_needed():
    assert "--test is missing: Trees to score" in refusal(t2t_parseval.main, "--gold=x")


def test_help_does_not_speak_of_a_command_that_t2t_never_had():
    out = printed_by(t2t_parseval.main, "--help")
    assert "--param=PATH" in out
    assert "tensor2tensor" not in out
