"""The queue counts each request that waits; large requests take turns, short ones between them."""

import contextlib
import threading
import time

import pytest
from starlette.exceptions import HTTPException

from support.servers import without_pause
from t2t_lite.decoding.request import TextOptions
from t2t_lite.errors import ExitError
from t2t_lite.serving.requests import TranslationRequest
from t2t_lite.serving.worker import Answers, Worker


def test_a_request_that_did_not_fit_into_the_batch_still_waits():
    turns = [threading.Event() for _ in range(3)]
    batches = iter(turns)
    begun = threading.Semaphore(0)

    @without_pause
    def answer(requests):
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


@contextlib.contextmanager
def closing(answerer, queue_size=9):
    """A worker that is ready; at the end of the block, all is answered."""
    worker = Worker(lambda: answerer, queue_size)
    worker.start(lambda: None)
    try:
        while not worker.is_ready:
            time.sleep(0.01)
        yield worker
    finally:
        worker.close()


class InSlices:
    """Pauses between the texts of a request, which are its slices, and notes each of them."""

    def __init__(self) -> None:
        self.begun, self.sent = threading.Event(), threading.Event()
        self.done: list[str] = []

    def __call__(self, requests: list[TranslationRequest]) -> Answers:
        self.begun.set()
        assert self.sent.wait(30)
        if len(requests) == 1:
            for number, text in enumerate(requests[0].texts):
                if number:
                    yield
                self.done.append(text[:5])
        else:
            self.done.append(" and ".join(request.texts[0][:5] for request in requests))
        return [request.texts[0][:1].encode() for request in requests]


def large(letter: str) -> TranslationRequest:
    return TranslationRequest(
        [f"{letter}{part}".ljust(9000, "x") for part in range(3)], 1, False, False
    )


def test_after_each_slice_of_large_requests_short_ones_have_their_turn():
    answerer = InSlices()
    with closing(answerer) as worker:
        answers = [worker.submit(large("a"))]
        assert answerer.begun.wait(30)
        answers += [worker.submit(large("b"))]
        for text in ("m" * 16_384, "a cat", "a dog"):
            answers.append(worker.submit(TranslationRequest([text], 1, False, True)))
        answerer.sent.set()
    assert [future.result(30) for future in answers] == [b"a", b"b", b"m", b"a", b"a"]
    in_turns = ["a0xxx", "mmmmm", "a1xxx", "a cat and a dog", "b0xxx", "a2xxx", "b1xxx", "b2xxx"]
    assert answerer.done == in_turns


def test_terms_make_a_request_large():
    """The search with terms may keep several times as many hypotheses."""
    texts, terms = ["a cat".ljust(120)] * 20, TextOptions(terms={"cat": "Kater"})
    assert not TranslationRequest(texts, 1, False, False).is_large
    assert TranslationRequest(texts, 1, False, False, terms).is_large
    assert not TranslationRequest(texts[:1], 1, False, True, terms).is_large


def test_a_few_large_requests_take_turns_the_oldest_first():
    answerer = InSlices()
    with closing(answerer) as worker:
        answers = [worker.submit(large("a"))]
        assert answerer.begun.wait(30)
        answers += [worker.submit(large(letter)) for letter in "bcdefg"]
        assert answers[-1].cancel()
        answerer.sent.set()
    assert [future.result(30) for future in answers[:-1]] == [
        letter.encode() for letter in "abcdef"
    ]
    # The first one began alone; four take turns at a time.
    assert "".join(text[0] for text in answerer.done) == "aabcdabcdebcdefeff"


def test_a_large_request_that_fails_leaves_the_others_their_turns():
    answerer = InSlices()

    def fail_in_the_second_slice(requests):
        answers = answerer(requests)
        if requests[0].texts[0].startswith("a"):
            yield next(answers)
            raise TimeoutError
        return (yield from answers)

    answerer.sent.set()
    with closing(fail_in_the_second_slice) as worker:
        answers = [worker.submit(large("a")), worker.submit(large("b"))]
    with pytest.raises(HTTPException) as error:
        answers[0].result(30)
    assert error.value.status_code == 504
    assert answers[1].result(30) == b"b"


def test_a_large_request_that_nobody_waits_for_is_given_up():
    answerer = InSlices()
    with closing(answerer) as worker:
        answers = [worker.submit(large(letter)) for letter in "abc"]
        assert answerer.begun.wait(30)
        assert not answers[0].cancel(), "it has begun"
        assert answers[1].cancel(), "it has not"
        answerer.sent.set()
    assert answers[2].result(30) == b"c"
    assert "".join(text[0] for text in answerer.done) == "accc"


def test_what_nobody_waits_for_does_not_fill_the_queue():
    answerer = InSlices()
    short = TranslationRequest(["x"], 1, False, True)
    with closing(answerer, queue_size=2) as worker:
        worker.submit(short)
        assert answerer.begun.wait(30)
        answers = [worker.submit(short), worker.submit(short)]
        with pytest.raises(HTTPException) as error:
            worker.submit(short)
        assert error.value.status_code == 429
        assert answers[0].cancel()
        assert worker.waiting == 1
        answers.append(worker.submit(short))
        answerer.sent.set()
    assert [future.result(30) for future in answers[1:]] == [b"x"] * 2


@pytest.mark.parametrize("fault", [ValueError("a defect"), SystemExit(3)])
def test_a_defect_spoils_no_other_request_of_its_batch(fault):
    gate = threading.Event()
    sizes = []

    @without_pause
    def answer(requests):
        assert gate.wait(30)
        sizes.append(len(requests))
        if any(request.texts == ["bad"] for request in requests):
            raise fault
        return [b"good"] * len(requests)

    with closing(answer) as worker:
        texts = ["first", "good", "bad", "good"]
        answers = [worker.submit(TranslationRequest([text], 1, False, True)) for text in texts]
        gate.set()
    for text, future in zip(texts, answers, strict=True):
        if text == "bad":
            with pytest.raises(HTTPException) as error:
                future.result(30)
            assert error.value.status_code == 500
        else:
            assert future.result(30) == b"good"
    assert max(sizes) > 1


def test_a_model_that_ends_the_process_while_it_is_loaded_is_a_failure():
    failed = threading.Event()

    def load():
        raise SystemExit("enough")

    worker = Worker(load, 9)
    worker.start(failed.set)
    assert failed.wait(30)
    worker.close()
    assert isinstance(worker.failure, ExitError)
