"""Parts of a text for several workers: joined, their outputs are those of one process."""

import pathlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commands import decoded, printed_by, refusal
from support.small_runs import noisy_run
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding.input_lines import windows_of
from t2t_lite.decoding.shards import own_files, part_of
from t2t_lite.errors import UsageError

NO_FILES = {"score_file": "", "prefix_file": "", "decode_to_file": ""}


@given(st.integers(0, 30_000), st.integers(1, 40))
def test_parts_are_all_lines_in_order_cut_between_windows(count, shards):
    parts = [part_of(count, shards, worker) for worker in range(shards)]
    assert [line for part in parts for line in part] == list(range(count))
    first, ends = 0, {0}
    for window in windows_of(iter(range(count))):
        first += len(window)
        ends.add(first)
    assert {part.start for part in parts} | {part.stop for part in parts} <= ends


@pytest.mark.parametrize("shards", [4, 16])
def test_parts_of_a_large_text_are_nearly_equal(shards):
    sizes = [len(part_of(10**6, shards, worker)) for worker in range(shards)]
    assert max(sizes) - min(sizes) <= 2 * 4096


def test_a_workers_own_file_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = {"decode_from_file": "in", "decode_shards": 12, "worker_id": 11, **NO_FILES}
    pathlib.Path("in").touch()
    assert own_files({**flags, "decode_to_file": "out"}) == {"decode_to_file": "out011"}
    pathlib.Path("in011").touch()
    whole = {"decode_from_file": "in011", "decode_shards": 1, "worker_id": 0}
    assert own_files(flags) == whole
    assert own_files({**flags, "decode_shards": 1, "worker_id": 0}) == {}


@pytest.mark.parametrize("flag", ["decode_from_file", "score_file", "prefix_file"])
@pytest.mark.parametrize(("shards", "unread"), [(2, "in002"), (3, "in003"), (12, "in012")])
def test_a_part_that_no_worker_would_read_is_refused(tmp_path, monkeypatch, flag, shards, unread):
    monkeypatch.chdir(tmp_path)
    flags = {"decode_from_file": "text", **NO_FILES, flag: "in", "decode_shards": shards}
    for worker in range(shards):
        for name in ("in", "text"):
            pathlib.Path(f"{name}{worker:03d}").touch()
    workers = {0, 1, shards - 1}
    for worker in workers:
        assert own_files({**flags, "worker_id": worker})[flag] == f"in{worker:03d}"
    pathlib.Path(unread).touch()
    for worker in workers:
        with pytest.raises(UsageError, match=rf"--decode_shards={shards}, but {unread} is a part"):
            own_files({**flags, "worker_id": worker})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--worker_id=2"], "--worker_id=2, but --decode_shards=2: the workers are 0 to 1"),
        (["--worker_id=0"], "in001 is a part of the text for a worker, but in000 is not there"),
        (["--decode_reference=in"], "exclude each other: no worker has all outputs"),
        (["--decode_from_file=-"], "--decode_shards needs lines to share"),
        (["--decode_from_file="], "--decode_shards needs lines to share"),
        (["--decode_from_file=a.po"], "--decode_shards needs lines to share"),
    ],
)
def test_what_cannot_be_shared_is_refused(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in", "in001", "a.po"):
        pathlib.Path(name).touch()
    own = "--output_dir=run", "--decode_from_file=in", "--decode_shards=2"
    assert message in refusal(t2t_decoder.main, *own, *words)


@pytest.mark.integration
@pytest.mark.parametrize("engine", ["tensorflow", "ctranslate2"])
def test_joined_outputs_are_those_of_one_process(engine, tmp_path):
    """With scores, which show every rounding; and whatever worker is started again."""
    noisy_run(tmp_path / "run", hidden_size=16, num_hidden_layers=1)
    lines = [f"line {number} " + "word " * (number % 7) for number in range(50)]
    own = "--decode_hparams=beam_size=2,extra_length=1", f"--engine={engine}", "--worker_gpu=0"
    own = *own, "--output_format=json"
    source = f"--decode_from_file={tmp_path}/in.txt"
    one = decoded(tmp_path, source, *own, text=lines)
    for worker in (0, 1, 2, 1):
        part = "--decode_shards=3", f"--worker_id={worker}", f"--decode_to_file={tmp_path}/parts"
        printed_by(t2t_decoder.main, f"--output_dir={tmp_path}/run", source, *own, *part)
    joined = subprocess.check_output(f"cat {tmp_path}/parts???", shell=True, text=True)
    assert joined.splitlines() == one
    assert all((tmp_path / f"parts00{worker}").stat().st_size for worker in range(3))
