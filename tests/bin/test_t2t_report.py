"""t2t-report, from run folders to a page."""

import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from support.commands import exit_code, refusal
from t2t_lite.bin import t2t_report


def run(folders: str, *argv: str) -> int:
    return exit_code(t2t_report.main, f"--output_dir={folders}", *argv)


def make_run(folder: pathlib.Path, steps: int = 3, **hparams: object) -> str:
    folder.mkdir(parents=True)
    flags = {"problem": "algorithmic_reverse", "model": "m", "hparams_set": "s", "random_seed": 1}
    (folder / "flags.json").write_text(json.dumps(flags | {"output_dir": str(folder)}))
    (folder / "hparams.json").write_text(json.dumps({"batch_size": 4096} | hparams))
    with (folder / "metrics.jsonl").open("w") as lines:
        for step in range(1, steps + 1):
            train = {"loss": 4.0 / step, "learning_rate": 0.1, "gradient_norm": float("nan")}
            score = {"loss": 5.0 / step, "bleu": [10.0, 30.0, 20.0][step % 3], "accuracy": 0.5}
            for kind, values in (("train", train), ("eval", score)):
                lines.write(json.dumps({"kind": kind, "step": 100 * step, **values}) + "\n")
        lines.write('{"kind": "train", "st')  # cut short by a kill
    return str(folder)


def parse(path: pathlib.Path) -> tuple[ET.Element, str]:
    """Parses the page as XML, which is stricter than a browser; returns it and its text."""
    root = ET.fromstring(path.read_text(encoding="utf-8").removeprefix("<!DOCTYPE html>\n"))
    return root, " ".join(" ".join(root.itertext()).split())


def rows(root: ET.Element) -> dict[str, list[str]]:
    return {
        row[0].text: [cell.text for cell in row[1:]]
        for table in root.iter("table")
        for row in table.find("tbody")
    }


@pytest.mark.integration
def test_two_runs_on_a_page(tmp_path, capsys):
    one = make_run(tmp_path / "a,b" / "run", dropout=0.1)
    other = make_run(tmp_path / "b" / "run", steps=2, dropout=0.3, extra="<script>")
    assert run(f"{one},{other}", f"--output_file={tmp_path / 'page.html'}") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'page.html'}\n"
    root, text = parse(tmp_path / "page.html")
    titles = [svg.attrib["aria-label"] for svg in root.iter("{http://www.w3.org/2000/svg}svg")]
    assert titles == [
        "training loss",
        "evaluation loss",
        "BLEU",
        "accuracy (share of tokens)",
        "learning rate",
    ], "a plot for everything that has a finite value, and no other"
    table = rows(root)
    assert table["best BLEU"] == ["30 (step 100)", "30 (step 100)"]
    assert table["last BLEU"] == ["10", "20"]
    of_equals = ["0.5 (step 300)", "0.5 (step 200)"]
    assert table["best accuracy (share of tokens)"] == of_equals, "the later, as in best.ckpt"
    assert table["best evaluation loss"] == ["1.667 (step 300)", "2.5 (step 200)"]
    assert table["dropout"] == ["0.1", "0.3"]
    assert table["extra"] == ["–", "<script>"]
    assert "batch_size" not in table, "runs do not differ in it"
    assert "output_dir" not in table
    assert "a,b/run" in text, "names tell folders apart"
    assert not list(root.iter("script"))
    assert "http" not in text


def test_registered_metrics_have_curves_and_their_best(tmp_path):
    folder = tmp_path / "run"
    make_run(folder)
    with (folder / "metrics.jsonl").open("w") as lines:
        for step, value in ((1, 70.0), (2, 50.0), (3, 60.0)):
            others = {"command:./comet.sh": value, "mine": value, "bleu:x": value, "command": 1.0}
            record = {"kind": "eval", "step": step, "ter": value, "perplexity": value, **others}
            lines.write(json.dumps(record | {"chrf": value, "recall": value}) + "\n")
    assert run(str(folder)) == 0
    root, _ = parse(folder / "report.html")
    titles = [svg.attrib["aria-label"] for svg in root.iter("{http://www.w3.org/2000/svg}svg")]
    assert titles == ["TER", "command:./comet.sh", "chrF"]
    table = rows(root)
    assert table["best TER"] == ["50 (step 2)"]
    assert table["best chrF"] == table["best command:./comet.sh"] == ["70 (step 1)"]


def test_one_run_has_all_its_settings_and_costs(tmp_path):
    folder = make_run(tmp_path / "run")
    cost = {"steps": 300, "target_tokens": 12345, "train_seconds": 3723.4, "utilisation": 0.41}
    (tmp_path / "run" / "summary.json").write_text(json.dumps(cost))
    assert run(folder) == 0
    table = rows(parse(tmp_path / "run" / "report.html")[0])
    assert table["batch_size"] == ["4096"]
    assert table["target tokens"] == ["12,345"]
    assert table["time in steps"] == ["1:02:03"]
    assert table["utilisation"] == ["41%"]
    assert "FLOPs by count of matrix products" not in table


@pytest.mark.integration
def test_the_page_is_the_same_every_time(tmp_path):
    """Also in another process, where sets have another order, and at another time."""
    folder = make_run(tmp_path / "run")
    page = tmp_path / "run" / "report.html"
    assert run(folder) == 0
    first = page.read_bytes()
    page.unlink()
    subprocess.run(
        [sys.executable, "-m", "t2t_lite.bin.t2t_report", f"--output_dir={folder}"],
        env={**os.environ, "PYTHONHASHSEED": "12"},
        check=True,
    )
    assert page.read_bytes() == first


def test_a_missing_package_is_named_before_any_run_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = refusal(t2t_report.main, f"--output_dir={tmp_path}/no_run", code=1)
    assert "t2t-report needs more packages: pip install '.[plots]'" in error


def test_names_that_are_not_utf8_are_escaped(tmp_path, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")  # as in most languages' locales
    monkeypatch.setattr("sys.stdout", stdout)
    make_run(tmp_path / "run")
    folder = str((tmp_path / "run").rename(tmp_path / os.fsdecode(b"run\xff")))
    page = tmp_path / os.fsdecode(b"page\xff.html")
    assert run(folder, f"--output_file={page}") == 0
    assert stdout.buffer.getvalue().endswith(rb"/page\udcff.html" + b"\n")
    assert r"run\udcff" in parse(page)[1]


def test_usage_errors_are_one_line(tmp_path):
    good = make_run(tmp_path / "good")
    empty = make_run(tmp_path / "empty", steps=0)
    for (folders, *flags), code, message in (
        ([""], 2, "--output_dir is missing"),
        ([f"{good},{good}/"], 2, "is named twice"),
        ([","], 1, "is not a run folder"),
        ([str(tmp_path)], 1, "is not a run folder"),
        ([f"{good},{empty}"], 1, "holds no record yet"),
        ([good, f"--output_file={good}/metrics.jsonl/x"], 1, "metrics.jsonl"),
    ):
        error = refusal(t2t_report.main, f"--output_dir={folders}", *flags, code=code)
        assert message in error


@pytest.mark.integration
def test_no_tensorflow_is_loaded(tmp_path):
    folder = make_run(tmp_path / "run")
    script = (
        "import sys\nfrom t2t_lite.study.reports.report import write_report\n"
        f"write_report([{folder!r}], '')\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
