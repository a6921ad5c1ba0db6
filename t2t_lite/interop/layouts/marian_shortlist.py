"""Marian's binary form of a short list (lex.*.s2t.bin): the target ids that each source id permits.

Six numbers: what the file is, a checksum of all that follows it, how many of the first target ids
are always candidates, how many there are for a source id at most, how many offsets, how many ids;
then for each source id the offset of its first target id, and the end; then the target ids, in
ascending order for each source id. (Marian's src/data/shortlist.cpp.)
"""

import itertools
import struct
from collections.abc import Sequence

import numpy as np

MAGIC = 0xF11A48D5013417F5
HEAD = struct.Struct("<6Q")
UNCHECKED = 16  # bytes before those of the checksum

_64_BITS = (1 << 64) - 1


def checksum(contents: bytes) -> int:
    """Returns the checksum of what follows it in a file, but for a last half of 8 bytes."""
    seed = 0
    for word in np.frombuffer(contents, "<u8", len(contents) // 8).tolist():
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & _64_BITS
    return seed


def written(lists: Sequence[Sequence[int]], first: int, best: int) -> bytes:
    """Returns the contents of a file.

    Args:
        lists: for each source id its target ids. Marian wants one of the last source id.
        first: how many of the first target ids are always candidates.
        best: how many candidates a source id has at most; Marian does not read it.
    """
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    ids = np.fromiter(itertools.chain.from_iterable(map(sorted, lists)), "<u4")
    counts = struct.pack("<4Q", first, best, len(offsets), len(ids))
    contents = counts + offsets.tobytes() + ids.tobytes()
    return struct.pack("<2Q", MAGIC, checksum(contents)) + contents
