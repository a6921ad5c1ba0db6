"""t2t-paper, from the command line to printed tables."""

import importlib.util
import json

import pytest

from support.commands import printed_by, refusal
from t2t_lite.bin import t2t_paper

_SHARED = ["--output_dir=x", "--data_dir=x", "--train_steps=1"]
SEARCH = ["--table=parsing-search", "--problem=parsing_craft", *_SHARED]
TINY_3 = ["--table=3", "--scale=tiny", *_SHARED]
TABLE_2 = ["--table=2", "--output_dir=x", "--problem=translate_ende_multi30k", "--data_dir=x"]
TINY_2 = [*TABLE_2, "--scale=tiny"]
NO_EFFECT = "has no effect on --table"


@pytest.mark.integration
def test_a_table_as_json():
    table = json.loads(printed_by(t2t_paper.main, "--table=4", "--output_format=json"))
    ours = [row for row in table["rows"] if row["parser"].startswith("Transformer")]
    assert [row["F1"] for row in ours] == [91.3, 92.7]
    assert [row["problem"] for row in ours] == ["parsing_wsj_16k", "parsing_wsj_semi_32k"]


@pytest.mark.integration
def test_table_1_without_measuring():
    lines = printed_by(t2t_paper.main, "--table=1").splitlines()
    assert any(line.startswith("Recurrent") and line.endswith("3n - 1") for line in lines)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--table is missing: Table to print"),
        (["--table=5"], "--table=5: expected 1, 2, 3, 4 or parsing-search"),
        (["--table=4", "--scale=tiny"], "--scale has no effect on --table=4"),
        (["--table=2", "--scale=tiny"], "--output_dir is missing"),
        (TINY_2, "how long? Give either --train_minutes or --train_steps"),
        ([*TINY_2, "--train_minutes=2", "--train_steps=9"], "Give either --train_minutes or --t"),
        ([*TABLE_2, "--scale=full", "--train_steps=9"], "--scale=full has no effect on --table=2"),
        ([*TABLE_2, "--train_steps=9"], "--output_dir has no effect on --table=2: it goes with"),
        ([*TINY_2, "--train_steps=9", "--rows=gru"], "Table 2 has no row 'gru'"),
        (["--table=1", "--scale=tiny"], "--output_dir is missing"),
        (["--table=3", "--scale=tiny", "--output_dir=x"], "--problem is missing"),
        ([*TINY_3, "--problem=translate_ende_multi31k"], "mean 'translate_ende_multi30k'"),
        (SEARCH[:3], "--data_dir is missing"),
        (["--table=1", "--rows=base"], f"--rows {NO_EFFECT}=1: it goes with --table=2 --scale"),
        (["--table=3", "--output_dir=x"], "with --table=1 --scale, --table=2 --scale, --table=3"),
        (
            ["--table=3", "--params", "--scale=full"],
            f"{NO_EFFECT}=3 --scale: it goes with --table=3",
        ),
        (["--table=4", "--beam_sizes=4"], f"{NO_EFFECT}=4: it goes with --table=parsing-search"),
        (
            ["--table=parsing-search", "--seeds=2"],
            f"{NO_EFFECT}=parsing-search: it goes with --table=2 --sc",
        ),
        ([*SEARCH, "--beam_sizes=4,2.5"], "--beam_sizes=4,2.5: expected whole numbers"),
        ([*SEARCH, "--dropouts=0.1,x"], "--dropouts=0.1,x: expected numbers separated by commas"),
        ([*SEARCH, "--dropouts=0.1,1"], "--dropouts: 1.0 is not at least 0 and below 1"),
    ],
)
def test_usage_errors_are_one_line(argv, message):
    assert message in refusal(t2t_paper.main, *argv)


@pytest.mark.parametrize("table", ["--table=1", "--table=2", "--table=3"])
def test_a_missing_package_is_named_before_anything_is_measured(monkeypatch, table):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    flags = ["--problem=translate_ende_locale", "--data_dir=x", "--train_steps=1"]
    flags = [table, "--scale=tiny", "--output_dir=x", *(flags if table != "--table=1" else [])]
    error = refusal(t2t_paper.main, *flags, code=1)
    assert f"{table} --scale needs more packages: pip install" in error
