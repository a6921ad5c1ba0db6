"""Reading what another program translated."""

import gzip
import itertools

import pytest

from support.texts import write_lines
from t2t_lite.errors import DataError, UserError
from t2t_lite.study.distillation.hypotheses import read_hypotheses


def read(tmp_path, *lines):
    return list(read_hypotheses(str(write_lines(tmp_path / "out", lines))))


def test_plain_lines_have_one_output(tmp_path):
    assert read(tmp_path, "eins", "", " zwei ") == [["eins"], [""], ["zwei"]]
    assert read(tmp_path) == []


def test_tabs_separate_hypotheses(tmp_path):
    assert read(tmp_path, "a\tb\tc", "d") == [["a", "b", "c"], ["d"]]


def test_an_n_best_list_is_ordered_by_its_last_number(tmp_path):
    lines = (
        "0 ||| worse ||| F0= -9 ||| -2.5",
        "0 ||| better ||| F0= -1 ||| -0.5",
        "2 ||| a ||| F0= 1 ||| 0",
    )
    assert read(tmp_path, *lines) == [["better", "worse"], [], ["a"]]


# Fields between text and score, as Moses, Marian, cdec and others write them.
FIELDS = [
    (),
    ("F0= -1",),
    ("LexicalReordering0= -1.5 0 -.25 LM0= -2e-3 WordPenalty0= -3",),
    ("d: 0 -1 lm: -20.5 tm: -1 -2",),
    ("LanguageModel=-3.2 WordPenalty=-1",),
    ("-1 -2.5 -3",),
    ("WordScores= -0.1 -0.2", "F0= -0.3"),
    ("0-0 1-2", "F0= nan"),
    ("0.9,0.1 0.25,0.75", "F0= -1"),
    ("",),
]
TEXTS = ["he said", "he said ||| no", "a ||| b ||| c", "||| a", "a |||", "a |||b", "x||| y", ""]


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_whole_whatever_it_contains(tmp_path, fields, text):
    line = " ||| ".join([text, *fields, "-0.5"])
    first = " ||| ".join(["one", *fields, "-1"])
    assert read(tmp_path, f"0 ||| {first}", f"1 ||| {line}") == [["one"], [text]]
    if fields and not text.endswith("|||"):  # else, what follows the bars may be a field
        assert read(tmp_path, f"0 ||| {line}") == [[text]]


@pytest.mark.parametrize("text", ["1 ||| 2", "a ||| F0= 3", "a ||| 0-0"])
def test_a_text_may_look_like_a_field_after_the_first_line(tmp_path, text):
    lines = "0 ||| one ||| F0= -1 ||| -1", f"1 ||| {text} ||| F0= -1 ||| -1"
    assert read(tmp_path, *lines) == [["one"], [text]]


def test_moses_writes_an_empty_text_with_one_space(tmp_path):
    assert read(tmp_path, "0 ||| ||| F0= -1 ||| -1") == [[""]]


@pytest.mark.parametrize("score", ["nan", "-nan", "NaN", "inf", "-inf"])
def test_a_score_that_is_not_finite_comes_last(tmp_path, score):
    lines = [f"0 ||| {text} ||| {s}" for text, s in [("a", score), ("b", "-9"), ("c", "-1e30")]]
    for order in itertools.permutations(lines):
        assert read(tmp_path, *order) == [["b", "c", "a"]]


def test_a_repeated_text_counts_once_with_its_best_score(tmp_path):
    lines = ["0 ||| b ||| -2", "0 ||| a ||| -3", "0 ||| a ||| -1", "0 ||| b ||| nan"]
    assert read(tmp_path, *lines) == [["a", "b"]]
    assert read(tmp_path, "a\tb\ta", "c\tc") == [["a", "b"], ["c"]]


def test_equal_scores_keep_their_order(tmp_path):
    assert read(tmp_path, "0 ||| x ||| 1", "0 ||| y ||| 1") == [["x", "y"]]


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "out.gz"
    path.write_bytes(gzip.compress(b"eins\n"))
    assert list(read_hypotheses(str(path))) == [["eins"]]


@pytest.mark.parametrize("bad", ["eins", "1 ||| eins", "1 ||| eins ||| much", "x ||| y ||| 1", ""])
def test_a_malformed_entry_is_named(tmp_path, bad):
    with pytest.raises(DataError, match="out, line 2: expected NUMBER"):
        read(tmp_path, "0 ||| x ||| 1", bad)


def test_every_entry_has_the_fields_of_the_first(tmp_path):
    for bad in ("1 ||| no ||| -1", "1 ||| a ||| b ||| -1"):
        with pytest.raises(DataError, match=r"out, line 2: expected .* the fields of the first"):
            read(tmp_path, "0 ||| x ||| F0= -1 ||| -1", bad)


def test_entries_out_of_order_are_refused(tmp_path):
    with pytest.raises(DataError, match="line 3: number 0 after 1"):
        read(tmp_path, "0 ||| x ||| 1", "1 ||| x ||| 1", "0 ||| y ||| 1")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="none: no such file"):
        list(read_hypotheses(str(tmp_path / "none")))
