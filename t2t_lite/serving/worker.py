"""The thread that owns the model, and its queue; waiting requests are answered together."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.serving.requests import TranslationRequest

log = logging.getLogger(__name__)

# A batch takes requests up to this many characters, and a larger one alone; a shorter text counts
# as the second number, because the search's steps cost the same however short it is.
_BATCH_CHARACTERS = 16384
_LEAST_CHARACTERS = 64

# Answers requests together, in order; a request that cannot be answered gets an error. Raises
# TimeoutError if the requests have timed out.
Answerer = Callable[[Sequence[TranslationRequest]], Sequence[bytes | HTTPException]]


class _Job(NamedTuple):
    request: TranslationRequest
    answer: "Future[bytes]"

    @property
    def size(self) -> int:
        return sum(max(len(text), _LEAST_CHARACTERS) for text in self.request.texts)


class Worker:
    """Answers requests in one thread, in the order of their arrival.

    A batch is all that waits when the previous one is done: no request waits for others to come.

    Args:
        load: returns the answerer; called in the thread.
        queue_size: requests that may wait.
    """

    def __init__(self, load: Callable[[], Answerer], queue_size: int) -> None:
        self._load = load
        self._queue: queue.Queue[_Job | None] = queue.Queue(queue_size)
        self._held: _Job | None = None  # the first request of the next batch
        self._thread = threading.Thread(target=self._run, name="translator")
        self._on_failure: Callable[[], None] = lambda: None
        self.is_ready = False
        self.failure: Exception | None = None  # of `load`

    def start(self, on_failure: Callable[[], None]) -> None:
        """Starts loading; calls `on_failure` if that fails."""
        self._on_failure = on_failure
        self._thread.start()

    def close(self) -> None:
        """Answers the waiting requests and ends the thread; do not submit afterwards."""
        self._queue.put(None)
        self._thread.join()

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return self._queue.qsize() + (self._held is not None)

    def submit(self, request: TranslationRequest) -> "Future[bytes]":
        """Queues a request; one whose future is cancelled before its turn is skipped.

        Only the event loop's thread may call this.

        Raises:
            HTTPException: 503: the model is still loading; 429: the queue is full.
        """
        if refusal := self.refusal():
            raise refusal
        job = _Job(request, Future())
        self._queue.put_nowait(job)
        return job.answer

    def refusal(self) -> HTTPException | None:
        """Returns the exception that `submit` would raise now."""
        if not self.is_ready:
            return HTTPException(503, "the model is being loaded", {"Retry-After": "5"})
        if self._queue.full():
            message = f"{self._queue.maxsize} requests are waiting: try again later"
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
        """Waits for a request, and takes those after it too; returns an empty list when closed."""
        batch: list[_Job] = []
        size = 0
        job = self._held or self._queue.get()
        self._held = None
        while job is not None:
            if batch and size + job.size > _BATCH_CHARACTERS:
                self._held = job
                return batch
            batch.append(job)
            size += job.size
            if self._queue.empty():
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
        log.warning("gave up on %d requests that timed out", len(jobs))
        answers = [HTTPException(504, "no answer in time")] * len(jobs)
    except Exception:
        log.exception("a batch of %d requests failed", len(jobs))
        answers = [HTTPException(500, "the translation failed: see the server's log")] * len(jobs)
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, HTTPException):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)
