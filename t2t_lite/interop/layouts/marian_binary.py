"""Marian's binary form of a model (.bin), with 8-bit matrices as Bergamot's engine has them.

A file has the number of items; four numbers of each: length of its name, type, axes, bytes; the
names, which end with NUL; the shapes; and, from a multiple of 256 bytes on, the values of each,
filled up to the next multiple. (Marian's src/common/binary.cpp and types.h.)

An 8-bit matrix [K, N] is stored transposed, except for embeddings, and followed by the float32 that
its values were multiplied by. `NAME_QuantMultA` holds the multiplier of what NAME is applied to.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

VERSION, ALIGNMENT = 1, 256
HEAD, ENTRY = struct.Struct("<QQ"), struct.Struct("<4Q")  # version, items; numbers of an item
MULTIPLIER = struct.Struct("<f")

FLOAT32, INT8, QUANTIZED = 0x404, 0x101, 0x4101
# Types by code, as NumPy stores them. The second code of 8-bit matrices is of Marian 1.12.42.
TYPES = {FLOAT32: "<f4", 0x402: "<f2", INT8: "i1", QUANTIZED: "i1", 0x10001: "i1"}
QUANTIZED_TYPES = (QUANTIZED, 0x10001)
# What Marian calls the types that are not read: 16 bits, or packed for one kind of processor.
OTHER_TYPES = {
    **{0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512"},
    **{0x4102: "intgemm16", 0x10002: "intgemm16", 0x18001: "intgemm8ssse3"},
    **{0x11001: "intgemm8avx2", 0x12001: "intgemm8avx512", 0x13001: "intgemm8avx512vnni"},
    **{0x14002: "intgemm16sse2", 0x11002: "intgemm16avx2", 0x12002: "intgemm16avx512"},
}

INPUT_MULTIPLIER = "_QuantMultA"
LARGEST = 127  # the largest 8-bit value; -128 is not used


class Item(NamedTuple):
    """An item of a file."""

    type: int
    shape: tuple[int, ...]
    values: bytes


def is_embedding(name: str) -> bool:
    """Whether an 8-bit matrix of this name is not transposed."""
    return "Wemb" in name


def is_matrix(name: str) -> bool:
    """Whether a name is that of a matrix, which the 8-bit form of a model has in 8 bits."""
    ends_as_one = "_W" in (name[-3:-1], name[-2:])
    return (is_embedding(name) or ends_as_one) and not name.endswith(INPUT_MULTIPLIER)


def quantized(matrix: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """Returns a matrix in 8 bits, and what its values were multiplied by."""
    largest = np.abs(matrix).max()
    multiplier = np.float32(LARGEST) / np.float32(largest if largest > 0 else 1)
    rounded = np.rint(matrix.astype(np.float32) * multiplier)
    return np.clip(rounded, -LARGEST, LARGEST).astype(np.int8), multiplier


def items_of(arrays: Mapping[str, np.ndarray], in_8_bits: bool) -> dict[str, Item]:
    """Returns the items of arrays by name, in the order of files.

    Args:
        arrays: float32, but for the settings; by Marian's names and in its shapes.
        in_8_bits: whether to quantize matrices.
    """
    items = {}
    for name, array in sorted(arrays.items(), key=lambda pair: (pair[1].dtype == np.int8, pair[0])):
        if array.dtype == np.int8:
            items[name] = Item(INT8, array.shape, array.tobytes())
        elif in_8_bits and is_matrix(name):
            rounded, multiplier = quantized(array)
            stored = rounded if is_embedding(name) else rounded.T
            packed = np.ascontiguousarray(stored).tobytes() + MULTIPLIER.pack(multiplier)
            items[name] = Item(QUANTIZED, array.shape, packed)
        else:
            items[name] = Item(FLOAT32, array.shape, array.astype("<f4").tobytes())
    return items


def written(items: Mapping[str, Item]) -> bytes:
    """Returns the contents of a file."""
    names = [name.encode() + b"\0" for name in items]
    values = [item.values + bytes(-len(item.values) % ALIGNMENT) for item in items.values()]
    head = HEAD.pack(VERSION, len(items)) + b"".join(
        ENTRY.pack(len(name), item.type, len(item.shape), len(value))
        for name, item, value in zip(names, items.values(), values, strict=True)
    )
    head += b"".join(names) + b"".join(
        struct.pack(f"<{len(item.shape)}i", *item.shape) for item in items.values()
    )
    gap = ALIGNMENT - (len(head) + 8) % ALIGNMENT  # never 0
    return b"".join([head, struct.pack("<Q", gap), bytes(gap), *values])
