"""The queue counts each request that waits, also one that is held for the next batch."""

import threading
import time

from t2t_lite.serving.requests import TranslationRequest
from t2t_lite.serving.worker import Worker


def test_a_request_that_did_not_fit_into_the_batch_still_waits():
    turns = [threading.Event() for _ in range(3)]
    batches = iter(turns)
    begun = threading.Semaphore(0)

    def answer(requests: list[TranslationRequest], between) -> list[bytes]:
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


def test_between_slices_of_a_large_request_short_ones_have_their_turn():
    begun, sent = threading.Event(), threading.Event()
    done = []

    def answer(requests: list[TranslationRequest], between) -> list[bytes]:
        if len(requests[0].texts) > 1:
            begun.set()
            assert sent.wait(30)
            for part in range(3):
                done.append(part)
                between()
        done.extend(request.texts[0] for request in requests)
        return [b"" for _ in requests]

    worker = Worker(lambda: answer, queue_size=9)
    worker.start(lambda: None)
    try:
        while not worker.is_ready:
            time.sleep(0.01)
        large = TranslationRequest(["x" * 9000] * 3, 1, False, False)
        answers = [worker.submit(large)]
        assert begun.wait(30)
        answers += [worker.submit(large._replace(texts=["y" * 9000] * 3))]
        for text in ("m" * 16_000, "a cat", "a dog"):
            answers.append(worker.submit(large._replace(texts=[text], is_single=True)))
        sent.set()
    finally:
        worker.close()
    assert [future.result(30) for future in answers] == [b""] * 5
    assert [one if isinstance(one, int) else one[:5] for one in done[:3]] == [0, "a cat", "a dog"]
