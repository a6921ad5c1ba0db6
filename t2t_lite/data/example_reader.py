"""Reading TFRecord files: parsing examples, and locating damaged records."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, Self, runtime_checkable

import tensorflow as tf

from t2t_lite.data.number_ids import ids_of_numbers
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.records import FRAME_BYTES, read_examples
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text.sample import ALIGNMENT, TARGETS_AS_SOURCE
from t2t_lite.text.text_encoder import EOS_ID

_IDS = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
_NUMBERS = tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)
_SIDES = ("inputs", "targets")
# Records parsed per call.
_CHUNK = 1024
# Bytes per read, TensorFlow's own default.
_READ_BYTES = 2**18
# For datasets that are read once: to optimize one takes longer than to read a small file.
_AS_WRITTEN = tf.data.Options()
_AS_WRITTEN.autotune.enabled = False
_AS_WRITTEN.experimental_optimization.apply_default_optimizations = False
# Upper bound of example numbers.
MOST_EXAMPLES = 2**36
# What TensorFlow raises for a missing, unreadable or damaged file, and for a record that is not a
# tf.Example; UnicodeDecodeError if its message quotes bytes of the record that are not UTF-8.
_UNREADABLE = (
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    UnicodeDecodeError,
)

# Maps ids by side, `[n, (length)]`, to other ids.
Change = Callable[[dict[str, tf.RaggedTensor]], dict[str, tf.RaggedTensor]]


@runtime_checkable
class ChangesExamples(Protocol):
    """A problem whose examples are changed when they are read."""

    def change_of_examples(self, hparams: BasicHParams, split: str | None) -> Change | None:
        """Returns the change; None: none.

        Args:
            hparams: of the model.
            split: what the examples are read for, training or evaluation; None: for decoding.
        """


@dataclasses.dataclass(frozen=True)
class ExampleReader:
    """Parses serialized `tf.Example`s into pairs of id sequences.

    Attributes:
        reverse: exchange sources and targets (`_rev` problems); applied before `copy`.
        copy: use the sources as targets (`_copy` problems).
        max_input_length: subwords to which sources are truncated, EOS kept; 0: no limit.
        max_target_length: the same for targets.
        has_inputs: whether examples have sources, which language models lack.
        has_labels: whether targets are a label and EOS.
        has_numbers: whether targets are numbers in the examples, which are read as their ids.
        change: what is done to the examples of training first; None: nothing.
        evaluation_change: the same for those of evaluation.
        further: the lists of integers beside the sides that the changes read.
        prepends_inputs: whether targets of training are source, 0 and target (`prepend_mode`).
        counts_inputs: whether the model makes them so: whether their lengths are such.
        has_alignment: whether the targets' alignment is read, too.
    """

    reverse: bool = False
    copy: bool = False
    max_input_length: int = 0
    max_target_length: int = 0
    has_inputs: bool = True
    has_labels: bool = False
    has_numbers: bool = False
    change: Change | None = None
    evaluation_change: Change | None = None
    further: Sequence[str] = ()
    prepends_inputs: bool = False
    counts_inputs: bool = False
    has_alignment: bool = False

    @classmethod
    def of(cls, problem: Problem, hparams: BasicHParams) -> "ExampleReader":
        """Returns the reader for training and evaluating on `problem` with `hparams`.

        Raises:
            UsageError: the hparams prepend inputs, which the problem does not have, or to numbers,
                or which they do not let training predict and truncate; or they need alignments,
                which the problem cannot have.
        """
        _require_suited(problem, hparams)
        counts = hparams.prepends_inputs and not hparams.predicts_inputs
        if counts and hparams.max_target_seq_length:
            raise UsageError(
                f"hparam max_target_seq_length={hparams.max_target_seq_length} does not work with "
                "prepend_inputs_full_attention: set it to 0, or max_length"
            )
        splits = DatasetSplit.TRAIN, DatasetSplit.EVAL
        change, evaluation_change = (_change_of(problem, hparams, split) for split in splits)
        return dataclasses.replace(
            cls.of_whole(problem),
            # A change truncates by itself.
            max_input_length=0 if change else hparams.max_input_seq_length,
            max_target_length=0 if change else hparams.max_target_seq_length,
            change=change,
            evaluation_change=evaluation_change,
            prepends_inputs=hparams.predicts_inputs,
            counts_inputs=counts,
            has_alignment=hparams.is_guided,
        )

    @classmethod
    def of_decoding(cls, problem: Problem, hparams: BasicHParams) -> "ExampleReader":
        """Returns the reader of examples to decode, which are not truncated."""
        change = _change_of(problem, hparams, None)
        return dataclasses.replace(cls.of_whole(problem), change=change, evaluation_change=change)

    @classmethod
    def of_whole(cls, problem: Problem) -> "ExampleReader":
        """Returns the reader of the examples of `problem` that does not truncate them."""
        return cls(
            problem.was_reversed,
            problem.was_copy,
            has_inputs=problem.has_inputs,
            has_labels=problem.has_labels,
            has_numbers=problem.has_numbers,
            further=problem.further_features,
        )

    @property
    def floats(self) -> tuple[str, ...]:
        """The sides that are floats in the examples."""
        return ("targets",) if self.has_numbers else ()

    @property
    def has_text_targets(self) -> bool:
        """Whether targets are text."""
        return not (self.has_labels or self.has_numbers)

    def parse(self, records: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        """Parses serialized examples, strings `[n]`, to ragged int64 ids `[n, (length)]`."""
        alignment = [ALIGNMENT] if self.has_alignment else []
        as_source = [TARGETS_AS_SOURCE] if self.reverse else []
        names = (*_SIDES, *alignment, *as_source, *(self.further if self.change else ()))
        kinds = {**dict.fromkeys(names, _IDS), **dict.fromkeys(self.floats, _NUMBERS)}
        parsed = tf.io.parse_example(records, kinds)
        parsed |= {side: _with_eos(ids_of_numbers(parsed[side])) for side in self.floats}
        for name in as_source:
            parsed["targets"] = _replaced(parsed["targets"], parsed.pop(name))
        if self.change:
            parsed = self.change(parsed)
        inputs, targets = parsed["inputs"], parsed["targets"]
        if self.reverse:
            inputs, targets = targets, inputs
        if self.copy:
            targets = inputs
        inputs = _cut(inputs, self.max_input_length)
        if self.prepends_inputs:
            separator = tf.zeros_like(inputs[:, :1])
            targets = tf.concat([inputs, separator, targets], axis=1)
        features = {"inputs": inputs, "targets": _cut(targets, self.max_target_length)}
        if self.has_alignment:
            features[ALIGNMENT] = _cut(parsed[ALIGNMENT], self.max_target_length)
        return features

    def uncut(self) -> Self:
        """Returns a reader of the same sides that neither truncates nor joins them."""
        return dataclasses.replace(
            self, max_input_length=0, max_target_length=0, prepends_inputs=False
        )

    def of_model_sides(self) -> Self:
        """Returns a reader of changed examples, with the sides that the model sees."""
        return dataclasses.replace(
            self, reverse=False, copy=False, has_numbers=False, change=None, evaluation_change=None
        )

    def of_evaluation(self) -> Self:
        """Returns the reader of examples for evaluation."""
        return dataclasses.replace(
            self,
            change=self.evaluation_change,
            prepends_inputs=False,
            counts_inputs=False,
            has_alignment=False,
        )

    def lengths(self, records: tf.Tensor) -> tf.Tensor:
        """Returns the lengths of source and target, int64 `[n, 2]`, of serialized examples."""
        features = self.parse(records)
        inputs, targets = (features[side].row_lengths() for side in _SIDES)
        if self.counts_inputs:
            targets = tf.where(targets > 0, inputs + 1 + targets, 0)
        return tf.stack([inputs, targets], axis=1)


def _with_eos(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Appends EOS to the rows of ids `[n, (length)]` that are not empty."""
    is_full = tf.cast(ids.row_lengths() > 0, tf.int64)
    ends = tf.fill([tf.reduce_sum(is_full)], tf.constant(EOS_ID, tf.int64))
    return tf.concat([ids, tf.RaggedTensor.from_row_lengths(ends, is_full)], axis=1)


def _replaced(ids: tf.RaggedTensor, others: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the rows of `others` `[n, (length)]`, and those of `ids` where these are empty."""
    is_kept = tf.repeat(others.row_lengths() == 0, ids.row_lengths())
    return tf.concat([tf.ragged.boolean_mask(ids, ids.with_values(is_kept)), others], axis=1)


def _require_suited(problem: Problem, hparams: BasicHParams) -> None:
    """Refuses hparams that need another kind of problem."""
    if hparams.prepends_inputs and (not problem.has_inputs or problem.has_numbers):
        lacking = "text to prepend inputs to" if problem.has_numbers else "inputs to prepend"
        raise UsageError(
            f"hparam prepend_mode: problem {problem.name!r} has no {lacking}; set it to none"
        )
    reads = alignment_readers(hparams)
    if reads and not problem.has_text_targets:
        raise UsageError(
            f"hparam {reads[0]}: the targets of problem {problem.name!r} are not text, which "
            "alone has alignments; set it to 0"
        )
    if reads and (problem.was_reversed or problem.was_copy):
        raise UsageError(
            f"hparam {reads[0]}: the alignments are those of the problem "
            f"{problem.base_name!r}, not of {problem.name!r}; set it to 0"
        )


def alignment_readers(hparams: BasicHParams) -> list[str]:
    """Returns the hparams that need the alignments of the data."""
    needed = {
        "guided_alignment_weight": hparams.is_guided,
        "term_augmentation": hparams.term_augmentation > 0,
    }
    return [name for name, is_needed in needed.items() if is_needed]


def require_alignments(paths: Sequence[str], hparams: BasicHParams) -> None:
    """Checks that the data has the alignments that hparams need.

    Raises:
        DataError: it has none.
    """
    names = alignment_readers(hparams)
    if names and ALIGNMENT not in next(read_examples(paths), {}):
        raise DataError(
            f"{paths[0]} has no alignments, which hparam {names[0]} needs: generate the data with "
            "t2t-datagen --alignments=auto, or from a file"
        )


def _change_of(problem: Problem, hparams: BasicHParams, split: str | None) -> Change | None:
    if not isinstance(problem, ChangesExamples):
        return None
    return problem.change_of_examples(hparams, split)


def _cut(ids: tf.RaggedTensor, limit: int) -> tf.RaggedTensor:
    """Truncates each row to `limit` ids: its first ones and its last one, which is EOS."""
    if not limit:
        return ids
    lengths = ids.row_lengths()
    position = tf.ragged.range(lengths)  # [n, (length)]
    last = tf.expand_dims(lengths - 1, axis=1)  # [n, 1]
    return tf.ragged.boolean_mask(ids, (position < limit - 1) | (position == last))


def file_records(path: str | tf.Tensor) -> tf.data.Dataset:
    """Returns the serialized examples of a file.

    `tf.data.TFRecordDataset` contains the path in its state, and takes longer to trace than a small
    file to read.
    """
    records = tf.raw_ops.TFRecordDataset(
        filenames=path, compression_type="", buffer_size=_READ_BYTES
    )
    return tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string))


def record_chunks(path: str) -> Iterator[tf.Tensor]:
    """Yields the serialized examples of a file, strings `[n]`.

    Raises:
        DataError: the file ends early.
        tf.errors.OpError: a record cannot be read.
    """
    size = 0
    for records in file_records(path).batch(_CHUNK).with_options(_AS_WRITTEN):
        yield records
        size += int(tf.reduce_sum(tf.strings.length(records))) + FRAME_BYTES * len(records)
    # TensorFlow accepts a file that ends inside a record's length.
    if size != os.path.getsize(path):
        _raise_for_damage([path])


def eval_examples(
    paths: Sequence[str], reader: ExampleReader, limit: int | None = None
) -> list[tuple[list[int], list[int]]]:
    """Reads (source ids, target ids) in the order of the files, without padding.

    Args:
        paths: the TFRecord files.
        reader: parses the examples.
        limit: number of examples to read; None: all.

    Raises:
        DataError: a record cannot be read.
    """
    records = tf.data.TFRecordDataset(list(paths)).take(-1 if limit is None else limit)
    reader = reader.of_evaluation()
    pairs: list[tuple[list[int], list[int]]] = []
    with naming_bad_file(paths, reader.floats):
        for chunk in records.batch(_CHUNK):
            features = reader.parse(chunk)
            pairs += zip(features["inputs"].to_list(), features["targets"].to_list(), strict=True)
    return pairs


@contextlib.contextmanager
def naming_bad_file(paths: Sequence[str], floats: Sequence[str] = ()) -> Iterator[None]:
    """Turns TensorFlow's errors about damaged data into one that names the file and the record.

    Errors with any other cause pass unchanged.

    Args:
        paths: the files.
        floats: as `ExampleReader.floats`.

    Raises:
        DataError: the block failed, and one of the files at `paths` has a bad record.
        UserError: the block failed, and one of the files is missing.
        OSError: the block failed, and one of the files cannot be read.
    """
    try:
        yield
    except _UNREADABLE:
        _raise_for_damage(paths, floats)
        raise


def _raise_for_damage(paths: Sequence[str], floats: Sequence[str] = ()) -> None:
    """Reads all records; raises DataError for the first bad one, UserError for a missing file."""
    for path in paths:
        if not os.path.exists(path):
            raise UserError(f"{path}: no such file")
    for _ in read_examples(paths, floats):
        pass
