"""Reading what another program translated."""

import gzip

import pytest

from support.texts import write_lines
from t2t_lite.distillation.hypotheses import read_hypotheses
from t2t_lite.errors import DataError, UserError


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
        "2 ||| a ||| b ||| F0= 1 ||| 0",
    )
    assert read(tmp_path, *lines) == [["better", "worse"], [], ["a"]]


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


def test_entries_out_of_order_are_refused(tmp_path):
    with pytest.raises(DataError, match="line 3: number 0 after 1"):
        read(tmp_path, "0 ||| x ||| 1", "1 ||| x ||| 1", "0 ||| y ||| 1")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="none: no such file"):
        list(read_hypotheses(str(tmp_path / "none")))
