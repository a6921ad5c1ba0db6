"""Evaluation: loss and accuracy given the references, then scores of decoded outputs.

`Evaluator` evaluates the model of a run while it trains, or its newest checkpoint; the scores of
any checkpoint on a whole split are in checkpoint_evaluation.py (`t2t-eval`). Each member of a
mixture is evaluated on its own: see metrics/parts.py.

With the hparam `ema_decay`, Keras's optimizer computes moving averages of the weights. Training
continues with the weights themselves; evaluation and `RunFolder.restore_weights`, and thus all
decoding, use the averages.
"""

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite import memory
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.data.input_pipeline import limited_eval_dataset
from t2t_lite.data.problem import SPLIT_FILE_NAMES
from t2t_lite.decoding.dataset_decoding import Decodes, decode_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.metrics.base import Score, TeacherForcedTotals
from t2t_lite.metrics.by_name import output_metrics, teacher_forced_values
from t2t_lite.metrics.command_metric import ProgramError
from t2t_lite.metrics.parts import Part, combined, mean_summaries, parts_of, without_split
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.selection import DEV, EVAL_STEPS, SEARCH, SPLIT
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS
from t2t_lite.training.callbacks import Callbacks
from t2t_lite.training.cluster.workers import Workers
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.features import Features, features_spec
from t2t_lite.training.losses import smoothed_cross_entropy
from t2t_lite.training.objectives.squared_error import squared_errors
from t2t_lite.training.preemption import StopSignals
from t2t_lite.training.run_log import MetricsWriter, Values
from t2t_lite.training.samples import attention_images, sample_table

log = logging.getLogger(__name__)

# The number of intervals of probability, and the largest logarithm of odds that is told apart.
_INTERVALS = 1 << 16
_LARGEST_ODDS = 1e6
# What a log line has of teacher forcing; of regression, only the first.
_LOGGED = {
    "loss": "loss %.4f",
    "perplexity": "perplexity %.2f",
    "accuracy": "accuracy %.4f",
    "accuracy_per_sequence": "per sequence %.4f",
}
# The number of targets whose length in characters is kept for the next evaluation.
_KNOWN_TEXTS = 2**16


class Evaluator:
    """Evaluates the model of a run.

    Args:
        run: the run.
        model: its model, created in the strategy's scope.
        strategy: the devices.
        decode_hparams: how outputs are searched for.
        data_dir: folder of the data.
        split: of `DatasetSplit`; what to evaluate on.
        limit: number of batches of one device's size that are read for loss and accuracy, of each
            member of a mixture.
        stop: signals, which take effect during an evaluation.
        workers: all of them, as seen by this one.
        decodes: whether outputs are decoded and scored, too.
        callbacks: told the values of each evaluation; None: there are none.

    Attributes:
        parts: what is evaluated: the problem, or the members of a mixture that have the split.
        of_split: the field of a record that names the split; none for dev.
    """

    def __init__(
        self,
        run: RunFolder,
        model: Seq2Seq,
        strategy: tf.distribute.Strategy,
        decode_hparams: DecodeHParams,
        data_dir: str,
        split: str,
        limit: int,
        stop: StopSignals,
        workers: Workers,
        decodes: bool = True,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._run = run
        self._model = model
        self._strategy = strategy
        self._data_dir = data_dir
        self._split = split
        self._limit = limit
        self._stop = stop
        self._workers = workers
        self._decodes = decodes
        self._callbacks = callbacks or Callbacks()
        self.parts = parts_of(run.problem, split, data_dir=data_dir)
        name = SPLIT_FILE_NAMES[split]
        self.of_split: Values = {} if name == DEV else {SPLIT: name}
        self._origin: Values = {**self.of_split, EVAL_STEPS: str(limit)}
        if decodes:
            self._origin[SEARCH] = decode_hparams.signature
        for part in self.parts:
            part.check()
        for name in without_split(run.problem, split, data_dir):
            log.info("%s has no %s split: evaluations leave it out", name, split)
        self._teacher_forced = TeacherForced(strategy, model, run)
        devices = strategy.extended.worker_devices
        engine = TensorFlowEngine(model, run.encoders, decode_hparams, devices)
        # By label.
        self._readers = {p.label: ExampleReader.of(p.problem, run.hparams) for p in self.parts}
        self._decoders = {p.label: Decoder(engine, p.problem) for p in self.parts}

    def __call__(
        self, step: int, writer: MetricsWriter, kind: str = "eval", others: Values | None = None
    ) -> None:
        """Evaluates the current weights.

        Args:
            step: number of updates before them.
            writer: gets a record of the scores, and samples of the outputs.
            kind: of the record; only those of kind `eval` choose checkpoints.
            others: further fields of the record.
        """
        with self._stop.at_once():
            evaluated = [self._evaluated(step, part) for part in self.parts]
        values = combined({one.part.label: one.values for one in evaluated})
        if limit := max(one.limit for one in evaluated):
            values["first_batches"] = limit
        writer.write(kind, step, {**values, **self._origin, **(others or {})})
        for one in evaluated:
            if one.samples:
                writer.write_samples(step, *one.samples, label=one.part.label)
            one.log(step, self._place(one.part.label))
        if len(evaluated) > 1:
            place = self._place(f"mean of {len(evaluated)}")
            _log_values(step, place, values, limit, mean_summaries(self.parts, values))
        self._callbacks.evaluation(step, values)

    def require_data(self) -> None:
        """Raises UserError if a file of the split is missing: at the start, not hours later."""
        for part in self.parts:
            part.problem.existing_filepaths(self._data_dir, self._split)

    @functools.cached_property
    def _data(self) -> dict[str, tuple[list[str], tf.data.Dataset, int]]:
        """By label the files of the split, its batches, and the limit; 0: there are no more.

        Created once: TensorFlow never frees the functions of a dataset.
        """
        scheme = BatchingScheme.from_hparams(self._run.hparams, training=False)
        replicas = self._strategy.num_replicas_in_sync
        by_label = {}
        for part in self.parts:
            paths = part.problem.existing_filepaths(self._data_dir, self._split)
            reader = self._readers[part.label]
            with naming_bad_file(paths, part.problem.float_sides):
                batches, has_more = limited_eval_dataset(
                    paths, scheme, reader, parts=replicas, limit=self._limit
                )
            by_label[part.label] = paths, batches, self._limit if has_more else 0
        return by_label

    def _evaluated(self, step: int, part: Part) -> "_Evaluated":
        """Evaluates a part."""
        paths, batches, limit = self._data[part.label]
        with naming_bad_file(paths, part.problem.float_sides):
            values = self._teacher_forced(self._workers.collective_steps(batches))
            if not self._decodes:
                return _Evaluated(part, values, limit)
            try:
                decodes = self.decoded(part)
            except NoOutputError as error:
                values |= dict.fromkeys(output_metrics(part.metrics), math.nan)
                return _Evaluated(part, values, limit, error=error)
            images = attention_images(self._model, paths, self._readers[part.label])
            memory.give_back()  # the sizes of its arrays vary
            scores = self.scores(step, part, decodes)
        for score in scores:
            values |= score.values
        samples = sample_table(decodes), images
        summaries = [score.summary for score in scores]
        return _Evaluated(part, values, limit, samples, summaries, decodes.only_output())

    def decoded(self, part: Part) -> Decodes:
        """Decodes a part of the split with the current weights.

        Raises:
            NoOutputError: the model gives NaN.
        """
        paths = part.problem.existing_filepaths(self._data_dir, self._split)
        name = part.labelled(f"{self._split} example")
        return decode_examples(self._decoders[part.label], paths, name)

    def scores(self, step: int, part: Part, decodes: Decodes) -> list[Score]:
        """Scores outputs by the part's metrics; NaN if a metric's program fails."""
        scores: list[Score] = []
        for name in output_metrics(part.metrics):
            try:
                scores += decodes.score([name]).values()
            except ProgramError as error:
                log.error("step %d: no %s: %s", step, part.field(name), error)
                scores.append(Score({name: math.nan}, report="", summary=f"no {name}"))
        return scores

    def _place(self, label: str) -> str:
        """Returns what the log calls the split of a part."""
        return f"{self._split} split" + (f", {label}" if label else "")


@dataclasses.dataclass(frozen=True)
class _Evaluated:
    """The evaluation of a part.

    Attributes:
        part: what was evaluated.
        values: by name, without its label.
        limit: the number of batches whose loss and accuracy these are; 0: all.
        samples: for TensorBoard; None if there are no outputs.
        summaries: of its metrics.
        only_output: what all sources have; None: they have several.
        error: why there are no outputs; None if there are.
    """

    part: Part
    values: Values
    limit: int
    samples: tuple[list[list[str]], Sequence[np.ndarray]] | None = None
    summaries: Sequence[str] = ()
    only_output: str | None = None
    error: NoOutputError | None = None

    def log(self, step: int, place: str) -> None:
        """Logs the values; or that the model gives NaN in decoding, in which training continues."""
        if self.error is None:
            _log_values(step, place, self.values, self.limit, self.summaries)
            if self.only_output is not None:
                log.warning(
                    "step %d: all outputs are %r, whatever the source. Early in training, that is "
                    "usual. If it remains, the model does not read its sources: end this run, and "
                    "start another with a lower learning rate or a longer warm-up, or, in a "
                    "post-norm model, with --hparams=initializer_gain=0.25",
                    step,
                    self.only_output,
                )
            return
        log.error(
            "step %d: loss %.4f, and no %s: %s. An evaluation with NaN is never chosen as the "
            "best; if the next ones fail as well, end this run, and start another with a lower "
            "learning rate or a longer warm-up",
            step,
            self.values["loss"],
            ", ".join(map(self.part.field, output_metrics(self.part.metrics))),
            self.error,
        )


def _log_values(
    step: int, place: str, values: Values, limit: int, summaries: Sequence[str]
) -> None:
    forced = [form % values[name] for name, form in _LOGGED.items() if name in values]
    if limit:
        forced.append(f"(first {limit} batches)")
    log.info("step %d, %s: %s", step, place, "  ".join([*forced, *summaries]))


@contextlib.contextmanager
def averaged_weights(model: Seq2Seq, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Gives a model its averaged weights within the block, if the optimizer has them.

    Afterwards its own weights are restored exactly.
    """
    if not optimizer.use_ema:
        yield
        return
    trained = [variable.numpy() for variable in model.trainable_variables]
    try:
        optimizer.finalize_variable_values(model.trainable_variables)
        yield
    finally:
        for variable, value in zip(model.trainable_variables, trained, strict=True):
            variable.assign(value)


class _Sums(NamedTuple):
    """`TeacherForcedTotals` as tensors."""

    loss: tf.Tensor
    tokens: tf.Tensor
    right: tf.Tensor
    sentences: tf.Tensor
    all_right: tf.Tensor
    in_top5: tf.Tensor
    prefixes: tf.Tensor
    by_probability: tf.Tensor  # [2, intervals]; zeros [2, 1] without two labels


class TeacherForced:
    """Computes teacher-forced metrics of a model on all devices.

    Args:
        strategy: distributes the evaluation over replicas.
        model: created in the strategy's scope.
        run: of the model; None: what depends on its problem is not computed.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, model: Seq2Seq, run: RunFolder | None = None
    ) -> None:
        self.strategy = strategy
        self.model = model
        self._has_labels = run is not None and run.problem.has_labels
        has_text = run is not None and run.problem.has_text_targets
        self._targets = run.encoders["targets"] if run and has_text else None
        self._characters = functools.lru_cache(_KNOWN_TEXTS)(self._characters_of)
        spec = features_spec(strategy.num_replicas_in_sync)
        self._compiled = tf.function(self._sums, input_signature=(spec,), autograph=False)

    def __call__(self, batches: Iterable[Features]) -> dict[str, float | int | str]:
        """Returns the registered scores of batches [R, B, L]."""
        sums = dict.fromkeys(_Sums._fields, np.zeros(()))
        characters = 0
        for batch in batches:
            more = self._compiled(batch)._asdict()
            sums = {name: total + more[name].numpy() for name, total in sums.items()}
            characters += sum(map(self._characters, _rows(batch["targets"])))
        summed: dict[str, Any] = {name: total.tolist() for name, total in sums.items()}
        totals = TeacherForcedTotals(**summed, characters=characters)
        values = teacher_forced_values(totals, of_numbers=self.model.only_numbers)
        return {**values, "target_tokens": int(totals.tokens)}

    def _characters_of(self, ids: tuple[int, ...]) -> int:
        """Returns the number of characters of a target's text; 0 if that is unknown."""
        return len(self._targets.decode(ids)) if self._targets and ids else 0

    def _sums(self, features: Features) -> _Sums:
        per_replica = self.strategy.run(self._replica_sums, (features,))
        return sum_replicas(self.strategy, per_replica)

    def _replica_sums(self, features: Features) -> _Sums:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        batch = {name: ids[replica] for name, ids in features.items()}
        targets = batch["targets"]  # [B, T]
        present = tf.not_equal(targets, 0)
        logits = tf.cast(self.model(batch, training=False), tf.float32)  # [B, T, V]
        if self.model.only_numbers:  # their ids are not symbols of the model
            return self._squared_errors(logits, targets)
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        losses = smoothed_cross_entropy(flat, tf.reshape(targets, [-1]), 0.0)  # [B·T]
        right = tf.equal(tf.argmax(logits, axis=-1, output_type=targets.dtype), targets)
        sentence = tf.reduce_any(present, axis=1)  # the last batch is filled up with padding
        all_right = tf.reduce_all(right | ~present, axis=1) & sentence
        in_top5 = tf.math.in_top_k(tf.reshape(targets, [-1]), flat, 5)
        in_top5 = tf.reshape(in_top5, tf.shape(targets)) & present
        values = {
            "loss": tf.boolean_mask(losses, tf.reshape(present, [-1])),
            "tokens": present,
            "right": right & present,
            "sentences": sentence,
            "all_right": all_right,
            "in_top5": in_top5,
            "prefixes": _right_prefixes(right & present, present),
        }
        sums = {name: tf.reduce_sum(tf.cast(v, tf.float64)) for name, v in values.items()}
        return _Sums(**sums, by_probability=self._by_probability(logits, targets))

    def _squared_errors(self, logits: tf.Tensor, targets: tf.Tensor) -> _Sums:
        """Returns the sums of a model of numbers, whose loss is their squared error."""
        by_output = {"loss": squared_errors(logits, targets), "tokens": tf.not_equal(targets, 0)}
        sums = {name: tf.reduce_sum(tf.cast(v, tf.float64)) for name, v in by_output.items()}
        none = dict.fromkeys(_Sums._fields, tf.constant(0.0, tf.float64))
        return _Sums(**{**none, **sums, "by_probability": tf.zeros([2, 1], tf.float64)})

    def _by_probability(self, logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Counts labels [2, intervals] by the second one's probability; see the totals.

        By the logarithm of the odds, the intervals are 0.0004 wide around 0; where that is large,
        its relative width is as much.

        Args:
            logits: [B, T, V]; the first symbol is the label.
            targets: [B, T].
        """
        first = len(RESERVED_TOKENS)
        if not self._has_labels or logits.shape[-1] != first + 2:
            return tf.zeros([2, 1], tf.float64)
        odds = logits[:, 0, first + 1] - logits[:, 0, first]
        odds = tf.clip_by_value(tf.cast(odds, tf.float64), -_LARGEST_ODDS, _LARGEST_ODDS)
        place = tf.asinh(odds) / math.asinh(_LARGEST_ODDS)  # -1 to 1
        interval = tf.cast((place + 1) / 2 * (_INTERVALS - 1), tf.int32)
        row = tf.one_hot(targets[:, 0] - first, 2, dtype=tf.float64)  # [B, 2]; zeros for padding
        return tf.transpose(tf.math.unsorted_segment_sum(row, interval, _INTERVALS))


def _right_prefixes(right: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Returns the share of tokens before the first wrong one [B], given two masks [B, T]."""
    counts = tf.reduce_sum(tf.cast(present, tf.float64), axis=1)
    before = tf.reduce_sum(tf.math.cumprod(tf.cast(right, tf.float64), axis=1), axis=1)
    return before / tf.maximum(counts, 1.0)


def _rows(targets: tf.Tensor) -> Iterator[tuple[int, ...]]:
    """Yields the ids of each target [R, B, T] without padding and EOS."""
    for row in targets.numpy().reshape(-1, targets.shape[-1]):
        yield tuple(row[row > EOS_ID].tolist())
