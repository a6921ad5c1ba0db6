"""Inspection of a data folder: counts, lengths, faults, and the first records.

This is the first thing to check when a model does not learn. The records are shown as the model
receives them, also for `_rev` and `_copy` problems.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.example_reader import ExampleReader, naming_bad_file, record_chunks
from t2t_lite.data.generation import lengths
from t2t_lite.data.generation.lengths import SIDES, Lengths
from t2t_lite.data.problem import SPLIT_FILE_NAMES, Problem
from t2t_lite.errors import DataError
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder

# Records shown of each split.
_SHOWN = 3


@dataclasses.dataclass
class SplitInspection:
    """The contents of a split's files.

    Attributes:
        files: number of existing files.
        sides: `inputs` and `targets`; of a language model, `targets`.
        lengths: of the examples, in tokens with EOS; 0 for a missing side.
        faults: number of examples with each fault, and the first place; a damaged or missing file
            is a separate fault.
        first: the ids of the first examples.
    """

    files: int = 0
    sides: Sequence[str] = SIDES
    lengths: Lengths = dataclasses.field(default_factory=collections.Counter)
    faults: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    first: list[dict[str, list[int]]] = dataclasses.field(default_factory=list)

    @property
    def examples(self) -> int:
        """Number of readable examples."""
        return self.lengths.total()

    def add_faults(self, fault: str, where: Sequence[str]) -> None:
        """Counts examples with a fault, if any; keeps the first place."""
        if where:
            count, first = self.faults.get(fault, (0, where[0]))
            self.faults[fault] = (count + len(where), first)


def inspect(problem: Problem, data_dir: str) -> Iterator[tuple[str, SplitInspection]]:
    """Reads the data of a problem, split by split, in bounded memory.

    Yields:
        The name of a split in file names, and its contents; splits without files are omitted.
    """
    encoders = problem.get_feature_encoders(data_dir)
    reader = ExampleReader.of_whole(problem)
    found = False
    for entry in problem.dataset_splits:
        paths = problem.filepaths(data_dir, entry["split"])
        if any(map(os.path.isfile, paths)):
            found = True
            yield SPLIT_FILE_NAMES[entry["split"]], inspect_split(paths, reader, encoders)
    if not found:
        # The error names the first missing file and the command that generates it.
        problem.existing_filepaths(data_dir, problem.dataset_splits[0]["split"])


def inspect_split(
    paths: Sequence[str], reader: ExampleReader, encoders: Mapping[str, TextEncoder]
) -> SplitInspection:
    """Reads files of one split.

    Args:
        paths: the TFRecord files, existing or not.
        reader: parses the examples.
        encoders: those of `inputs` and `targets`; one without a vocabulary has no ids.
    """
    # Language models have targets alone.
    own = {side: encoder for side, encoder in encoders.items() if encoder.vocab_size}
    found = SplitInspection(sides=list(own))
    for path in paths:
        if not os.path.isfile(path):
            found.add_faults("files missing", [pathlib.Path(path).name])
            continue
        found.files += 1
        try:
            _add_file(found, path, reader, own)
        except DataError as error:
            found.add_faults("files damaged, counted only in part", [str(error)])
    return found


def _add_file(
    found: SplitInspection, path: str, reader: ExampleReader, encoders: Mapping[str, TextEncoder]
) -> None:
    """Adds the contents of a file; DataError for a damaged one, after its preceding chunks."""
    name = pathlib.Path(path).name
    number = 1  # of the next record
    for parsed in _chunks(path, reader):
        features = {side: parsed[side] for side in encoders}
        for side, ids in features.items():
            # The ids of numbers are bits.
            vocab_size = None if side in reader.floats else encoders[side].vocab_size
            for fault, rows in _faults(ids, vocab_size, encoders[side].separates_by_eos).items():
                where = [f"{name}, record {number + row}" for row in rows]
                found.add_faults(f"{side} {fault}", where)
        examples = int(features["targets"].nrows())
        both = (
            features[side].row_lengths().numpy().tolist() if side in features else [0] * examples
            for side in SIDES
        )
        found.lengths.update(zip(*both, strict=True))
        found.first += [
            {side: ids[row].numpy().tolist() for side, ids in features.items()}
            for row in range(min(examples, _SHOWN - len(found.first)))
        ]
        number += examples


def _chunks(path: str, reader: ExampleReader) -> Iterator[dict[str, tf.RaggedTensor]]:
    """Yields the ids `[n, (length)]` of the examples of a file."""
    with naming_bad_file([path], reader.floats):
        for records in record_chunks(path):
            yield reader.parse(records)


def _faults(
    ids: tf.RaggedTensor, vocab_size: int | None, may_have_eos: bool
) -> dict[str, list[int]]:
    """Returns the rows of `[n, (length)]` ids with each fault; None: all ids are possible."""
    values, splits = ids.values.numpy(), ids.row_splits.numpy()
    row = ids.value_rowids().numpy()
    empty = np.diff(splits) == 0
    is_last = np.zeros(len(values), bool)
    is_last[splits[1:][~empty] - 1] = True
    return {
        "missing or empty": np.flatnonzero(empty).tolist(),
        "without EOS at the end": row[is_last & (values != EOS_ID)].tolist(),
        "with EOS inside": np.unique(
            row[~is_last & (values == EOS_ID) & (not may_have_eos)]
        ).tolist(),
        "with pad inside": np.unique(row[values == PAD_ID]).tolist(),
        "with ids outside the vocabulary": np.unique(
            row[(values < 0) | (values >= vocab_size)] if vocab_size is not None else row[:0]
        ).tolist(),
    }


def describe(
    split: str, found: SplitInspection, encoders: Mapping[str, TextEncoder]
) -> Iterator[str]:
    """Yields the lines of the report on a split."""
    yield f"{split}: {found.files:,} files, {found.examples:,} examples"
    if found.lengths:
        yield from lengths.describe({"tokens": found.lengths}, found.sides)
    for fault, (count, where) in found.faults.items():
        yield f"  FAULT: {fault}: {count:,}, first {where}"
    for number, example in enumerate(found.first, 1):
        for side, ids in example.items():
            text = ids[:-1] if ids[-1:] == [EOS_ID] else ids
            yield f"  {number} {side:<8}{encoders[side].decode(text)}"
            yield f"    {'ids':<8}{' '.join(map(str, ids))}"
