"""Progress of long work: log lines on stderr; in a terminal, bars."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

_PACKAGE = "t2t_lite"
_SECONDS_BETWEEN_LINES = 10.0

# Shows how many units are done and, as text, how many per second.
_Show = Callable[[int, str], None]


@contextlib.contextmanager
def progress(
    description: str, total: int | None = None, unit: str = "samples"
) -> Iterator[Callable[[int], None]]:
    """Shows progress on standard error while the block runs.

    Args:
        description: what is being done.
        total: total number of units; None if unknown.
        unit: what is counted.

    Yields:
        A function to call with the number of units done since the last call.
    """
    done = 0
    start = time.monotonic()
    display = _bar if sys.stderr.isatty() else _log_lines
    with display(description, total) as show:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            rate = done / max(time.monotonic() - start, 1e-9)
            show(done, f"{unit}, {rate:,.0f} {unit}/s")

        yield advance


@contextlib.contextmanager
def _bar(description: str, total: int | None) -> Iterator[_Show]:
    from rich import console, progress  # here, because only a terminal needs it

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
    )
    with progress.Progress(*columns, console=console.Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, rate="")
        yield lambda done, rate: bar.update(task, completed=done, rate=rate)


@contextlib.contextmanager
def _log_lines(description: str, total: int | None) -> Iterator[_Show]:
    latest = ""
    last_line = time.monotonic()

    def show(done: int, rate: str) -> None:
        nonlocal latest, last_line
        latest = f"{description}: {done:,}{f' of {total:,}' if total else ''} {rate}"
        if time.monotonic() - last_line >= _SECONDS_BETWEEN_LINES:
            log.info(latest)
            last_line = time.monotonic()

    yield show
    if latest:
        log.info("%s, done", latest)


def duration(seconds: float) -> str:
    """Formats a duration as hours, minutes and whole seconds, such as "1:02:03" or "26:00:00"."""
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"


class _CurrentStderr(logging.StreamHandler):
    """Writes to the current `sys.stderr`, so that a live progress display can catch the lines."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


@contextlib.contextmanager
def log_lines() -> Iterator[None]:
    """Prints this package's log messages of level INFO and above on stderr."""
    logger = logging.getLogger(_PACKAGE)
    handler = _CurrentStderr()
    handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(message)s", "%H:%M:%S"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@contextlib.contextmanager
def shown_progress() -> Iterator[None]:
    """Prints log messages as `log_lines` does, unless the program has configured logging."""
    logger = logging.getLogger(_PACKAGE)
    is_configured = logger.hasHandlers() or logger.level != logging.NOTSET
    with contextlib.nullcontext() if is_configured else log_lines():
        yield
