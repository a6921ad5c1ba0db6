"""Damaged files of a run folder: one line that names the file, or a warning.

All files are small and in JSON; the weights, vocabularies and data have tests of their own.
"""

import contextlib
import json
import pathlib
import shutil
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite import registry
from t2t_lite.data.generation import fingerprint
from t2t_lite.errors import UserError
from t2t_lite.interop.imports import t2t_settings
from t2t_lite.runs import metrics_jsonl, run_creation, run_folder
from t2t_lite.runs.opening import seed_and_parts
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.runs.selection import Criterion
from t2t_lite.study.reports import report
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.cost_tracker import CostTracker, Hardware, Summary
from t2t_lite.training.run_log import MetricsWriter
from t2t_lite.training.totals import Totals

PROBLEM = "algorithmic_reverse_decimal40"
FINGERPRINT = "x.fingerprint.json"
OBJECTS = ["flags.json", "hparams.json", "summary.json", FINGERPRINT]
LINES = ["metrics.jsonl"]
NAMES = [*OBJECTS, *LINES, "versions.json", "flags.txt"]
RECORDS = [
    {"kind": "train", "step": 10, "loss": 2.5, "sentences": 3, "target_tokens": 30},
    {"kind": "eval", "step": 10, "loss": 2.25, "bleu": 1.0, "bleu_signature": "v:2"},
    {"kind": "train", "step": 20, "loss": 1.5, "sentences": 3, "target_tokens": 30},
]
ENTRY = {
    "sources": {"a.de": {"size": 3, "mtime_ns": 5, "sha256": "00"}},
    "options": {"skip_bad": False},
    "vocabulary": {"vocab.x": "11"},
    "versions": {"t2t_lite": "1.0"},
    "samples": "22",
}


def write_run(folder: pathlib.Path) -> None:
    """Creates a run folder with all files except weights and vocabularies."""
    hparams = registry.hparams("transformer_test").freeze()
    flags = {"problem": PROBLEM, "model": "transformer", "hparams_set": "transformer_test"}
    flags |= {"output_dir": str(folder), "data_dir": "data", "random_seed": 1, "parts": 2}
    run_creation.create_run(RunSettings.of(flags), hparams, str(folder))
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (folder / "metrics.jsonl").write_text(lines)
    summary = Summary(steps=20, train_seconds=5.5, flops_by_time=1e12, devices=1)
    (folder / "summary.json").write_text(json.dumps(vars(summary)))
    (folder / FINGERPRINT).write_text(json.dumps({"train": ENTRY}))
    (folder / "flags.txt").write_text(f"--problem={PROBLEM}\n--model=transformer\n")


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sound")
    write_run(folder)
    return folder


@pytest.fixture(scope="module")
def broken(sound) -> pathlib.Path:
    """A copy to break, one file at a time."""
    return pathlib.Path(shutil.copytree(sound, sound.with_name("broken")))


@pytest.fixture(scope="module", autouse=True)
def _plots_are_drawn_once():
    """Spares drawing the same points again: damage leaves most plots of a report as they are."""
    drawn: dict[str, str] = {}

    def line_plot(*points: Any, draw=report.line_plot) -> str:
        key = repr(points)
        if key not in drawn:
            drawn[key] = draw(*points)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "line_plot", line_plot)
        yield


def config(folder: pathlib.Path) -> TrainerConfig:
    return TrainerConfig(
        data_dir="data",
        output_dir=str(folder),
        problem=PROBLEM,
        model="transformer",
        hparams_set="transformer_test",
    )


def unexpected_errors(folder: pathlib.Path, damaged: str) -> list[Exception]:
    """Reads every file of the folder as the commands do.

    Args:
        folder: of the run.
        damaged: the name of the file that may be damaged.

    Returns:
        The errors that are not for the user.
    """

    def read_for_report() -> None:
        if damaged in LINES:  # the only file that is drawn, which takes most of the time
            report.write_report([str(folder)], str(folder / "report.html"))
        else:
            report._read_run(str(folder), "run")

    hparams = registry.hparams("transformer_test")
    window = types.SimpleNamespace(numpy=lambda: np.zeros(len(Totals._fields)))
    readers = (
        lambda: run_folder.RunFolder.open(str(folder)),
        lambda: seed_and_parts(str(folder), None, hparams, 1),
        lambda: Criterion("loss", True).curve(folder),
        lambda: CostTracker(folder, 0, window, Hardware(1, 1.0)),
        read_for_report,
        lambda: fingerprint._read(folder / FINGERPRINT),
        lambda: t2t_settings.find_hparams(folder, t2t_settings.read_flags(folder)),
        lambda: t2t_settings.find_problem(folder, t2t_settings.read_flags(folder)),
    )
    unexpected: list[Exception] = []
    for read in readers:
        try:
            read()
        except UserError:
            pass
        except Exception as error:
            unexpected.append(error)
    return unexpected


def test_what_is_sound_is_read(sound):
    assert run_folder.RunFolder.open(str(sound)).parts == 2
    assert [record for _, record in metrics_jsonl.read_records(sound)] == RECORDS
    assert run_folder.read_summary(sound)["train_seconds"] == 5.5
    assert fingerprint._read(sound / FINGERPRINT)["train"].samples == "22"


_CUTS = st.tuples(st.floats(0, 1), st.integers(0, 9), st.binary(max_size=9))


@pytest.mark.integration
@settings(max_examples=150)
@given(st.sampled_from(NAMES), st.lists(_CUTS, min_size=1, max_size=4))
def test_bytes_replaced_anywhere(sound, broken, name, cuts):
    text = (sound / name).read_bytes()
    for where, length, new in cuts:
        start = int(where * len(text))
        text = text[:start] + new + text[start + length :]
    with replaced(broken / name, text):
        assert not unexpected_errors(broken, name)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
) | st.sampled_from([10**400, 2**64, -1, 0, 1e308, 5e-324, "\0", "\ud800", "x" * 5000])


@pytest.mark.integration
@settings(max_examples=200)
@given(st.sampled_from([*OBJECTS, *LINES]), st.floats(0, 1), _VALUES, st.booleans())
def test_a_value_of_another_kind_or_none(sound, broken, name, where, value, is_missing):
    text = (sound / name).read_text()
    parsed = [json.loads(line) for line in (text.splitlines() if name in LINES else [text])]
    places = list(_places(parsed))
    holder, key = places[int(where * (len(places) - 1))]
    holder[key] = value
    if is_missing:
        del holder[key]
    with replaced(broken / name, "".join(json.dumps(line) + "\n" for line in parsed).encode()):
        assert not unexpected_errors(broken, name)


def _places(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the container and key of each value, at any depth."""
    keys = range(len(holder)) if isinstance(holder, list) else holder
    for key in keys:
        yield holder, key
        if isinstance(holder[key], list | dict):
            yield from _places(holder[key])


@contextlib.contextmanager
def replaced(path: pathlib.Path, contents: bytes) -> Iterator[None]:
    """Changes the contents of a file within the block."""
    before = path.read_bytes()
    path.write_bytes(contents)
    try:
        yield
    finally:
        path.write_bytes(before)


def opened(folder: pathlib.Path) -> run_folder.RunFolder:
    return run_folder.RunFolder.open(str(folder))


def hparams_of_t2t(folder: pathlib.Path) -> Any:
    return t2t_settings.find_hparams(folder, {})


@pytest.mark.parametrize(
    ("read", "name", "contents", "message"),
    [
        (opened, "flags.json", b'{"problem": "x"}', r"flags\.json has no field 'model'"),
        (opened, "flags.json", b"[]", r"flags\.json is damaged: expected a JSON object, got \[\]"),
        (opened, "flags.json", b'{"model": 3}', r"flags\.json: expected text as 'model', got 3"),
        (opened, "hparams.json", b"[1]", r"n is damaged: expected a JSON object, got \[1\]"),
        (opened, "hparams.json", b'{"hidden_size": "8"}', r"rams\.json: hparam hidden_size='8': "),
        (opened, "hparams.json", b'{"attention_dropout": NaN}', r"n: .*=nan: expected a number"),
        (opened, "hparams.json", b"\0" * 50, r"hparams\.json is damaged: not JSON"),
        (opened, "hparams.json", b"[" * 10**5, r"hparams\.json is damaged: .* nested too deeply"),
        (hparams_of_t2t, "hparams.json", b"[]", r"s\.json: expected a JSON object, got \[\]"),
        (t2t_settings.read_flags, "flags.txt", b"--problem=\xff\n", r"'utf-8' codec .* --problem"),
        (
            run_folder.read_summary,
            "summary.json",
            b'{"train_seconds": "5"}',
            r"summary\.json: expected .*'train_seconds', got '5'.*delete",
        ),
    ],
    ids=map(str, range(11)),
)
def test_a_damaged_file_is_named(broken, read, name, contents, message):
    with replaced(broken / name, contents), pytest.raises(UserError, match=message):
        read(broken)


@pytest.mark.parametrize("name", ["random_seed", "parts"])
def test_a_run_that_cannot_resume_without_a_field(broken, name):
    flags = json.loads((broken / "flags.json").read_text())
    del flags[name]
    with (
        replaced(broken / "flags.json", json.dumps(flags).encode()),
        pytest.raises(UserError, match=rf"flags\.json has no field '{name}'"),
    ):
        seed_and_parts(str(broken), None, registry.hparams("transformer_test"), 1)


@pytest.fixture
def damaged(tmp_path) -> pathlib.Path:
    """metrics.jsonl with zeros as after a power cut, garbage, and a line truncated by a kill."""
    path = tmp_path / "metrics.jsonl"
    first, second, third = (json.dumps(record).encode() + b"\n" for record in RECORDS)
    odd = [b"\0" * 99 + b"\n", b"\xff\n", b'{"step": 1}\n', b'{"kind": "eval", "step": "1"}\n']
    path.write_bytes(first + odd[0] + second + b"".join(odd[1:]) + third + b'{"kind": "tr')
    return path


def test_damaged_records_are_skipped_with_a_warning(damaged, caplog):
    assert [record for _, record in metrics_jsonl.read_records(damaged.parent)] == RECORDS
    (message,) = caplog.messages
    assert f"{damaged} is damaged: skipped 4 lines, the first of which is line 2" in message


def test_a_tail_of_zeros_is_damage_and_a_torn_line_is_not(damaged, caplog):
    line = json.dumps(RECORDS[0]).encode() + b"\n"
    damaged.write_bytes(line + b'{"kind": "tr')
    assert len(list(metrics_jsonl.read_records(damaged.parent))) == 1
    assert not caplog.messages
    damaged.write_bytes(line + b"\0" * 3_000_000)
    assert len(list(metrics_jsonl.read_records(damaged.parent))) == 1
    assert "is damaged: skipped 3 lines, the first of which is line 2" in caplog.text


def test_going_on_cuts_what_is_damaged(damaged, caplog):
    metrics = MetricsWriter(damaged.parent, 15)
    assert metrics.evaluated == {10}
    assert [json.loads(line) for line in damaged.read_bytes().splitlines()] == RECORDS[:2]
    assert "they are removed when training resumes" in caplog.text


def test_evaluating_only_adds_to_the_records(damaged):
    before = damaged.read_bytes()
    MetricsWriter(damaged.parent).write("evaluate", 10, {"loss": 2.0})
    assert damaged.read_bytes() == before + b'\n{"kind": "evaluate", "step": 10, "loss": 2.0}\n'
    kinds = [record["kind"] for _, record in metrics_jsonl.read_records(damaged.parent)]
    assert kinds == ["train", "eval", "train", "evaluate"]
