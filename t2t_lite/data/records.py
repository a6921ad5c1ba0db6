"""TFRecord files of `tf.train.Example`s: T2T's features `inputs` and `targets`, lists of int64.

The targets of regression are lists of floats.

TensorFlow is not imported: it would cost every process that writes data seconds to start.
"""

import contextlib
import functools
import itertools
import math
import os
import pathlib
import random
import struct
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import google_crc32c
from google.protobuf.message import DecodeError

from t2t_lite.errors import DataError, UserError
from t2t_lite.protocol_buffers import message_class, pack, varint

# A framed record: length (uint64), its checksum (uint32), the data, their checksum (uint32).
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _LENGTH.size + _CHECKSUM.size
# A longer record is not an example: the longest line that is read takes a quarter of this.
_MAX_RECORD_BYTES = 2**29
_SIDES = {"inputs", "targets"}
_KINDS = {"bytes_list": "bytes", "float_list": "floats", "int64_list": "ids (int64)"}
FRAME_BYTES = _HEADER_BYTES + _CHECKSUM.size

# The part of tensorflow/core/example/{example,feature}.proto for lists of int64 and
# of floats; lists of bytes are only noticed. The reader uses it; the writer, on whose speed data
# generation depends, assembles the same bytes by hand.
_SCHEMA = """
name: "t2t_lite/example.proto" package: "t2t_lite" syntax: "proto3"
message_type {
  name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 }
}
message_type {
  name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT }
}
message_type {
  name: "Feature"
  field { name: "bytes_list" number: 1 type: TYPE_BYTES }
  field { name: "float_list" number: 2 type: TYPE_MESSAGE type_name: ".t2t_lite.FloatList" }
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".t2t_lite.Int64List" }
}
message_type {
  name: "Features"
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".t2t_lite.Feature" }
  }
  field {
    name: "feature" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".t2t_lite.Features.FeatureEntry"
  }
}
message_type {
  name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".t2t_lite.Features" }
}
"""


_Example = message_class(_SCHEMA, "t2t_lite.Example")

# The tag before a field of bytes: its number times 8, plus 2. See `_SCHEMA` for the numbers.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"


def serialize(features: Mapping[str, Sequence[int]]) -> bytes:
    """Returns the bytes of a `tf.train.Example`; equal features give equal bytes."""
    return serialize_packed({name: pack(ids) for name, ids in features.items()})


def serialize_packed(features: Mapping[str, bytes], floats: Container[str] = ()) -> bytes:
    """Returns the bytes of a `tf.train.Example`.

    Args:
        features: the packed ids of each feature, or its packed floats.
        floats: the names of those that are floats.
    """
    if not features:
        return b""
    entries = b"".join(
        [_head(name, len(ids), name in floats) + ids for name, ids in sorted(features.items())]
    )
    return _FIELD_1 + varint(len(entries)) + entries


@functools.lru_cache(maxsize=4096)  # most features are short
def _head(name: str, size: int, is_float: bool) -> bytes:
    """Returns the bytes that precede a feature's ids in an example; the ids take `size` bytes."""
    key = name.encode()
    ids = _FIELD_1 + varint(size) if size else b""  # an empty field is omitted
    of_kind = (_FIELD_2 if is_float else _FIELD_3) + varint(len(ids) + size) + ids
    feature = _FIELD_2 + varint(len(of_kind) + size) + of_kind
    entry = _FIELD_1 + varint(len(key)) + key + feature
    return _FIELD_1 + varint(len(entry) + size) + entry


def frame(record: bytes) -> bytes:
    """Returns a record as stored in a TFRecord file, between its length and its checksum."""
    return _header(len(record)) + record + masked_crc(record)


@functools.lru_cache(maxsize=4096)  # most records are short
def _header(length: int) -> bytes:
    packed = _LENGTH.pack(length)
    return packed + masked_crc(packed)


def masked_crc(data: bytes) -> bytes:
    """Returns TFRecord's checksum: CRC-32C, masked so that it may be part of checksummed data."""
    crc = google_crc32c.value(data)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write_examples(
    path: str | os.PathLike[str], examples: Iterable[Mapping[str, Sequence[int]]]
) -> None:
    """Writes a TFRecord file of examples.

    Raises:
        OSError: writing failed, for example because the disk is full.
    """
    with open(path, "wb") as file:
        file.writelines(frame(serialize(features)) for features in examples)


def read_examples(
    paths: Iterable[str | os.PathLike[str]], floats: Container[str] = ()
) -> Iterator[dict[str, list[Any]]]:
    """Yields the features of all examples, file by file.

    Args:
        paths: the files.
        floats: the sides that are floats; the others are ids.

    Raises:
        UserError: a file does not exist.
        DataError: a file is damaged or truncated, or its inputs or targets are of another kind; the
            message names file and record (from 1).
    """
    kinds = {side: "float_list" if side in floats else "int64_list" for side in _SIDES}
    for path in paths:
        name = os.fspath(path)
        try:
            with open(path, "rb") as file:
                for number, framed in enumerate(framed_records(file, name), 1):
                    try:
                        example = _Example.FromString(framed[_HEADER_BYTES : -_CHECKSUM.size])
                    except DecodeError:
                        raise _damaged(name, number) from None
                    features = example.features.feature
                    for side in _SIDES.intersection(features):
                        found = features[side].ListFields()
                        if found and found[0][0].name != kinds[side]:
                            raise _other_kind(name, number, side, found[0][0].name, kinds[side])
                    yield {
                        side: list(getattr(features[side], kinds.get(side, "int64_list")).value)
                        for side in sorted(features)
                    }
        except FileNotFoundError:
            raise UserError(f"{name}: no such file") from None


def framed_records(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yields the framed records of an open TFRecord file.

    Raises:
        DataError: the file is damaged or truncated; the message names file and record (from 1).
    """
    for number in itertools.count(1):
        header = file.read(_HEADER_BYTES)
        if not header:
            return
        length = int.from_bytes(header[: _LENGTH.size], "little")
        # Checked before the length is used.
        if header != _header(length) or length > _MAX_RECORD_BYTES:
            raise _damaged(name, number)
        record, checksum = file.read(length), file.read(_CHECKSUM.size)
        if checksum != masked_crc(record):
            raise _damaged(name, number)
        yield header + record + checksum


def count_records(paths: Sequence[str | os.PathLike[str]], most_bytes: int = 2**28) -> int:
    """Returns the number of records of files; checks nothing.

    Beyond `most_bytes`, the number is estimated: the other files have records of the same size.
    """
    sizes = [os.path.getsize(path) for path in paths]
    count = seen = 0
    for path, size in zip(paths, sizes, strict=True):
        if seen >= most_bytes:
            break
        with open(path, "rb") as file:
            while header := file.read(_LENGTH.size):
                count += 1
                file.seek(int.from_bytes(header, "little") + FRAME_BYTES - _LENGTH.size, 1)
        seen += size
    return round(count * sum(sizes) / seen) if seen else 0


def split_records(framed: bytes) -> Iterator[bytes]:
    """Splits concatenated framed records; checks nothing."""
    start = 0
    while start < len(framed):
        length = int.from_bytes(framed[start : start + _LENGTH.size], "little")
        end = start + length + FRAME_BYTES
        yield framed[start:end]
        start = end


def _other_kind(name: str, number: int, side: str, found: str, expected: str) -> DataError:
    return DataError(
        f"{name}, record {number}: {side} are {_KINDS[found]}, not {_KINDS[expected]}; delete the "
        "file and generate it with t2t-datagen"
    )


def _damaged(name: str, number: int) -> DataError:
    return DataError(
        f"{name}, record {number}: damaged or truncated file; delete it and run t2t-datagen again"
    )


def shuffled(
    records: Iterable[bytes], size: int, seed: str, folder: pathlib.Path, memory: int = 2**26
) -> Iterator[bytes]:
    """Yields framed records in random order, in bounded memory.

    The records are distributed at random over enough temporary files that each fits into memory;
    these are then shuffled one at a time.

    Args:
        records: framed records.
        size: their total size in bytes.
        seed: the order depends on the seed and on `memory`.
        folder: where temporary files are put if one piece is not enough.
        memory: bytes of records to hold at a time, on average; each piece takes an open file.

    Raises:
        OSError: writing failed, for example because the disk is full.
    """
    draw = random.Random(seed)
    count = max(1, math.ceil(size / memory))
    if count == 1:
        yield from _shuffled(records, draw)
        return
    with contextlib.ExitStack() as open_files:
        pieces = [
            open_files.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(count)
        ]
        for record in records:
            draw.choice(pieces).write(record)
        for piece in pieces:
            piece.seek(0)
            yield from _shuffled(framed_records(piece, str(piece.name)), draw)


def _shuffled(records: Iterable[bytes], draw: random.Random) -> list[bytes]:
    held = list(records)
    draw.shuffle(held)
    return held
