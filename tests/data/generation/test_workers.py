import collections
import multiprocessing
import operator
import os
import subprocess
import sys
import time

import pytest

from t2t_lite.data.generation.workers import Workers, available_cores
from t2t_lite.errors import UserError

pytestmark = pytest.mark.integration


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


@pytest.mark.parametrize(
    ("num_workers", "tasks"), [(2, 2), (2, 4), (2, 10), (2, 20), (3, 3), (3, 6)]
)
def test_this_process_works_too_and_all_end_together(tmp_path, num_workers, tasks):
    met = tmp_path / "met"
    met.mkdir()
    with Workers(met, tmp_path, num_workers) as workers:
        while len(set(workers.map(process, [0.05] * 3 * num_workers))) < num_workers:
            pass  # not all have started
        done = collections.Counter(workers.map(together, [num_workers] * tasks))
    assert done[os.getpid()] >= 1
    assert max(done.values()) <= tasks // num_workers + 1


def process(folder, task):
    time.sleep(task)
    return os.getpid()


def together(folder, processes):
    """Waits until each process does its nth task, as far as there are so many; returns the own."""
    number = len([*folder.glob(f"{os.getpid()}-*")])
    (folder / f"{os.getpid()}-{number}").touch()
    end = time.monotonic() + 5
    while len([*folder.glob(f"*-{number}")]) < processes and time.monotonic() < end:
        time.sleep(0.005)
    return os.getpid()


def test_tasks_are_read_only_as_work_proceeds(tmp_path):
    taken = 0

    def tasks():
        nonlocal taken
        for task in range(100):
            taken += 1
            yield task

    with Workers(1, tmp_path, 2) as workers:
        for number, _ in enumerate(workers.map(operator.add, tasks()), 1):
            assert taken - number < 64 + 3


def test_results_come_as_soon_as_they_are_there(tmp_path):
    taken = []

    def tasks():
        for number in range(40):
            taken.append(number)
            yield number

    with Workers(tmp_path / "first", tmp_path, 2) as workers:
        next(workers.map(after_the_first, tasks()))
        assert len(taken) < 20


def after_the_first(path, number):
    """Does the first task at once, and the others some time after it."""
    if number == 0:
        path.touch()
    while not path.exists():
        time.sleep(0.005)
    time.sleep(0.1 * (number > 0))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_errors_of_the_work_reach_the_caller(tmp_path, num_workers):
    with Workers(1, tmp_path, num_workers) as workers, pytest.raises(ZeroDivisionError):
        list(workers.map(operator.floordiv, [1, 1, 0, 1, 1]))
    assert multiprocessing.active_children() == []


class TwoPartsError(Exception):
    """An error that pickle cannot copy."""

    def __init__(self, symbol, text):
        super().__init__(f"{symbol} in {text}")


def refuse_elsewhere(job, task):
    if os.getpid() != job:
        raise TwoPartsError("é", task)


def exit_elsewhere(job, task):
    if os.getpid() != job:
        sys.exit("not enough text")


def die_elsewhere(job, task):
    if os.getpid() != job:
        os._exit(3)


_ENDED = rf"^{__file__}, line {exit_elsewhere.__code__.co_firstlineno + 2}: the code ended"


@pytest.mark.parametrize(
    ("work", "tasks", "error", "message"),
    [
        (
            exit_elsewhere,
            ["a text"] * 3,
            UserError,
            f"{_ENDED} the program with code 'not enough t",
        ),
        (refuse_elsewhere, ["a text"] * 3, RuntimeError, r"^TwoPartsError: é in a text$"),
        (die_elsewhere, [3, 3, 3], UserError, "a worker process died"),
        (die_elsewhere, [b"1" * 1_000_000] * 8, UserError, "a worker process died"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_an_error_here(tmp_path, work, tasks, error, message):
    with pytest.raises(error, match=message), Workers(os.getpid(), tmp_path, 2) as workers:
        list(workers.map(work, tasks))


def test_a_job_that_cannot_be_pickled_is_an_error(tmp_path):
    message = r"pickled.*--num_workers=1"
    with pytest.raises(UserError, match=message), Workers(lambda: 0, tmp_path, 2) as workers:
        list(workers.map(operator.add, [1, 2]))


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("bad", [0, 2, 7])
def test_the_first_error_is_raised_after_the_results_before_it(tmp_path, num_workers, bad):
    def tasks():
        for number in range(8):
            if number == bad + 1:
                raise ValueError
            yield 0 if number == bad else 1

    seen: list[int] = []
    with Workers(1, tmp_path, num_workers) as workers, pytest.raises(ZeroDivisionError):
        collect(workers.map(operator.floordiv, tasks()), seen)
    assert seen == [1] * bad


def collect(results, seen: list[int]) -> None:
    for result in results:
        seen.append(result)


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_an_error_of_the_tasks_comes_after_the_results_before_it(tmp_path, num_workers, count):
    def tasks():
        yield from range(count)
        raise ValueError

    seen: list[int] = []
    with Workers(0, tmp_path, num_workers) as workers, pytest.raises(ValueError, match=r"^$"):
        collect(workers.map(operator.add, tasks()), seen)
    assert seen == list(range(count))


_SCRIPT = """
import logging, multiprocessing, pathlib
from t2t_lite.data.generation.workers import Workers
logging.basicConfig(level="INFO")
print("begun")
class Own:
    def add(self, number):
        return number
job, method = {job}
with Workers(job, pathlib.Path("work"), 3) as workers:
    found = []
    for result in workers.map(method, range(40)):
        found.append(result)
        processes = len(multiprocessing.active_children())
print(sum(found), processes)
"""


@pytest.mark.parametrize("how", ["script.py", "-"])
@pytest.mark.parametrize(("job", "processes"), [("1, int.__add__", 2), ("Own(), Own.add", 0)])
def test_a_plain_script_or_a_notebook_is_not_run_again(tmp_path, how, job, processes):
    """What is defined there cannot be loaded elsewhere, so that this process works alone."""
    script = _SCRIPT.format(job=job)
    (tmp_path / "script.py").write_text(script)
    ended = subprocess.run(
        [sys.executable, how], input=script, cwd=tmp_path, capture_output=True, text=True
    )
    total = sum(range(40)) + (40 if processes else 0)
    assert (ended.stdout, ended.returncode) == (f"begun\n{total} {processes}\n", 0), ended.stderr
    assert ("could import it from a module" in ended.stderr) == (processes == 0)


def test_processes_find_the_job_in_the_folder_and_nothing_stays_there(tmp_path):
    (tmp_path / "job.incomplete").write_text("left by a killed run")
    with Workers(100, tmp_path, 2) as workers:
        for _ in workers.map(operator.add, range(4)):
            assert [path.name for path in tmp_path.iterdir()] == ["job.incomplete"]
    assert list(tmp_path.iterdir()) == []


def test_cores_are_counted_on_systems_without_affinity(monkeypatch):
    assert available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available_cores() == 7
