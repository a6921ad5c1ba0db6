"""The scores of translations of several checkpoints, files whose names end in `-UPDATES`."""

import functools
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from t2t_lite import files
from t2t_lite.errors import UserError
from t2t_lite.waiting import arriving

if TYPE_CHECKING:
    import tensorflow as tf

_STEP_FILE = re.compile(r"(.+)-([0-9]+)")
_LAST = "last_evaluated_step.txt"  # T2T's name


class ScoredSteps:
    """The translations in a folder, and which of them are scored.

    Args:
        folder: of the translations.
        event_dir: folder of TensorBoard's events, and of the number of the last step that was
            scored; "": neither is written.
        tag_suffix: ending of the names of the curves.
        min_steps: translations of fewer updates are left out; -1: those up to the last that an
            earlier process has scored.

    Raises:
        UserError: the file of the last step is damaged.
    """

    def __init__(self, folder: str, event_dir: str, tag_suffix: str, min_steps: int) -> None:
        self._folder = pathlib.Path(folder)
        self._event_dir = event_dir
        self._suffix = tag_suffix
        self._first = min_steps if min_steps >= 0 else self._read_last() + 1
        self._scored: set[int] = set()

    @property
    def left_out(self) -> str:
        """How a message that no translation was found goes on; "": none may be left out."""
        if not self._first:
            return ""
        return f" from update {self._first:,} on; --min_steps=0 also scores earlier ones"

    def files(self, minutes: float) -> Iterator[tuple[int, str]]:
        """Yields step and path of each translation, in step order.

        Args:
            minutes: how long to wait for the next one; -1: for ever.
        """
        return arriving(self._next, minutes)

    def write(self, step: int, scores: Mapping[str, float]) -> None:
        """Writes the scores of a step, by name."""
        self._scored.add(step)
        if not self._event_dir:
            return
        import tensorflow as tf

        with self._writer.as_default():
            for name, score in scores.items():
                tf.summary.scalar(f"{name}{self._suffix}", score, step=step)
        self._writer.flush()
        files.write_text(pathlib.Path(self._event_dir) / _LAST, f"{step}\n")

    def _next(self) -> tuple[int, str] | None:
        """Returns the first translation that is not scored.

        Raises:
            UserError: there are translations of several problems.
        """
        found: dict[int, pathlib.Path] = {}
        for path in sorted(self._folder.glob("*-[0-9]*")):
            if (name := _STEP_FILE.fullmatch(path.name)) and path.is_file():
                step = int(name[2])
                if other := found.get(step):
                    raise UserError(f"{other} and {path} are of the same step: keep only one there")
                found[step] = path
        left = [step for step in sorted(found) if step >= self._first and step not in self._scored]
        return (left[0], str(found[left[0]])) if left else None

    def _read_last(self) -> int:
        """Returns the last step that an earlier process has scored; -1: none."""
        path = pathlib.Path(self._event_dir, _LAST)
        if not (self._event_dir and path.is_file()):
            return -1
        text = path.read_text(encoding="utf-8").strip()
        if not text.isdecimal():
            raise UserError(
                f"{path} holds {files.shown(text)!r}, not a number of updates: delete it to score "
                "all translations again, or give --min_steps"
            )
        return int(text)

    @functools.cached_property
    def _writer(self) -> "tf.summary.SummaryWriter":
        import tensorflow as tf

        return tf.summary.create_file_writer(self._event_dir)
