"""The thread that owns the model, and its queue; waiting requests are answered together."""

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future

from starlette.exceptions import HTTPException

from t2t_lite.errors import ExitError
from t2t_lite.serving.requests import MOST_TOGETHER, TranslationRequest

log = logging.getLogger(__name__)

# Answers requests together, in order; a request that cannot be answered gets an error. Raises
# TimeoutError if the requests have timed out. Pauses between the batches of the decoder.
Answers = Generator[None, None, Sequence[bytes | HTTPException]]
Answerer = Callable[[Sequence[TranslationRequest]], Answers]

# So many large requests are answered in turns. With more, each might take too long.
_MOST_IN_TURNS = 4


class _Job(Future[bytes]):
    """A request whose answer nobody waits for once it is cancelled, even while it is computed."""

    def __init__(self, request: TranslationRequest) -> None:
        super().__init__()
        self.request: TranslationRequest | None = request
        self.size, self.is_large = request.size, request.is_large
        self.is_awaited = True

    def cancel(self) -> bool:
        """Gives up; returns whether nothing had begun."""
        self.is_awaited = False
        has_not_begun = super().cancel()
        if has_not_begun:
            self.request = None  # its texts need not stay until its turn
        return has_not_begun


class Worker:
    """Answers requests in one thread.

    A batch takes the request that has waited longest, and the shortest of the others as long as
    they fit: no request waits for others to come. A larger request is answered alone, and pauses
    after each batch of the decoder. Then come those that wait, and the next large request goes on.

    Args:
        load: returns the answerer; called in the thread.
        queue_size: requests that may wait.
    """

    def __init__(self, load: Callable[[], Answerer], queue_size: int) -> None:
        self._load = load
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._queue_size = queue_size
        self._submitted: list[_Job] = []  # some may have begun
        self._held: list[_Job] = []  # what was taken from the queue, in order, and waits
        self._in_turns: deque[Iterator[None]] = deque()  # large requests that have begun
        self._is_closed = False
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
        return len(self._not_begun())

    def submit(self, request: TranslationRequest) -> "Future[bytes]":
        """Queues a request.

        One whose future is cancelled before its turn is skipped. What has begun is given up if all
        futures of the batch are cancelled.

        Only the event loop's thread may call this.

        Raises:
            HTTPException: 503: the model is still loading; 429: the queue is full.
        """
        if refusal := self.refusal():
            raise refusal
        job = _Job(request)
        self._submitted = [*self._not_begun(), job]
        self._queue.put(job)
        return job

    def _not_begun(self) -> list[_Job]:
        """Returns the requests that somebody waits for, and that have not begun."""
        return [job for job in self._submitted if not (job.running() or job.done())]

    def refusal(self) -> HTTPException | None:
        """Returns the exception that `submit` would raise now."""
        if not self.is_ready:
            return HTTPException(503, "the model is being loaded", {"Retry-After": "5"})
        if self.waiting >= self._queue_size:
            message = f"{self._queue_size} requests are waiting: try again later"
            return HTTPException(429, message, {"Retry-After": "1"})
        return None

    def _run(self) -> None:
        try:
            answerer = self._load()
        except (Exception, SystemExit) as error:
            self.failure = ExitError(error) if isinstance(error, SystemExit) else error
            self._on_failure()
            return
        self.is_ready = True
        while self._has_work():
            self._begin_large(answerer)
            for _ in _answered(answerer, self._next_batch()):
                pass
            self._continue_large()

    def _has_work(self) -> bool:
        """Waits for a request, unless there is one; returns whether there is, not if closed."""
        if not (self._held or self._in_turns or self._is_closed):
            self._hold(self._queue.get())
        with contextlib.suppress(queue.Empty):
            while True:
                self._hold(self._queue.get_nowait())
        return bool(self._held or self._in_turns)

    def _begin_large(self, answerer: Answerer) -> None:
        """Lets the large requests that have waited longest take turns, as many as may."""
        for job in [job for job in self._held if job.is_large]:
            if len(self._in_turns) < _MOST_IN_TURNS:
                self._held.remove(job)
                self._in_turns.append(_answered(answerer, [job]))

    def _continue_large(self) -> None:
        """Answers the next batch of the large request whose turn it is."""
        if self._in_turns:
            answering = self._in_turns.popleft()
            with contextlib.suppress(StopIteration):
                next(answering)
                self._in_turns.append(answering)

    def _next_batch(self) -> list[_Job]:
        """Returns what has waited longest and the shortest of the others, none of them large."""
        waiting = [job for job in self._held if not job.is_large]
        size, batch = 0, []
        for job in [*waiting[:1], *sorted(waiting[1:], key=lambda job: job.size)]:
            size += job.size
            if size > MOST_TOGETHER:
                break
            batch.append(job)
            self._held.remove(job)
        return batch

    def _hold(self, job: _Job | None) -> None:
        if job is None:
            self._is_closed = True
        else:
            self._held.append(job)


def _answered(answerer: Answerer, batch: Sequence[_Job]) -> Iterator[None]:
    """Answers those of a batch whose clients still wait; pauses where the answerer does."""
    jobs = [job for job in batch if job.set_running_or_notify_cancel()]
    if jobs:
        yield from _answered_together(answerer, jobs)


def _answered_together(answerer: Answerer, jobs: Sequence[_Job]) -> Iterator[None]:
    """Answers requests together; if that fails, each alone, so that only its own client sees it."""
    answers: Sequence[bytes | HTTPException]
    try:
        answering = answerer([job.request for job in jobs if job.request])  # all of them
        while any(job.is_awaited for job in jobs):
            try:
                next(answering)
            except StopIteration as end:
                answers = end.value
                break
            yield
        else:
            answering.close()
            answers = [_late()] * len(jobs)
    except TimeoutError:
        log.warning("gave up on %d requests that timed out", len(jobs))
        answers = [_late()] * len(jobs)
    except (Exception, SystemExit):
        log.exception("a batch of %d requests failed", len(jobs))
        if len(jobs) > 1:
            for job in jobs:
                yield from _answered_together(answerer, [job])
            return
        answers = [HTTPException(500, "the translation failed: see the server's log")]
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, HTTPException):
            job.set_exception(answer)
        else:
            job.set_result(answer)


def _late() -> HTTPException:
    return HTTPException(504, "no answer in time")
