"""Reading TFRecord files: what an example becomes, what a corpus holds, which record is broken."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

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
    chunks, seen, complete = [np.zeros([0, 2], np.int64)], 0, True
    for path in paths:
        for lengths in _lengths(path, reader):
            if not lengths.all():
                number = seen_in_file + int(np.argmin(lengths.all(axis=1)))
    ...
