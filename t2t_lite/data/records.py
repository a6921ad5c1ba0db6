"""TFRecord files of `tf.train.Example`s: T2T's features `inputs` and `targets`, lists of int64."""

import contextlib
import math
import os
import random
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import tensorflow as tf
from google.protobuf.message import DecodeError

from t2t_lite.errors import DataError, UserError

# A record is framed as: length (uint64), its checksum (uint32), the data, their checksum (uint32).
_LENGTH = struct.Struct("<Q")
FRAME_BYTES = 16


def serialize(features: Mapping[str, Sequence[int]]) -> bytes:
    """Returns the bytes of a `tf.train.Example`; equal features give equal bytes."""
    example = tf.train.Example()
    for name, ids in features.items():
        example.features.feature[name].int64_list.value.extend(ids)
    return bytes(example.SerializeToString(deterministic=True))


@contextlib.contextmanager
def record_writer(path: str | os.PathLike[str]) -> Iterator[Callable[[bytes], Any]]:
    """Opens a TFRecord file and yields the function that appends a record to it.

    Raises:
        OSError: the file cannot be written, for instance because the disk is full.
    """
    try:
        with tf.io.TFRecordWriter(os.fspath(path)) as writer:
            yield writer.write
    except tf.errors.OpError as error:
        raise OSError(f"cannot write TFRecords: {error.message}") from error


def write_examples(
    path: str | os.PathLike[str], examples: Iterable[Mapping[str, Sequence[int]]]
) -> None:
    """Writes a TFRecord file of examples; errors as in `record_writer`."""
    with record_writer(path) as write:
        for features in examples:
            write(serialize(features))


def read_examples(paths: Iterable[str | os.PathLike[str]]) -> Iterator[dict[str, list[int]]]:
    """Yields the features of all examples, file by file.

    Raises:
        UserError: a file does not exist.
        DataError: a file is cut, damaged, or holds something else; names file and record (from 1).
    """
    for path in paths:
        name = os.fspath(path)
        number = 1
        size = 0
        try:
            for record in tf.data.TFRecordDataset(name).as_numpy_iterator():
                features = tf.train.Example.FromString(record).features.feature
                yield {side: list(features[side].int64_list.value) for side in sorted(features)}
                number += 1
                size += FRAME_BYTES + len(record)
        except tf.errors.NotFoundError:
            raise UserError(f"{name}: no such file") from None
        except (tf.errors.DataLossError, DecodeError):
            raise _damaged(name, number) from None
        # TensorFlow takes a file that ends inside a record's length for a whole one.
        if size != os.path.getsize(name):
            raise _damaged(name, number)


def _damaged(name: str, number: int) -> DataError:
    return DataError(
        f"{name}, record {number}: damaged or cut file; delete it and run t2t-datagen again"
    )


def shuffle_records(path: str | os.PathLike[str], seed: str, memory: int = 2**26) -> None:
    """Shuffles the records of a file in place, in bounded memory.

    They are dealt out at random into as many pieces as it takes for each to fit into memory; the
    pieces are shuffled one after the other. A record's checksums cover nothing but itself, so its
    bytes are moved as they are.

    Args:
        path: an intact TFRecord file.
        seed: equal seeds shuffle equally, if the memory is equal, too.
        memory: bytes of records to hold at a time, on average; a file is open for each piece.

    Raises:
        OSError: the disk is full, say.
    """
    draw = random.Random(seed)
    count = max(1, math.ceil(os.path.getsize(path) / memory))
    with contextlib.ExitStack() as open_files:
        pieces = [
            open_files.enter_context(tempfile.TemporaryFile(dir=os.path.dirname(path)))
            for _ in range(count)
        ]
        with open(path, "rb") as file:
            for record in _framed_records(file):
                piece = draw.choice(pieces) if count > 1 else pieces[0]
                piece.write(record)
        with open(path, "wb") as file:
            for piece in pieces:
                piece.seek(0)
                records = list(_framed_records(piece))
                draw.shuffle(records)
                file.writelines(records)
                del records  # before the next piece is read


def _framed_records(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the records of an intact file, each in its frame."""
    while header := file.read(_LENGTH.size):
        (length,) = _LENGTH.unpack(header)
        yield header + file.read(FRAME_BYTES - _LENGTH.size + length)
