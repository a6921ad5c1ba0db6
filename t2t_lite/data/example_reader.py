"""Reading TFRecord files: what an example becomes, what a corpus holds, which record is broken."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.problem import Problem
from t2t_lite.errors import DataError
from t2t_lite.hparams.basic import BasicHParams

_FEATURES = {name: tf.io.RaggedFeature(tf.int64) for name in ("inputs", "targets")}
# Records parsed in one call.
_CHUNK = 1024
# What TensorFlow raises for a damaged file and for a record that is no tf.Example.
_UNREADABLE = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)


@dataclasses.dataclass(frozen=True)
class ExampleReader:
    """How a serialized `tf.Example` becomes a pair of id sequences.

    Attributes:
        reverse: exchange sources and targets (`_rev` problems); comes before `copy`.
        copy: let the targets be the sources (`_copy` problems).
        max_input_length: subwords; longer sources are cut there, their EOS kept; 0: never.
        max_target_length: the same for targets.
    """

    reverse: bool = False
    copy: bool = False
    max_input_length: int = 0
    max_target_length: int = 0

    @classmethod
    def of(cls, problem: Problem, hparams: BasicHParams) -> "ExampleReader":
        """Returns the reader for training and evaluating on `problem` with `hparams`."""
        return cls(
            reverse=problem.was_reversed,
            copy=problem.was_copy,
            max_input_length=hparams.max_input_seq_length,
            max_target_length=hparams.max_target_seq_length,
        )

    def parse(self, records: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        """Parses serialized examples, strings `[n]`, to ragged int64 ids `[n, (length)]`."""
        parsed = tf.io.parse_example(records, _FEATURES)
        inputs, targets = parsed["inputs"], parsed["targets"]
        if self.reverse:
            inputs, targets = targets, inputs
        if self.copy:
            targets = inputs
        return {
            "inputs": _cut(inputs, self.max_input_length),
            "targets": _cut(targets, self.max_target_length),
        }

    def lengths(self, records: tf.Tensor) -> tf.Tensor:
        """Returns the subwords of source and target, int64 `[n, 2]`, of serialized examples."""
        features = self.parse(records)
        return tf.stack([ids.row_lengths() for ids in features.values()], axis=1)


def _cut(ids: tf.RaggedTensor, limit: int) -> tf.RaggedTensor:
    """Shortens each row to `limit` ids: its first ones, then its last one, which is EOS."""
    if not limit:
        return ids
    lengths = ids.row_lengths()
    position = tf.ragged.range(lengths)  # [n, (length)]
    last = tf.expand_dims(lengths - 1, axis=1)  # [n, 1]
    return tf.ragged.boolean_mask(ids, (position < limit - 1) | (position == last))


@dataclasses.dataclass(frozen=True)
class DataStatistics:
    """What a corpus holds; as a string, one line for the log.

    Attributes:
        examples: how many the scheme keeps.
        dropped_long: how many are longer than `max_length`.
        dropped_short: how many are shorter than `min_length`.
        source_tokens: subwords of the kept sources, EOS counted.
        target_tokens: subwords of the kept targets, EOS counted.
        longest: subwords of the longest side of all examples, dropped ones included.
        complete: whether all records were looked at.
        scheme: the scheme that keeps and drops.
    """

    examples: int
    dropped_long: int
    dropped_short: int
    source_tokens: int
    target_tokens: int
    longest: int
    complete: bool
    scheme: BatchingScheme

    def __str__(self) -> str:
        seen = self.examples + self.dropped_long + self.dropped_short
        scope = "" if self.complete else f"of the first {seen:,} records: "
        return (
            f"{scope}{self.examples:,} examples with {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target subwords; {self.dropped_long:,} dropped as longer than "
            f"max_length={self.scheme.max_length} (the longest has {self.longest}), "
            f"{self.dropped_short:,} as shorter than min_length={self.scheme.min_length}"
        )


def count_examples(
    paths: Sequence[str],
    scheme: BatchingScheme,
    reader: ExampleReader,
    limit: int | None = 100_000,
) -> DataStatistics:
    """Counts what `scheme` keeps and drops.

    Args:
        paths: the TFRecord files.
        scheme: the lengths to keep.
        reader: what an example becomes.
        limit: records to look at; None: all.

    Raises:
        DataError: a record cannot be read or lacks a side, or no example is left.
    """
    remaining = itertools.chain.from_iterable(_lengths(path, reader) for path in paths)
    chunks, seen = [np.zeros([0, 2], np.int64)], 0
    for chunk in remaining:
        chunks.append(chunk)
        seen += len(chunk)
        if limit is not None and seen >= limit:
            break
    lengths = np.concatenate(chunks)  # [n, 2]
    longer = lengths.max(axis=1)  # [n]
    long, short = longer > scheme.max_length, longer < scheme.min_length
    kept = lengths[~long & ~short]
    statistics = DataStatistics(
        examples=len(kept),
        dropped_long=int(long.sum()),
        dropped_short=int(short.sum()),
        source_tokens=int(kept[:, 0].sum()),
        target_tokens=int(kept[:, 1].sum()),
        longest=int(longer.max(initial=0)),
        complete=next(remaining, None) is None,
        scheme=scheme,
    )
    if not statistics.examples:
        raise DataError(
            f"no example is left in {', '.join(paths[:1])} and its {len(paths) - 1} sister files: "
            f"{statistics}; change these hparams or make the files again with t2t-datagen"
        )
    return statistics


def eval_examples(
    paths: Sequence[str], reader: ExampleReader, limit: int | None = None
) -> list[tuple[list[int], list[int]]]:
    """Reads (source ids, target ids) in the order of the files, without padding.

    Args:
        paths: the TFRecord files.
        reader: what an example becomes.
        limit: how many to read; None: all.

    Raises:
        DataError: a record cannot be read.
    """
    records = tf.data.TFRecordDataset(list(paths)).take(-1 if limit is None else limit)
    pairs: list[tuple[list[int], list[int]]] = []
    with naming_bad_file(paths):
        for chunk in records.batch(_CHUNK):
            features = reader.parse(chunk)
            pairs += zip(features["inputs"].to_list(), features["targets"].to_list(), strict=True)
    return pairs


@contextlib.contextmanager
def naming_bad_file(paths: Sequence[str]) -> Iterator[None]:
    """Turns TensorFlow's error about damaged data into one that names the file and the record.

    An error of the same kind that comes from elsewhere passes unchanged.

    Raises:
        DataError: the block failed, and one of the files at `paths` has a bad record.
    """
    try:
        yield
    except _UNREADABLE:
        for path in paths:
            for _ in _lengths(path, ExampleReader()):
                pass
        raise


def _lengths(path: str, reader: ExampleReader) -> Iterator[np.ndarray]:
    """Yields subwords of source and target, `[n, 2]`, of one file, chunk by chunk.

    Raises:
        DataError: a record cannot be read or lacks a side.
    """
    before = 0
    try:
        for records in tf.data.TFRecordDataset(path).batch(_CHUNK):
            lengths = reader.lengths(records).numpy()
            if not lengths.all():
                number = before + 1 + int(lengths.min(axis=1).argmin())
                raise DataError(
                    f"{path}: record {number} lacks inputs or targets; "
                    "make the file again with t2t-datagen"
                )
            yield lengths
            before += len(lengths)
    except _UNREADABLE as error:
        raise DataError(
            f"{path}: record {_first_unreadable(path)} is damaged; "
            "make the file again with t2t-datagen"
        ) from error


def _first_unreadable(path: str) -> int:
    """Returns the number, from 1, of the first record that TensorFlow cannot read or parse."""
    records = tf.data.TFRecordDataset(path).batch(1).map(ExampleReader().lengths)
    number = itertools.count(1)
    with contextlib.suppress(*_UNREADABLE):
        for _ in records:
            next(number)
    return next(number)
