"""Evaluation: loss and accuracy given the references, then scores of decoded outputs.

`Evaluator` evaluates the model of a run while it trains, or its newest checkpoint; the scores of
any checkpoint on a whole split are in checkpoint_evaluation.py (`t2t-eval`).

With the hparam `ema_decay`, Keras's optimizer computes moving averages of the weights. Training
continues with the weights themselves; evaluation and `RunFolder.restore_weights`, and thus all
decoding, use the averages.
"""

import contextlib
import ctypes
import dataclasses
import functools
import logging
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_lite.cluster.workers import Workers
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.data.input_pipeline import eval_dataset
from t2t_lite.decoding.dataset_decoding import Decodes, decode_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.metrics.base import Score, TeacherForcedTotals
from t2t_lite.metrics.by_name import check_metrics, output_metrics, teacher_forced_values
from t2t_lite.metrics.command_metric import ProgramError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.losses import smoothed_cross_entropy
from t2t_lite.training.preemption import StopSignals
from t2t_lite.training.run_log import MetricsWriter, Values
from t2t_lite.training.samples import attention_images, sample_table
from t2t_lite.training.train_step import Features, features_spec

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Evaluator:
    """Evaluates the model of a run.

    Attributes:
        run: the run.
        model: its model, created in the strategy's scope.
        strategy: the devices.
        decode_hparams: how outputs are searched for.
        data_dir: folder of the data.
        split: of `DatasetSplit`; what to evaluate on.
        limit: number of batches of one device's size that are read for loss and accuracy.
        stop: signals, which take effect during an evaluation.
        workers: all of them, as seen by this one.
    """

    run: RunFolder
    model: Seq2Seq
    strategy: tf.distribute.Strategy
    decode_hparams: DecodeHParams
    data_dir: str
    split: str
    limit: int
    stop: StopSignals
    workers: Workers

    def __post_init__(self) -> None:
        run, devices = self.run, self.strategy.extended.worker_devices
        check_metrics(run.problem.metrics)
        self.reader = ExampleReader.of(run.problem, run.hparams)
        self.teacher_forced = TeacherForced(self.strategy, self.model)
        engine = TensorFlowEngine(self.model, run.encoders, self.decode_hparams, devices)
        self.decoder = Decoder(engine, run.problem)

    def __call__(self, step: int, writer: MetricsWriter, kind: str = "eval") -> None:
        """Evaluates the current weights.

        Args:
            step: number of updates before them.
            writer: gets a record of the scores, and samples of the outputs.
            kind: of the record; only those of kind `eval` choose checkpoints.
        """
        paths, batches = self._data
        with naming_bad_file(paths), self.stop.at_once():
            values = self.teacher_forced(self.workers.collective_steps(batches))
            try:
                decodes = decode_examples(self.decoder, paths, f"{self.split} example")
            except NoOutputError as error:
                self._record_diverged(step, writer, kind, values, error)
                return
            images = attention_images(self.model, paths, self.reader)
            _give_back_memory()
            scores = self._scores(step, decodes)
        for score in scores:
            values |= score.values
        writer.write(kind, step, values)
        writer.write_samples(step, sample_table(decodes), images)
        log.info(
            "step %d, %s split: loss %.4f  perplexity %.2f  accuracy %.4f  per sequence %.4f  %s",
            step,
            self.split,
            *(values[key] for key in ("loss", "perplexity", "accuracy", "accuracy_per_sequence")),
            "  ".join(score.summary for score in scores),
        )

    @functools.cached_property
    def _data(self) -> tuple[list[str], tf.data.Dataset]:
        """The files of the split, and its batches.

        Created once: TensorFlow never frees the functions of a dataset.
        """
        paths = self.run.problem.existing_filepaths(self.data_dir, self.split)
        scheme = BatchingScheme.from_hparams(self.run.hparams, training=False)
        parts = self.strategy.num_replicas_in_sync
        return paths, eval_dataset(paths, scheme, self.reader, parts=parts, limit=self.limit)

    def _scores(self, step: int, decodes: Decodes) -> list[Score]:
        """Scores outputs by the problem's metrics; NaN if a metric's program fails."""
        scores: list[Score] = []
        for name in output_metrics(self.run.problem.metrics):
            try:
                scores += decodes.score([name]).values()
            except ProgramError as error:
                log.error("step %d: no %s: %s", step, name, error)
                scores.append(Score({name: math.nan}, report="", summary=f"no {name}"))
        return scores

    def _record_diverged(
        self, step: int, writer: MetricsWriter, kind: str, values: Values, error: NoOutputError
    ) -> None:
        """Records the evaluation of a model that gives NaN in decoding; training continues."""
        names = output_metrics(self.run.problem.metrics)
        writer.write(kind, step, values | dict.fromkeys(names, math.nan))
        log.error(
            "step %d: loss %.4f, and no %s: %s. An evaluation with NaN is never chosen as the "
            "best; if the next ones fail as well, end this run, and start another with a lower "
            "learning rate or a longer warm-up",
            step,
            values["loss"],
            ", ".join(names),
            error,
        )


@contextlib.contextmanager
def averaged_weights(model: Seq2Seq, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Gives a model its averaged weights within the block, if the optimizer has them.

    Afterwards its own weights are restored exactly.
    """
    if not optimizer.use_ema:
        yield
        return
    own = [variable.numpy() for variable in model.trainable_variables]
    try:
        optimizer.finalize_variable_values(model.trainable_variables)
        yield
    finally:
        for variable, value in zip(model.trainable_variables, own, strict=True):
            variable.assign(value)


class _Sums(NamedTuple):
    """`TeacherForcedTotals` as tensors."""

    loss: tf.Tensor
    tokens: tf.Tensor
    right: tf.Tensor
    sentences: tf.Tensor
    all_right: tf.Tensor


class TeacherForced:
    """Computes teacher-forced metrics of a model on all devices.

    Args:
        strategy: distributes the evaluation over replicas.
        model: created in the strategy's scope.
    """

    def __init__(self, strategy: tf.distribute.Strategy, model: Seq2Seq) -> None:
        self.strategy = strategy
        self.model = model
        spec = features_spec(strategy.num_replicas_in_sync)
        self._compiled = tf.function(self._sums, input_signature=(spec,))

    def __call__(self, batches: Iterable[Features]) -> dict[str, float | int | str]:
        """Returns the registered scores of batches [R, B, L]."""
        sums = [0.0] * len(_Sums._fields)
        for batch in batches:
            more = self._compiled(batch)
            sums = [total + float(value) for total, value in zip(sums, more, strict=True)]
        totals = TeacherForcedTotals(*sums)
        return {**teacher_forced_values(totals), "target_tokens": int(totals.tokens)}

    def _sums(self, features: Features) -> _Sums:
        per_replica = self.strategy.run(self._replica_sums, (features,))
        return sum_replicas(self.strategy, per_replica)

    def _replica_sums(self, features: Features) -> _Sums:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        batch = {name: ids[replica] for name, ids in features.items()}
        targets = batch["targets"]  # [B, T]
        present = tf.not_equal(targets, 0)
        logits = tf.cast(self.model(batch, training=False), tf.float32)  # [B, T, V]
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        losses = smoothed_cross_entropy(flat, tf.reshape(targets, [-1]), 0.0)  # [B·T]
        right = tf.equal(tf.argmax(logits, axis=-1, output_type=targets.dtype), targets)
        sentence = tf.reduce_any(present, axis=1)  # the last batch is filled up with padding
        all_right = tf.reduce_all(right | ~present, axis=1) & sentence
        return _Sums(
            *(
                tf.reduce_sum(tf.cast(value, tf.float64))
                for value in (
                    tf.boolean_mask(losses, tf.reshape(present, [-1])),
                    present,
                    right & present,
                    sentence,
                    all_right,
                )
            )
        )


def _give_back_memory() -> None:
    """Returns freed memory to the system, if the C library supports it (glibc).

    The library keeps freed, fragmented memory for each thread. As the sizes of an evaluation's
    arrays vary, a long run would accumulate more and more of it.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
