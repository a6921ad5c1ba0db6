"""Identifies the files that a run trains on, independently of where they are."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.generation import fingerprint

_MAX_CHANGES = 3  # listed in a message


@dataclasses.dataclass(frozen=True)
class TrainingFiles:
    """The training files of a problem at one moment.

    Attributes:
        sizes: size of each file in bytes, by its name in the data folder.
        fingerprint: digest of what they were generated from; "" if there is no fingerprint.
    """

    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fingerprint: str = ""

    @classmethod
    def of(cls, problem: Problem, data_dir: str) -> "TrainingFiles":
        """Returns the current training files in a folder.

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
        """Returns the inverse of `dataclasses.asdict`; further fields are ignored."""
        return cls(sizes=fields["sizes"], fingerprint=fields["fingerprint"])

    @property
    def digest(self) -> str:
        """A SHA-256, equal for equal files in any folder on any machine."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()

    def changes(self, now: "TrainingFiles") -> str:
        """Returns the differences of the files `now`; "" if there are none.

        A missing fingerprint does not count: a user who deletes it, or copies the files without it,
        vouches for them.
        """
        found = [
            f"{name}: {_size(self.sizes.get(name))} -> {_size(now.sizes.get(name))}"
            for name in {**self.sizes, **now.sizes}
            if self.sizes.get(name) != now.sizes.get(name)
        ]
        if now.fingerprint not in ("", self.fingerprint):
            what = "made from something else" if self.fingerprint else "of unknown origin before"
            found.append(f"{what}, according to the fingerprint")
        more = len(found) - _MAX_CHANGES
        return "; ".join(found[:_MAX_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def _size(size: int | None) -> str:
    return "none" if size is None else f"{size:,} bytes"
