"""Handles SIGTERM, sent by schedulers, and SIGINT (Ctrl-C): training saves and stops."""

import contextlib
import os
import signal
import threading
import types
from collections.abc import Iterator

from t2t_lite.errors import UserError

_STOPPED = "stopped by {}; run the same command again to resume"


class PreemptionError(UserError):
    """SIGTERM arrived, and everything is saved: the same command resumes the run."""

    exit_code = os.EX_TEMPFAIL  # 75: "try again"


class StopSignals(contextlib.AbstractContextManager["StopSignals"]):
    """Within its block, SIGTERM and SIGINT raise an exception, but not in the middle of a step.

    SIGTERM raises PreemptionError, SIGINT KeyboardInterrupt as usual. A signal that the process was
    started to ignore stays ignored.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None  # the last one
        self._is_held = False
        self._handlers = contextlib.ExitStack()  # restores the previous handlers

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in (signal.SIGTERM, signal.SIGINT):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before = signal.signal(number, self._receive)
                    self._handlers.callback(signal.signal, number, before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._handlers.close()
        if isinstance(error, Exception) and not isinstance(error, UserError) and self.received:
            self.check()  # a library has swallowed the exception, and then failed

    def check(self) -> None:
        """Raises the exception of the signal that has arrived, if any."""
        if self.received is signal.SIGINT:
            raise KeyboardInterrupt(_STOPPED.format("Ctrl-C"))
        if self.received:
            raise PreemptionError(_STOPPED.format("SIGTERM"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Defers signals to the end of the block; a second SIGINT takes effect at once."""
        with self._holding(True):
            yield
        self.check()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Within `held`, lets signals take effect at once, including one already deferred."""
        with self._holding(False):
            self.check()
            yield
            self.check()  # a library may have swallowed the exception

    @contextlib.contextmanager
    def _holding(self, is_held: bool) -> Iterator[None]:
        before, self._is_held = self._is_held, is_held
        try:
            yield
        finally:
            self._is_held = before

    def _receive(self, number: int, frame: types.FrameType | None) -> None:
        # Schedulers may send SIGTERM twice; a user who repeats Ctrl-C does not want to wait.
        is_impatient = number == signal.SIGINT and self.received is signal.SIGINT
        self.received = signal.Signals(number)
        if is_impatient or not self._is_held:
            self.check()
