"""Counts the examples that training would see: `count_examples`."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.batching import UNLIMITED, BatchingScheme
from t2t_lite.data.example_reader import (
    MOST_EXAMPLES,
    ExampleReader,
    naming_bad_file,
    record_chunks,
)
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.errors import DataError
from t2t_lite.text.number_encoder import counted


@dataclasses.dataclass(frozen=True)
class DataStatistics:
    """Size of a corpus; as a string, one line for the log.

    Attributes:
        examples: number of examples that the scheme keeps.
        dropped_long: number of examples longer than `max_length`.
        dropped_short: number of examples shorter than `min_length`.
        source_tokens: subwords of the kept sources, with EOS.
        target_tokens: subwords of the kept targets, with EOS.
        longest: subwords of the longest side of all examples, dropped ones included.
        by_bucket: number of kept examples in each bucket.
        complete: whether all records were read.
        scheme: decides which examples are kept.
    """

    examples: int
    dropped_long: int
    dropped_short: int
    source_tokens: int
    target_tokens: int
    longest: int
    by_bucket: tuple[int, ...]
    complete: bool
    scheme: BatchingScheme

    def __str__(self) -> str:
        seen = self.examples + self.dropped_long + self.dropped_short
        scope = "" if self.complete else f"of the first {seen:,} records: "
        lines = [
            f"{scope}{self.examples:,} examples with {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target subwords, the longest with {self.longest}"
        ]
        if self.scheme.max_length < UNLIMITED:
            lines += [f"{self.dropped_long:,} dropped above max_length={self.scheme.max_length}"]
        if self.scheme.min_length:
            lines += [f"{self.dropped_short:,} dropped below min_length={self.scheme.min_length}"]
        return "; ".join(lines)


def count_examples(
    paths: Sequence[str],
    scheme: BatchingScheme,
    reader: ExampleReader,
    limit: int | None = 100_000,
    rewriter: Rewriter | None = None,
) -> DataStatistics:
    """Counts the examples that `scheme` keeps and drops.

    Args:
        paths: the TFRecord files.
        scheme: the lengths to keep.
        reader: parses the examples.
        limit: number of records to read, or a tenth of them to rewrite; None: all.
        rewriter: replaces the examples; counted are those of epoch 0.

    Raises:
        DataError: a record cannot be read or lacks a side, or no example is left.
    """
    if rewriter and limit is not None:
        limit //= 10  # it takes longer
    chunks = itertools.chain.from_iterable(
        _lengths(path, reader, rewriter, range(file, MOST_EXAMPLES, len(paths)))
        for file, path in enumerate(paths)
    )
    seen = [np.zeros([0, 2], np.int64)]
    with naming_bad_file(paths, reader.floats):
        for chunk in chunks:
            seen.append(chunk)
            if limit is not None and sum(map(len, seen)) >= limit:
                break
        complete = next(chunks, None) is None
    lengths = np.concatenate(seen)  # [n, 2]
    longer = lengths.max(axis=1)  # [n]
    too_long, too_short = longer > scheme.max_length, longer < scheme.min_length
    kept = lengths[~too_long & ~too_short]
    buckets = np.searchsorted(scheme.boundaries, kept.max(axis=1), side="right")
    statistics = DataStatistics(
        examples=len(kept),
        dropped_long=int(too_long.sum()),
        dropped_short=int(too_short.sum()),
        source_tokens=int(kept[:, 0].sum()),
        target_tokens=int(kept[:, 1].sum()),
        longest=int(longer.max(initial=0)),
        by_bucket=tuple(np.bincount(buckets, minlength=len(scheme.batch_sizes)).tolist()),
        complete=complete,
        scheme=scheme,
    )
    if not statistics.examples:
        raise DataError(
            f"{paths[0]} and the files beside it have no usable example: {statistics}; change "
            "these hparams, or regenerate the files with t2t-datagen"
        )
    return statistics


def _lengths(
    path: str, reader: ExampleReader, rewriter: Rewriter | None, examples: range
) -> Iterator[np.ndarray]:
    """Yields the lengths of source and target, int64 `[n, 2]`, in one file, chunk by chunk.

    Args:
        path: the file.
        reader: parses its examples.
        rewriter: replaces them first, as in epoch 0.
        examples: their numbers.

    Raises:
        DataError: a record lacks a side, a label lacks EOS, records have unlike numbers of numbers,
            or the file ends early.
        tf.errors.OpError: a record cannot be read.
    """
    number = 0  # of the records before this chunk
    for records in record_chunks(path):
        lengths = reader.lengths(records).numpy()
        needed = lengths if reader.has_inputs else lengths[:, 1:]
        if not needed.all():
            number += 1 + int(needed.min(axis=1).argmin())
            raise DataError(
                f"{path}, record {number}: inputs or targets are missing; "
                "delete the file and run t2t-datagen again"
            )
        if reader.has_labels and (lengths[:, 1] < 2).any():
            number += 1 + int(lengths[:, 1].argmin())
            raise DataError(
                f"{path}, record {number}: a label without EOS, as T2T writes it; delete the files "
                "of this problem and run t2t-datagen again"
            )
        if reader.has_numbers and (lengths[:, 1] != lengths[0, 1]).any():
            row = int((lengths[:, 1] != lengths[0, 1]).argmax())
            raise DataError(
                f"{path}, record {number + 1 + row}: {counted(int(lengths[row, 1]) - 1)}, but "
                f"record {number + 1} has {lengths[0, 1] - 1}; delete the files of this problem "
                "and run t2t-datagen again"
            )
        if rewriter:
            numbers = tf.constant(examples[number : number + len(records)], tf.int64)
            _, (_, rewritten) = rewriter(tf.constant(0, tf.int64), (numbers, records))
            lengths = rewriter.reader.lengths(rewritten).numpy()
        yield lengths
        number += len(lengths)
