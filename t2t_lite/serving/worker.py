"""The thread that owns the model, and the queue before it: what waits is answered together."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.serving.requests import TranslationRequest

log = logging.getLogger(__name__)

# Requests are taken together until they have so many characters; a text counts as at least the
# second number, because the search's steps cost the same however short it is.
_BATCH_CHARACTERS = 16384
_LEAST_CHARACTERS = 64

# Answers requests together, in their order; a request that cannot be answered gets an error. Raises
# TimeoutError if it gave up because nobody waits any more.
Answerer = Callable[[Sequence[TranslationRequest]], Sequence[bytes | HTTPException]]


class _Job(NamedTuple):
    request: TranslationRequest
    answer: "Future[bytes]"

    @property
    def size(self) -> int:
        return sum(max(len(text), _LEAST_CHARACTERS) for text in self.request.texts)


class Worker:
    """Answers requests in one thread, in the order in which they came.

    A batch is whatever waits when the one before is done: nobody waits for company.

    Args:
        load: returns what answers; called in the thread.
        queue_size: requests that may wait.
    """

    def __init__(self, load: Callable[[], Answerer], queue_size: int) -> None:
        self._load = load
        self._queue: queue.Queue[_Job | None] = queue.Queue(queue_size)
        self._thread = threading.Thread(target=self._run, name="translator")
        self._on_failure: Callable[[], None] = lambda: None
        self.is_ready = False
        self.failure: Exception | None = None  # of `load`

    def start(self, on_failure: Callable[[], None]) -> None:
        """Begins to load; calls `on_failure` if that fails."""
        self._on_failure = on_failure
        self._thread.start()

    def close(self) -> None:
        """Answers what waits, and returns when the thread has ended; nothing may come after."""
        self._queue.put(None)
        self._thread.join()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._queue.qsize()

    def submit(self, request: TranslationRequest) -> "Future[bytes]":
        """Queues a request; if its future is cancelled before its turn, it is passed over.

        Only one thread may: the event loop's.

        Raises:
            HTTPException: 503: the model is not loaded yet; 429: the queue is full.
        """
        if refusal := self.refusal():
            raise refusal
        job = _Job(request, Future())
        self._queue.put_nowait(job)
        return job.answer

    def refusal(self) -> HTTPException | None:
        """Returns what `submit` would raise now."""
        if not self.is_ready:
            return HTTPException(503, "the model is being loaded", {"Retry-After": "5"})
        if self._queue.full():
            message = f"{self._queue.maxsize} requests are waiting already: come again later"
            return HTTPException(429, message, {"Retry-After": "1"})
        return None

    def _run(self) -> None:
        try:
            answerer = self._load()
        except Exception as error:
            self.failure = error
            self._on_failure()
            return
        self.is_ready = True
        while batch := self._next_batch():
            wanted = [job for job in batch if job.answer.set_running_or_notify_cancel()]
            if wanted:
                _answer(answerer, wanted)

    def _next_batch(self) -> list[_Job]:
        """Waits for a request, and takes those behind it too; returns none when closed."""
        batch: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            if sum(job.size for job in batch) >= _BATCH_CHARACTERS or self._queue.empty():
                return batch
            job = self._queue.get()
        if batch:
            self._queue.put(None)  # for the next call
        return batch


def _answer(answerer: Answerer, jobs: Sequence[_Job]) -> None:
    answers: Sequence[bytes | HTTPException]
    try:
        answers = answerer([job.request for job in jobs])
    except TimeoutError:
        log.warning("gave up %d requests that took too long: nobody waits any more", len(jobs))
        answers = [HTTPException(504, "no answer in time")] * len(jobs)
    except Exception:
        log.exception("a batch of %d requests failed", len(jobs))
        answers = [HTTPException(500, "the translation failed: see the server's log")] * len(jobs)
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, HTTPException):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)
