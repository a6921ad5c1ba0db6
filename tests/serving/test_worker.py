"""The queue counts each request that waits, also one that is held for the next batch."""

import threading
import time

from t2t_lite.serving.requests import TranslationRequest
from t2t_lite.serving.worker import Worker


def test_a_request_that_did_not_fit_into_the_batch_still_waits():
    turns = [threading.Event() for _ in range(3)]
    batches = iter(turns)
    begun = threading.Semaphore(0)

    def answer(requests: list[TranslationRequest]) -> list[bytes]:
        begun.release()
        assert next(batches).wait(30)
        return [b"" for _ in requests]

    worker = Worker(lambda: answer, queue_size=4)
    worker.start(lambda: None)
    try:
        while not worker.is_ready:
            time.sleep(0.01)
        answers = [worker.submit(TranslationRequest(["x"], 1, False, True))]
        assert begun.acquire(timeout=30)
        long = TranslationRequest(["x" * 9000], 1, False, True)
        answers += [worker.submit(long), worker.submit(long)]
        assert worker.waiting == 2
        turns[0].set()
        assert begun.acquire(timeout=30)
        assert worker.waiting == 1
        turns[1].set()
        assert begun.acquire(timeout=30)
        assert worker.waiting == 0
    finally:
        for turn in turns:
            turn.set()
        worker.close()
    assert [future.result(30) for future in answers] == [b""] * 3
