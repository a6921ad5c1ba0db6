import collections
import multiprocessing
import operator
import os
import subprocess
import sys
import time

import pytest

from t2t_lite.data.workers import Workers, available_cores
from t2t_lite.errors import UserError


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_results_come_in_the_order_of_the_tasks(tmp_path, num_workers):
    with Workers(100, tmp_path, num_workers) as workers:
        assert list(workers.map(operator.add, range(20))) == list(range(100, 120))
        assert list(workers.map(operator.sub, range(3))) == [100, 99, 98]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("num_workers", "here", "tasks"), [(1, False, 9), (4, True, 9), (4, False, 1)]
)
def test_no_process_is_started_for_little(tmp_path, num_workers, here, tasks):
    with Workers(100, tmp_path, num_workers) as workers:
        for _ in workers.map(operator.add, range(tasks), here=here):
            assert multiprocessing.active_children() == []


def test_processes_have_the_whole_work_between_them(tmp_path):
    with Workers(time.sleep, tmp_path, 2) as workers:
        list(workers.map(operator.call, [0.0] * 4))
        start = time.monotonic()
        list(workers.map(operator.call, [0.1] * 20))
        assert 1.0 <= time.monotonic() - start < 1.9


def process(job, task):
    time.sleep(task)
    return os.getpid()


def test_this_process_works_too_while_the_others_have_enough_to_do(tmp_path):
    with Workers(None, tmp_path, 3) as workers:
        for _ in range(2):  # while the others start, and then
            done = collections.Counter(workers.map(process, [0.05] * 60))
        assert len(done) == 3
        assert min(done.values()) >= 10
        assert os.getpid() in done


def test_tasks_are_taken_only_as_the_work_goes_on(tmp_path):
    taken = 0

    def tasks():
        nonlocal taken
        for task in range(100):
            taken += 1
            yield task

    with Workers(1, tmp_path, 2) as workers:
        for number, _ in enumerate(workers.map(operator.add, tasks()), 1):
            assert taken - number < 64


@pytest.mark.parametrize("num_workers", [1, 2])
def test_errors_of_the_work_reach_the_caller(tmp_path, num_workers):
    with Workers(1, tmp_path, num_workers) as workers:
        results = workers.map(operator.floordiv, [1, 1, 0, 1, 1])
        with pytest.raises(ZeroDivisionError):
            list(results)
    assert multiprocessing.active_children() == []


def test_a_worker_that_dies_is_an_error(tmp_path):
    with (
        pytest.raises(UserError, match="a worker process died"),
        Workers(os.getpid(), tmp_path, 2) as workers,
    ):
        list(workers.map(die_elsewhere, [3, 3, 3]))


def die_elsewhere(job, task):
    if os.getpid() != job:
        os._exit(3)


_UNGUARDED = """
import pathlib
from t2t_lite.data.workers import Workers
with Workers(b"0" * 1_000_000, pathlib.Path(__file__).parent, 2) as workers:
    list(workers.map(bytes.__add__, [b"1" * 1_000_000] * 8))
"""


def test_workers_that_cannot_start_are_an_error_however_much_they_are_to_be_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_UNGUARDED)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "UserError: a worker process died" in ended.stderr


def test_a_worker_that_dies_is_an_error_however_large_the_tasks(tmp_path):
    with (
        pytest.raises(UserError, match="a worker process died"),
        Workers(os.getpid(), tmp_path, 2) as workers,
    ):
        list(workers.map(die_elsewhere, [b"1" * 1_000_000] * 8))


def test_a_job_that_cannot_be_pickled_is_an_error(tmp_path):
    with (
        pytest.raises(UserError, match=r"pickled.*--num_workers=1"),
        Workers(lambda: 0, tmp_path, 2) as workers,
    ):
        list(workers.map(operator.add, [1, 2]))


def test_processes_find_the_job_in_the_folder_and_nothing_stays_there(tmp_path):
    (tmp_path / "job.incomplete").write_text("left by a killed run")
    with Workers(100, tmp_path, 2) as workers:
        for _ in workers.map(operator.add, range(4)):
            assert [path.name for path in tmp_path.iterdir()] == ["job.incomplete"]
    assert list(tmp_path.iterdir()) == []


def test_cores_are_counted_where_there_is_no_affinity(monkeypatch):
    assert available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available_cores() == 7
