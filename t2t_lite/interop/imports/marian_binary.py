"""Reads Marian's models in binary form, which may be damaged or hostile; 8 bits become float32."""

import math
import pathlib
import struct
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from t2t_lite.errors import DataError, quoted
from t2t_lite.interop.imports.safe_files import Tensor, damaged
from t2t_lite.interop.layouts.marian_binary import (
    ENTRY,
    HEAD,
    MULTIPLIER,
    OTHER_TYPES,
    QUANTIZED_TYPES,
    TYPES,
    VERSION,
    is_embedding,
)

_MOST_AXES = 8


def is_binary(path: pathlib.Path) -> bool:
    """Whether a file begins as a model in binary form does."""
    with path.open("rb") as file:
        return file.read(8) == HEAD.pack(VERSION, 0)[:8]


def read_binary(path: pathlib.Path) -> tuple[dict[str, Tensor], bool]:
    """Returns the tensors of a model by name, and whether some are stored in 8 bits.

    Raises:
        DataError: the file is damaged, sizes are implausible, or a type is unknown.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file, path.stat().st_size)
    except (OSError, UnicodeDecodeError, ValueError, struct.error) as error:
        raise damaged(path, error) from error


def _read(path: pathlib.Path, file: BinaryIO, size: int) -> tuple[dict[str, Tensor], bool]:
    take = _within(file, size)
    version, count = HEAD.unpack(take(HEAD.size, 1))
    if version != VERSION:
        raise ValueError(f"version {version}, expected {VERSION}")
    entries = list(ENTRY.iter_unpack(take(ENTRY.size, count)))
    names = [take(1, length).partition(b"\0")[0].decode() for length, *_ in entries]
    shapes = []
    for name, (_, _, axes, _) in zip(names, entries, strict=True):
        if axes > _MOST_AXES:
            raise ValueError(f"{quoted(name)} has {axes} axes")
        shapes.append(struct.unpack(f"<{axes}i", take(4, axes)))
    (gap,) = struct.unpack("<Q", take(8, 1))
    take(1, gap)
    start, tensors, are_8_bits = file.tell(), {}, False
    for name, shape, (_, kind, _, stored) in zip(names, shapes, entries, strict=True):
        if name in tensors:
            raise ValueError(f"{quoted(name)} occurs twice")
        if kind not in TYPES:
            raise DataError(
                f"{path}: {quoted(name)} has the type {OTHER_TYPES.get(kind, hex(kind))}, which is "
                "not read here: use the model that was converted with --gemm-type intgemm8, or the "
                "original"
            )
        is_8_bits = kind in QUANTIZED_TYPES
        needed = math.prod(shape) * np.dtype(TYPES[kind]).itemsize + is_8_bits * MULTIPLIER.size
        if min(shape, default=1) < 0 or needed > stored or start + stored > size:
            raise ValueError(f"{quoted(name)} has {stored:,} bytes, and shape {list(shape)}")
        if is_8_bits:
            tensors[name] = _quantized(path, name, shape, start)
        else:
            tensors[name] = _plain(path, shape, TYPES[kind], start)
        start += stored
        are_8_bits |= is_8_bits
    return tensors, are_8_bits


def _within(file: BinaryIO, size: int) -> Callable[[int, int], bytes]:
    """Returns a function that reads so many things of a length, which the file must have."""

    def take(length: int, count: int) -> bytes:
        if length * count > size - file.tell():
            raise ValueError(f"it claims {length * count:,} bytes more than it has")
        return file.read(length * count)

    return take


def _plain(path: pathlib.Path, shape: tuple[int, ...], stored: str, start: int) -> Tensor:
    dtype = np.dtype(stored)

    def read() -> np.ndarray:
        return _values(path, start, math.prod(shape) * dtype.itemsize, dtype).reshape(shape)

    return Tensor(shape, dtype.name, read)


def _quantized(path: pathlib.Path, name: str, shape: tuple[int, ...], start: int) -> Tensor:
    """Returns the float32 numbers that an 8-bit matrix stands for."""
    # Marian's converter also stores the multiplier of what an embedding is applied to in 8 bits.
    if len(shape) != 2 and not is_embedding(name):
        raise ValueError(f"{quoted(name)} is not a matrix")

    def read() -> np.ndarray:
        size = math.prod(shape)
        whole = _values(path, start, size + MULTIPLIER.size, np.dtype("i1"))
        (multiplier,) = MULTIPLIER.unpack(whole[size:].tobytes())
        if not (math.isfinite(multiplier) and multiplier > 0):
            raise damaged(path, ValueError(f"{name} has the multiplier {multiplier:g}"))
        values = whole[:size].astype(np.float32) / np.float32(multiplier)
        return values.reshape(shape) if is_embedding(name) else values.reshape(shape[::-1]).T

    return Tensor(shape, "float32", read)


def _values(path: pathlib.Path, start: int, size: int, dtype: np.dtype) -> np.ndarray:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return np.frombuffer(file.read(size), dtype).copy()
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
