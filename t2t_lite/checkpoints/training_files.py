"""Which files a run trains on, by what tells them from others wherever they lie."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.generation import fingerprint

# Changes that a message names one by one.
_NAMED_CHANGES = 3


@dataclasses.dataclass(frozen=True)
class TrainingFiles:
    """The training files of a problem as they were at one moment.

    Attributes:
        sizes: bytes of each, by its name in the data folder.
        fingerprint: digest of what they were made from; "" if no fingerprint says so.
    """

    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fingerprint: str = ""

    @classmethod
    def of(cls, problem: Problem, data_dir: str) -> "TrainingFiles":
        """Looks at the files in a folder.

        Raises:
            UserError: a file is missing, or the fingerprint cannot be read.
        """
        paths = map(pathlib.Path, problem.existing_filepaths(data_dir, DatasetSplit.TRAIN))
        return cls(
            sizes={path.name: path.stat().st_size for path in paths},
            fingerprint=fingerprint.training_digest(problem, data_dir),
        )

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "TrainingFiles":
        """Returns what `dataclasses.asdict` was given; further fields are left out."""
        return cls(sizes=fields["sizes"], fingerprint=fields["fingerprint"])

    @property
    def digest(self) -> str:
        """A SHA-256 of all this: equal for equal files in whatever folder, on whatever machine."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()

    def changes(self, now: "TrainingFiles") -> str:
        """Returns what differs in the files as they are now; "" if nothing does.

        A fingerprint that is gone is not a change: whoever deletes it, or copies the files without
        it, declares that they are to be taken as they are.
        """
        found = [
            f"{name}: {_size(self.sizes.get(name))} -> {_size(now.sizes.get(name))}"
            for name in {**self.sizes, **now.sizes}
            if self.sizes.get(name) != now.sizes.get(name)
        ]
        if now.fingerprint not in ("", self.fingerprint):
            what = "made from something else" if self.fingerprint else "of unknown origin before"
            found.append(f"{what}, by the fingerprint beside them")
        more = len(found) - _NAMED_CHANGES
        return "; ".join(found[:_NAMED_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def _size(size: int | None) -> str:
    return "none" if size is None else f"{size:,} bytes"
