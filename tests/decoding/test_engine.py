"""Batches that several threads work on at a time."""

import threading
import time

import pytest

from t2t_lite.decoding.engine import mapped


@pytest.mark.parametrize("threads", [1, 3])
def test_every_batch_is_worked_on_once_by_so_many_at_a_time(threads):
    together = threading.Barrier(threads)

    def work(batch: int) -> int:
        together.wait(timeout=60)  # fails unless so many are at work
        return batch * batch

    batches = [*range(4, 4 + 2 * threads)]
    assert sorted(mapped(work, batches, threads)) == [(i, n * n) for i, n in enumerate(batches)]


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_are_at_work_at_a_time(threads):
    lock, at_work, most = threading.Lock(), 0, 0

    def work(batch: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.01)
        with lock:
            at_work -= 1

    assert len([*mapped(work, range(30), threads)]) == 30
    assert most <= threads


def test_no_batch_is_begun_after_a_failure():
    begun = []

    def work(batch: int) -> int:
        begun.append(batch)
        time.sleep(0.01)  # 10 s for all
        return 1 // batch

    with pytest.raises(ZeroDivisionError):
        list(mapped(work, [2, 1, 0, *range(1, 1000)], threads=1))
    assert len(begun) < 1000


def test_nothing_is_begun_once_nobody_asks():
    begun = []

    def work(batch: int) -> None:
        begun.append(batch)
        time.sleep(0.01)

    results = mapped(work, range(1000), threads=1)
    next(results)
    results.close()
    assert len(begun) < 1000


@pytest.mark.parametrize("threads", [1, 3])
def test_few_begin_until_the_next_result_is_asked_for(threads):
    begun = []
    results = mapped(begun.append, range(100), threads)
    for asked in range(1, 50):
        next(results)
        assert len(begun) <= threads + 1 + asked


@pytest.mark.parametrize("threads", [1, 3])
def test_a_thread_does_not_wait_for_the_caller_to_write_a_result(threads):
    begun = threading.Semaphore(0)
    results = mapped(lambda batch: begun.release(), range(100), threads)
    next(results)
    for _ in range(threads + 2):  # the first, one for each thread, and the one that waited
        assert begun.acquire(timeout=60)


def test_no_batches_are_no_work():
    assert list(mapped(pytest.fail, [], threads=0)) == []
