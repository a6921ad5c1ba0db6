"""Reads Marian's binary short lists, which may be damaged or hostile."""

import pathlib
from collections.abc import Sequence

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.interop.imports.open_model import NO_ID
from t2t_lite.interop.imports.safe_files import damaged
from t2t_lite.interop.layouts.marian_shortlist import HEAD, MAGIC, UNCHECKED, checksum
from t2t_lite.text.alignment.shortlist import Shortlist

_LARGEST_RATIO = 64  # of our table's size to the file's, whose source ids have unlike many targets


def is_shortlist(path: pathlib.Path) -> bool:
    """Whether a file begins as a binary short list does."""
    with path.open("rb") as file:
        return file.read(8) == MAGIC.to_bytes(8, "little")


def read_shortlist(path: pathlib.Path, sources: Sequence[int], targets: Sequence[int]) -> Shortlist:
    """Reads a short list.

    Args:
        path: the file.
        sources: the file's id of each of our source ids, or `NO_ID`.
        targets: the same of our target ids.

    Raises:
        DataError: it is damaged, or for other vocabularies.
    """
    try:
        first, offsets, ids = _read(path)
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    ours = np.full(max(targets) + 1, NO_ID)
    ours[[id_ for id_ in targets if id_ != NO_ID]] = np.flatnonzero(np.array(targets) != NO_ID)
    count = max(sources) + 1
    if len(offsets) != count + 1 or max(ids.max(initial=0), first - 1) >= len(ours):
        raise DataError(
            f"{path} is for {len(offsets) - 1} source ids and at least {ids.max(initial=0) + 1} "
            f"target ids, but the vocabularies have {count} and {len(ours)}: use that of the model"
        )
    lengths = np.diff(offsets)
    table = np.zeros([len(sources), int(lengths.max(initial=0))], np.int32)
    for source, id_ in enumerate(sources):
        if id_ != NO_ID:
            table[source, : lengths[id_]] = ours[ids[offsets[id_] : offsets[id_ + 1]]]
    return Shortlist([*map(int, ours[:first])], table, len(targets))


def _read(path: pathlib.Path) -> tuple[int, np.ndarray, np.ndarray]:
    """Returns how many ids are always candidates, the offsets, and the target ids."""
    size = path.stat().st_size
    if size < HEAD.size:
        raise ValueError(f"it has {size} bytes")
    contents = path.read_bytes()
    magic, found, first, _, count, ids = HEAD.unpack_from(contents)
    if magic != MAGIC:
        raise ValueError("this is not a short list")
    if HEAD.size + 8 * count + 4 * ids != size or not count:
        raise ValueError(f"it claims {count:,} offsets and {ids:,} ids, and has {size:,} bytes")
    if checksum(contents[UNCHECKED:]) != found:
        raise ValueError("its checksum is wrong")
    offsets = np.frombuffer(contents, "<u8", count, HEAD.size)
    if offsets[0] or offsets[-1] != ids or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("its offsets are not in order")
    offsets = offsets.astype(np.int64)  # none is beyond the size of the file
    if 4 * count * np.diff(offsets).max(initial=0) > _LARGEST_RATIO * size:
        raise ValueError("a source id has implausibly many target ids")
    return first, offsets, np.frombuffer(contents, "<u4", ids, HEAD.size + 8 * count)
