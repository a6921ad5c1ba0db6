"""The tables of speeds in the pages: made from docs/figures/, a range over all processors."""

import dataclasses
import json
import re
import sys

import pytest

from support.scripts import import_script

pages = import_script("pages")
all_ = import_script("all")
machine = import_script("machine")

ROW = pages.Row("base", "train_throughput", "base", "PyTorch")


def make(name: str, **case) -> pages.Machine:
    benchmarks = {"train_throughput": {"base": case}}
    about = {"processor": f"processor of {name}", "version": "1.0.0"}
    return pages.Machine({"name": name, **about, "benchmarks": benchmarks})


def test_the_pages_are_made_from_the_figures():
    for path in pages.PAGES:
        text = path.read_text("utf-8")
        assert text == pages.rewritten(text, pages.machines()), "run: python benchmarks/pages.py"


def test_every_table_is_on_a_page():
    text = "".join(path.read_text("utf-8") for path in pages.PAGES)
    assert sorted(re.findall(r"<!-- figures: (\w+) -->", text)) == sorted(pages.TABLES)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ({"seconds": {"t2t_lite": 2.0, "PyTorch": 3.0}}, "1.50"),
        ({"rate": {"t2t_lite": 2.0, "PyTorch": 4.0}}, "0.50"),
        ({"ratios": {"t2t_lite : PyTorch": [1.2, 1.1, 1.4]}}, "1.20 (1.10 to 1.40)"),
        ({"ratios": {"t2t_lite : PyTorch": [1.4, 1.5]}}, "1.40 to 1.50"),
        ({"ratios": {"t2t_lite : PyTorch": [1.2]}}, "1.20"),
    ],
)
def test_a_ratio_is_that_of_the_rounds_or_the_quotient_of_the_medians(case, text):
    """Seconds are better the fewer they are, rates the higher."""
    assert make("here", **case).ratio(ROW).text == text


def test_ratios_of_the_rounds_come_before_the_quotient():
    case = {"seconds": {"t2t_lite": 2.0, "PyTorch": 3.0}, "ratios": {"t2t_lite : PyTorch": [1.4]}}
    assert make("here", **case).ratio(ROW).text == "1.40"


@pytest.mark.parametrize("case", [{}, {"seconds": {"t2t_lite": 2.0}}])
def test_what_was_not_measured_has_no_ratio(case):
    assert make("here", **case).ratio(ROW) is None


def three() -> list[pages.Machine]:
    return [
        make("fast", ratios={"t2t_lite : PyTorch": [2.0, 1.5, 2.5]}),
        make("none"),
        make("slow", ratios={"t2t_lite : PyTorch": [0.5, 0.4, 0.6]}),
    ]


def test_a_column_for_each_machine_after_the_range():
    lines = pages.by_machine([ROW, ROW._replace(label="absent", case="absent")], three())
    assert lines.splitlines() == [
        "| t2t_lite : the other | range | fast | slow |",
        "|---|---|---|---|",
        "| base | **0.50 to 2.00** | 2.00 (1.50 to 2.50) | 0.50 (0.40 to 0.60) |",
    ]
    (_, _, line) = pages.by_machine([ROW], three()[:1]).splitlines()
    assert line == "| base | 2.00 (1.50 to 2.50) |"


def test_an_unknown_mark_is_an_error():
    with pytest.raises(KeyError, match="speed_of_light"):
        pages.rewritten("<!-- figures: speed_of_light -->\n\n<!-- end of figures -->\n", [])


def test_all_writes_one_file_a_machine(tmp_path, monkeypatch):
    here = machine.Machine(
        **{"processor": "Some CPU", "instructions": ["avx2"], "threads": 2, "shared_cores": None},
        **{"gpus": [], "versions": {}, "libraries": {}, "settings": {}, "device": "", "rates": {}},
    )
    sides = {
        "t2t_lite": {"seconds": [2.0], "median": 2.0, "rate": 5.0, "peak_mib": 100.0},
        "PyTorch": {"seconds": [3.0], "median": 3.0, "rate": 3.3, "peak_mib": None},
    }
    ratio = {"name": "t2t_lite", "other": "PyTorch", "least": None}
    ratio |= {"median": 1.5, "lowest": 1.4, "highest": 1.6}
    case = {"case": "base", "contenders": sides, "ratios": [ratio], "figures": []}
    content = {"machine": dataclasses.asdict(here), "date": "2026-01-02", "results": [case]}
    content |= {"benchmark": "train_throughput"}
    case |= {"unit": "cells", "absent": {}}
    results = tmp_path / "results"
    results.mkdir()
    (results / "train_throughput.json").write_text(json.dumps(content), "utf-8")
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "figures")
    pages.FOLDER.mkdir()
    monkeypatch.setattr(all_, "plan", lambda *args: [])
    monkeypatch.setattr(machine, "gpus", list)
    monkeypatch.setattr(sys, "argv", ["all.py", f"--output_dir={results}", "--machine=New one"])
    all_.main()
    assert [path.name for path in pages.FOLDER.iterdir()] == ["new_one.json"]
    (found,) = pages.machines(pages.FOLDER)
    assert (found.name, found.processor) == ("New one", "Some CPU, 2 threads (avx2)")
    assert found.ratio(ROW).text == "1.50 (1.40 to 1.60)"
    assert found.figure(ROW, "mib", "PyTorch") is None
    assert found.figure(ROW, "rate", "t2t_lite") == 5.0
