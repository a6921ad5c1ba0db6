"""`--profile`: a recording of a few updates by TensorFlow's profiler, which TensorBoard shows."""

import logging
import pathlib
from types import TracebackType

import tensorflow as tf

log = logging.getLogger(__name__)

_SKIPPED = 10  # updates before the recording: the first ones trace functions and fill buffers
_RECORDED = 10


class Profiler:
    """Records updates into `plugins/profile` of a run folder.

    Args:
        folder: the run folder.
        first: the number of updates before the first one of this training.
        is_wanted: False: nothing is recorded.
    """

    def __init__(self, folder: pathlib.Path, first: int, is_wanted: bool) -> None:
        self._folder = folder
        self._start = first + _SKIPPED if is_wanted else None
        self._is_recording = self._has_recorded = False

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        if self._start is not None and not self._has_recorded:
            log.warning("profile: nothing was recorded: that begins after %d updates", _SKIPPED)

    def before(self, step: int) -> None:
        """Starts or ends the recording; call it before each update.

        Args:
            step: the number of updates before that one.
        """
        if step == self._start:
            tf.profiler.experimental.start(str(self._folder))
            self._is_recording = self._has_recorded = True
        elif self._start is not None and step == self._start + _RECORDED:
            self._stop()

    def _stop(self) -> None:
        if self._is_recording:
            tf.profiler.experimental.stop()
            self._is_recording = False
            log.info(
                "profile: recorded in %s; tensorboard --logdir=%s shows it",
                self._folder / "plugins" / "profile",
                self._folder,
            )
