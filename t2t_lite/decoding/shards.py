"""Parts of a large text that several workers decode, each on a machine of its own.

A worker needs nothing from the others. Either its part is a file, as in T2T, or it is cut from the
whole text between two windows (input_lines.py), so that every batch is one that a single process
decodes: the outputs of all parts, joined, are its outputs to the byte.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_lite.decoding.config import check_worker
from t2t_lite.decoding.input_lines import window_ends
from t2t_lite.errors import UsageError

# The flags of files that have a line for each line of the text.
_READ = ("decode_from_file", "score_file", "prefix_file")


def name_of_part(path: str, worker_id: int) -> str:
    """Returns T2T's name for a worker's part of a file."""
    return f"{path}{worker_id:03d}"


def own_files(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flags of t2t-decoder that change for a worker: its files.

    A file of its own, INPUT%.3d, takes the place of INPUT, and is read whole.

    Args:
        flags: all flags by name.

    Raises:
        UsageError: some files are in parts and others are not, the worker's own part is missing, or
            there are more parts than workers.
    """
    shards, worker_id = flags["decode_shards"], flags["worker_id"]
    check_worker(shards, worker_id)
    if shards == 1:
        return {}
    changes: dict[str, Any] = {}
    if flags["decode_to_file"]:
        changes["decode_to_file"] = name_of_part(flags["decode_to_file"], worker_id)
    given = {name: flags[name] for name in _READ if flags[name]}
    parts = {name: name_of_part(path, worker_id) for name, path in given.items()}
    missing = [path for path in parts.values() if not os.path.exists(path)]
    if not missing:
        for path in given.values():
            if os.path.exists(unread := name_of_part(path, shards)):
                raise UsageError(
                    f"--decode_shards={shards}, but {unread} is a part of the text, too, which no "
                    "worker would read: give --decode_shards the number of the parts, or remove or "
                    "rename those that are of another text"
                )
        return changes | parts | {"decode_shards": 1, "worker_id": 0}
    others = (name_of_part(path, i) for path in given.values() for i in range(shards))
    if other := next(filter(os.path.exists, others), ""):
        raise UsageError(
            f"{other} is a part of the text for a worker, but {missing[0]} is not there: name a "
            "part for each worker, or remove or rename the parts so that the whole text is read"
        )
    return changes


def part_of(count: int, shards: int, worker_id: int) -> range:
    """Returns the lines of a worker's part of a text, from 0: nearly an equal share.

    Args:
        count: lines of the text.
        shards: number of workers.
        worker_id: which of them.
    """
    ends = [0, *window_ends(count)]
    start, stop = (_nearest(ends, count * i / shards) for i in (worker_id, worker_id + 1))
    return range(start, stop)


def _nearest(places: Iterable[int], wanted: float) -> int:
    return min(places, key=lambda place: abs(place - wanted))
