"""SIGTERM, by which schedulers pre-empt, and SIGINT (Ctrl-C): training stops, with all saved."""

import contextlib
import os
import signal
import threading
import types
from collections.abc import Iterator

from t2t_lite.errors import UserError


class PreemptionError(UserError):
    """SIGTERM came, and nothing is lost: the same command goes on where this one stopped."""

    exit_code = os.EX_TEMPFAIL  # 75: "try again"


class StopSignals(contextlib.AbstractContextManager["StopSignals"]):
    """Within its block, SIGTERM and SIGINT raise an exception, but not in the middle of a step.

    SIGTERM raises PreemptionError, SIGINT KeyboardInterrupt as ever. A signal that this process was
    started to ignore stays ignored.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None  # the last one
        self._is_held = False
        self._handlers = contextlib.ExitStack()  # puts those before back

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
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
            self.check()  # some library has swallowed the exception, and then failed without it

    def check(self) -> None:
        """Raises the exception of the signal that has come, if one has."""
        if self.received is signal.SIGINT:
            raise KeyboardInterrupt
        if self.received:
            raise PreemptionError("stopped by SIGTERM; run this again to go on where it stopped")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Holds signals back to the end of the block; a second SIGINT does not wait."""
        with self._holding(True):
            yield
        self.check()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Lets signals through, within `held`, one that has come before included."""
        with self._holding(False):
            self.check()
            yield
            self.check()  # some library may have swallowed the exception

    @contextlib.contextmanager
    def _holding(self, is_held: bool) -> Iterator[None]:
        before, self._is_held = self._is_held, is_held
        try:
            yield
        finally:
            self._is_held = before

    def _receive(self, number: int, frame: types.FrameType | None) -> None:
        # Schedulers may well send SIGTERM twice; a user who repeats Ctrl-C will not wait.
        is_impatient = number == signal.SIGINT and self.received is signal.SIGINT
        self.received = signal.Signals(number)
        if is_impatient or not self._is_held:
            self.check()
