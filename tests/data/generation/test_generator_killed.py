"""Data generation that is killed or fails on a full disk, and its continuation by the next run."""

import contextlib
import hashlib
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from support import numbered
from support.folders import digests, leftovers
from support.limits import full_disk
from support.marks import by_name
from t2t_lite.errors import UserError

pytestmark = pytest.mark.integration


class Small(numbered.Small):
    """2,000 training pairs in 40 files."""

    train_files = 40

    def __init__(self):
        super().__init__(train=2000)


_RUN = """
import runpy, sys
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions

sys.path.append(sys.argv[3])
small = runpy.run_path(sys.argv[1])["Small"]
generator._CHUNK = 20
generator.write_records(small(), sys.argv[2], "", DatagenOptions(num_workers=2))
"""


def start(folder: pathlib.Path) -> subprocess.Popen:
    tests = pathlib.Path(__file__).parents[2]
    command = [sys.executable, "-c", _RUN, __file__, str(folder), str(tests)]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


def wait_until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def session_of(pid: str) -> int:
    with contextlib.suppress(OSError):
        return os.getsid(int(pid))
    return 0


def processes_of(session: int) -> list[str]:
    return [
        path.name
        for path in pathlib.Path("/proc").iterdir()
        if path.name.isdigit()
        and session_of(path.name) == session
        and "\nState:\tZ" not in (path / "status").read_text()
    ]


@pytest.fixture(scope="module")
def many_files(tmp_path_factory) -> dict[str, str]:
    """The files of an undisturbed `_RUN`."""
    folder = tmp_path_factory.mktemp("many")
    numbered.generate(Small(), folder, num_workers=1)
    return digests(folder)


@pytest.mark.parametrize("pattern", ["small-train-chunks.incomplete/0*", "small-train-*-of-00040"])
@pytest.mark.parametrize("master_alone", [False, *by_name(True)])
def test_a_killed_run_ends_at_once_and_resumes(data, many_files, pattern, master_alone):
    run = start(data)
    wait_until(lambda: len(list(data.glob(pattern))) > 10)
    (os.kill if master_alone else os.killpg)(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    wait_until(lambda: not processes_of(run.pid))
    made = {path: path.stat().st_mtime_ns for path in data.glob(pattern)}
    for name in leftovers(data):
        assert hashlib.sha256((data / name).read_bytes()).hexdigest() == many_files[name]

    assert start(data).wait() == 0
    assert digests(data) == many_files
    if pattern.endswith("of-00040"):
        assert {path: path.stat().st_mtime_ns for path in made} == made


def test_a_run_killed_at_random_again_and_again_makes_the_same_files(data, many_files):
    draw = random.Random(1)
    for _ in range(5):
        run = start(data)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(timeout=draw.uniform(0.3, 1.2))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert start(data).wait() == 0
    assert digests(data) == many_files


def test_half_written_files_of_a_killed_run_are_removed(data, many_files):
    for name in ("small-train-00000-of-00009.incomplete", "small-dev-00001-of-00002.incomplete"):
        (data / name).write_text("left by a killed run")
    numbered.generate(Small(), data)
    assert digests(data) == many_files


@pytest.mark.usefixtures("small_chunks")
def test_a_killed_worker_is_an_error_and_the_next_run_resumes(data, many_files):
    class Killing(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            for i, sample in enumerate(super().generate_samples(data_dir, tmp_dir, dataset_split)):
                if i == 500:
                    multiprocessing.active_children()[0].kill()
                yield sample

    with pytest.raises(UserError, match="a worker process died"):
        numbered.generate(Killing(), data, num_workers=2)
    assert leftovers(data) == []
    numbered.generate(Small(), data, num_workers=2)
    assert digests(data) == many_files


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("room", [100, 1000])
def test_a_full_disk_is_an_error_that_names_a_file(data, room, num_workers):
    with full_disk(room), pytest.raises(OSError, match=r"too large: .*small-train-chunks"):
        numbered.generate(Small(), data, num_workers=num_workers)
    assert leftovers(data) == []
    assert list(data.glob("*/*")) == []
