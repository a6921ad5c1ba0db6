"""One update of the weights, the same on any number of replicas.

Every replica adds up the gradients of the *sum* of its token losses; the sums and the token
counts are added over replicas, and only then divided. Hence N replicas ≡ 1 replica ≡ N
micro-batches, to rounding. (A mean of replica means would weigh tokens of short batches more:
what T2T's `multistep_adam` does with its micro-batches, and this step does for that optimizer.)
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.reporting.totals import Totals
from t2t_lite.training.bucket_shapes import BucketShapes
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.loss_scale import LossScale
from t2t_lite.training.losses import summed_cross_entropy

Features = dict[str, tf.Tensor]


def features_spec(*parts: int) -> dict[str, tf.TensorSpec]:
    """Returns what a function is traced for once: `inputs` and `targets` [*parts, B, L]."""
    spec = tf.TensorSpec([*parts, None, None], tf.int32)
    return {"inputs": spec, "targets": spec}


class _Sums(NamedTuple):
    """What micro-batches add up to."""

    gradients: list[tf.Tensor]  # of the weighed losses
    weight: tf.Tensor  # what to divide the gradients by
    loss: tf.Tensor  # of all target tokens
    tokens: tf.Tensor  # target tokens


class TrainStep:
    """Computes and applies one update.

    Args:
        strategy: where the replicas are.
        model: made under the strategy's scope.
        optimizer: likewise.
        parts: W = replicas × accumulation steps, the parts of every batch.
        seed: of the dropout masks.

    Raises:
        UsageError: the hparams ask for XLA, and the model cannot be compiled by it.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2Seq,
        optimizer: keras.optimizers.Optimizer,
        parts: int,
        seed: int,
    ) -> None:
        self.strategy = strategy
        self.model = model
        self.optimizer = optimizer
        self.parts = parts
        self.accumulate = parts // strategy.num_replicas_in_sync
        self.seed = seed
        self.hparams = model.hparams
        self.parts_weigh_equally = self.hparams.optimizer == "multistep_adam"
        self.variables = model.trainable_variables
        self.loss_scale: LossScale | None = None
        if self.hparams.dtype == "float16":
            with strategy.scope():
                # Parts that weigh equally add up means of their tokens.
                self.loss_scale = LossScale(
                    1 if self.parts_weigh_equally else self.hparams.batch_size
                )
        self.flops = model.forward_flops()
        # What has happened since the last log line; in the checkpoint, so that a resumed run
        # writes the very lines of an undisturbed one.
        self.window = tf.Variable(tf.zeros(len(Totals._fields), tf.float64), name="window")
        self._shapes = BucketShapes(self.hparams) if self.hparams.xla_compile else None
        self._replica: Callable[..., _Sums] = self._replica_sums
        if self._shapes:
            _refuse_what_xla_cannot_do(model, strategy)
            self._replica = tf.function(self._replica_sums, jit_compile=True)
        # One trace serves all sizes, which XLA alone needs to know.
        scalar = tf.TensorSpec([], tf.int64)
        signature = (features_spec(parts), scalar, tf.TensorSpec([], tf.bool))
        self._compiled: Callable[..., tf.Tensor] = tf.function(
            self._step, input_signature=None if self._shapes else signature
        )
        self._compiled_losses: Callable[..., tf.Tensor] = tf.function(
            self._sentence_losses, input_signature=(features_spec(), scalar)
        )

    def __call__(self, features: Features, step: int, learn: bool = True) -> tf.Tensor:
        """Takes one step and adds what it did to `window`.

        Args:
            features: `inputs` [W, B, S] and `targets` [W, B, T]; each replica takes its W / R
                parts one after the other.
            step: number of steps taken before; selects the dropout masks.
            learn: False computes everything and changes nothing.

        Returns:
            Whether the gradient was finite, a scalar; if not, the step was skipped. The step
            itself waits for this number, so that reading it costs no further wait.
        """
        if self._shapes:
            features = self._shapes.pad(features)
        return self._compiled(features, tf.constant(step, tf.int64), tf.constant(learn))

    @property
    def state(self) -> dict[str, tf.Variable | tf.Module]:
        """What a checkpoint must hold of it, by name."""
        state: dict[str, tf.Variable | tf.Module] = {"window": self.window}
        return state | ({"loss_scale": self.loss_scale} if self.loss_scale else {})

    def totals(self) -> Totals:
        """Returns the window's sums as floats, and starts another window."""
        sums = Totals(*map(float, self.window.numpy()))
        self.window.assign(tf.zeros_like(self.window))
        return sums

    def sentence_losses(self, features: Features, step: int) -> tf.Tensor:
        """Computes a step's losses again, one for every sentence, with the masks of the step.

        Meant for a step gone wrong: it runs on one device, sentence by sentence to save memory.

        Args:
            features: as for the step.
            step: likewise.

        Returns:
            [W, B] in nats; 0 for rows of padding.
        """
        numbers = step * self.parts + tf.range(self.parts, dtype=tf.int64)
        return tf.stack(
            [
                self._compiled_losses({name: ids[part] for name, ids in features.items()}, number)
                for part, number in enumerate(numbers)
            ]
        )

    def _sentence_losses(self, batch: Features, number: tf.Tensor) -> tf.Tensor:
        """Returns the losses [B] of part `number`, counted over all steps."""
        hidden = self._hidden(batch, number)
        return tf.map_fn(
            lambda sentence: summed_loss(self.model, *sentence),
            (hidden[:, None], batch["targets"][:, None]),  # [B, 1, T, D], [B, 1, T]
            fn_output_signature=tf.float32,
        )

    def _step(self, features: Features, step: tf.Tensor, learn: tf.Tensor) -> tf.Tensor:
        scale = self.loss_scale.value if self.loss_scale else tf.constant(1.0)
        per_replica = self.strategy.run(self._replica, (features, step, tf.identity(scale)))
        gradients, weight, loss, tokens = sum_replicas(self.strategy, per_replica)
        divisor = tf.maximum(weight, 1.0) * scale
        gradients = [gradient / divisor for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm)
        if self.hparams.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.hparams.clip_grad_norm, norm)
        if finite and learn:
            self.optimizer.apply(gradients, self.variables)
        if learn:
            self.window.assign_add(self._totals(features, loss, tokens, norm, finite))
            if self.loss_scale:
                self.loss_scale.update(finite)
        return finite

    def _replica_sums(self, features: Features, step: tf.Tensor, scale: tf.Tensor) -> _Sums:
        """Adds up one replica's micro-batches."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        first = replica * self.accumulate
        if self.accumulate == 1:
            return self._micro_batch(features, step, first, scale)
        # From zeros, so that model and gradients are traced once, in the loop alone.
        zero = tf.constant(0.0)
        sums = _Sums([tf.zeros(v.shape) for v in self.variables], zero, zero, zero)
        for part in tf.range(first, first + self.accumulate):
            more = self._micro_batch(features, step, part, scale)
            sums = tf.nest.map_structure(tf.add, sums, more)
        return sums

    def _micro_batch(
        self, features: Features, step: tf.Tensor, part: tf.Tensor, scale: tf.Tensor
    ) -> _Sums:
        """Computes part `part` of the batch; the gradients are `scale` times as large."""
        batch = {name: ids[part] for name, ids in features.items()}  # [B, S], [B, T]
        tokens = tf.cast(tf.math.count_nonzero(batch["targets"]), tf.float32)
        if self.parts_weigh_equally:
            scale /= tf.maximum(tokens, 1.0)
        with tf.GradientTape() as tape:
            hidden = self._hidden(batch, step * self.parts + tf.cast(part, tf.int64))
            loss = summed_loss(self.model, hidden, batch["targets"], scale)
        gradients = tape.gradient(loss, self.variables)
        # A part that is nothing but padding weighs nothing.
        weight = tf.minimum(tokens, 1.0) if self.parts_weigh_equally else tokens
        return _Sums([tf.convert_to_tensor(g) for g in gradients], weight, loss / scale, tokens)

    def _hidden(self, batch: Features, number: tf.Tensor) -> tf.Tensor:
        """Runs the model on part `number`, counted over all steps, with masks of its own.

        Which replica computes it makes no difference.
        """
        seeds = self.model.seeds.state
        # A stream apart: neighbouring numbers must not give neighbouring generator states.
        state = tf.random.stateless_uniform(
            [2], tf.stack([tf.constant(self.seed, tf.int64), number]), None, None, tf.uint32
        )
        with keras.StatelessScope([(seeds, tf.cast(state, seeds.dtype))]):
            return self.model.hidden(batch, training=True)  # [B, T, D]

    def _totals(
        self,
        features: Features,
        loss: tf.Tensor,
        tokens: tf.Tensor,
        norm: tf.Tensor,
        finite: tf.Tensor,
    ) -> tf.Tensor:
        inputs, targets = features["inputs"], features["targets"]
        counted = tf.where(finite, 1.0, 0.0)  # a skipped step must not make the means NaN
        totals = Totals(
            loss=tf.where(finite, loss, 0.0),
            tokens=tokens * counted,
            source_tokens=tf.math.count_nonzero(inputs),
            cells=tf.size(inputs) + tf.size(targets),
            sentences=tf.math.count_nonzero(targets[..., 0]),
            gradient_norm=tf.where(finite, norm, 0.0),
            steps=counted,
            skipped=1.0 - counted,
            flops=self.flops.training(features),
        )
        return tf.stack([tf.cast(value, tf.float64) for value in totals])


def summed_loss(
    model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
) -> tf.Tensor:
    """Adds up `scale` times the training losses of `targets` [B, T], given `hidden` [B, T, D]."""
    if model.hparams.xla_compile:  # sizes must not depend on what the batch holds
        hidden, targets = tf.reshape(hidden, [-1, hidden.shape[-1]]), tf.reshape(targets, [-1])
    else:
        # Logits are the largest array of a step: padding is left out of them.
        present = tf.not_equal(targets, 0)
        hidden = tf.boolean_mask(hidden, present)  # [N, D]
        targets = tf.boolean_mask(targets, present)  # [N]
    return summed_cross_entropy(
        model.output_projection,
        hidden,
        targets,
        model.hparams.label_smoothing,
        model.hparams.loss_chunk_tokens,
        scale,
    )


def _refuse_what_xla_cannot_do(model: Seq2Seq, strategy: tf.distribute.Strategy) -> None:
    if not model.supports_jit:
        raise UsageError(f"hparam xla_compile: XLA cannot compile a {type(model).__name__}")
    devices = strategy.extended.worker_devices
    if len(devices) > 1 and any("CPU" in device for device in devices):
        # All of XLA's CPU programs run on the first device, where the others' variables are not.
        raise UsageError("hparam xla_compile: XLA cannot train on several logical CPU devices")
