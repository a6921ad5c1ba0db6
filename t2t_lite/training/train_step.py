"""One update of the weights, the same on any number of replicas.

Every replica computes the gradient of the *sum* of its token losses; sums and token counts are
added over replicas, and only then divided. Hence N replicas ≡ 1 replica ≡ N micro-batches, to
rounding. (A mean of replica means would give tokens of short batches more weight, as T2T's
`multistep_adam` does with its micro-batches; for that optimizer, so does this step.)

Auxiliary losses are functions L of sums over the batch (layers/auxiliary_losses.py). Their sums s
are added over replicas and micro-batches, too, before L is taken. By the chain rule, the gradient
of L(Σ s_i) is Σ ∂L/∂s · ∂s_i, to which each part contributes its own term. A replica with several
micro-batches needs Σ s_i before the first gradient, from a forward pass of its own, with the same
dropout masks. Models without auxiliary losses skip all of this.

With the hparam `rdrop_alpha`, a part is computed in two passes (training/rdrop.py).
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.auxiliary_losses import Statistics
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.text.sample import ALIGNMENT
from t2t_lite.training import rdrop
from t2t_lite.training.bucket_padding import BucketShapes
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.losses import LossScale, summed_loss
from t2t_lite.training.own_layers import TrainedCalls
from t2t_lite.training.totals import Totals, Window

Features = dict[str, tf.Tensor]

# For what has no conditions or loops of TensorFlow's own: looking for them in all of a model's code
# takes a quarter of the tracing.
_without_autograph = tf.autograph.experimental.do_not_convert


def features_spec(*parts: int, is_guided: bool = False) -> dict[str, tf.TensorSpec]:
    """Returns the signature of a function of `inputs` and `targets` [*parts, B, L].

    Args:
        *parts: leading dimensions.
        is_guided: whether there is also an `alignment` [*parts, B, T].
    """
    spec = tf.TensorSpec([*parts, None, None], tf.int32)
    names = ("inputs", "targets", *([ALIGNMENT] if is_guided else []))
    return dict.fromkeys(names, spec)


class _Sums(NamedTuple):
    """Sums over micro-batches."""

    gradients: list[tf.Tensor]  # of the weighted losses
    weight: tf.Tensor  # divisor of the gradients
    loss: tf.Tensor  # of all target tokens, including the penalty
    penalty: tf.Tensor  # of R-Drop
    tokens: tf.Tensor  # number of target tokens
    statistics: list[Statistics]  # of auxiliary losses


class TrainStep:
    """Computes and applies one update.

    Args:
        strategy: distributes the step over replicas.
        model: created in the strategy's scope.
        optimizer: created in the strategy's scope.
        parts: W = replicas × accumulation steps, the parts of every batch.
        seed: of the dropout masks.

    Raises:
        UsageError: XLA or this step cannot train the model.
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
        self._calls = TrainedCalls(model)
        self.loss_scale: LossScale | None = None
        if self.hparams.dtype == "float16":
            with strategy.scope():
                # Parts of equal weight contribute means over their tokens.
                self.loss_scale = LossScale(
                    1 if self.parts_weigh_equally else self.hparams.batch_size
                )
        self.flops = model.forward_flops()
        nothing = [layer.no_statistics() for layer in model.auxiliary_layers]
        names = list(model.auxiliary_losses(nothing))
        self._passes = 2 if self.hparams.rdrop_alpha else 1
        self.window = Window(names + ["rdrop"] * (self._passes - 1))
        self._shapes = BucketShapes(self.hparams)
        # Replicas cannot exchange their sums inside a program of XLA, nor inside a loop.
        self._counts_first = bool(names) and (
            self.accumulate > 1 or (self.hparams.xla_compile and strategy.num_replicas_in_sync > 1)
        )
        self._replica: Callable[..., _Sums] = self._replica_sums
        self._count: Callable[..., list[Statistics]] = self._replica_statistics
        if self.hparams.xla_compile:
            _check_xla_support(model, strategy)
            self._replica = tf.function(self._replica_sums, jit_compile=True)
            self._count = tf.function(self._replica_statistics, jit_compile=True)
        # One trace serves all sizes; only XLA needs to know them.
        scalar = tf.TensorSpec([], tf.int64)
        is_guided = self.hparams.is_guided
        spec = features_spec(parts, is_guided=is_guided)
        signature = (spec, scalar, tf.TensorSpec([], tf.bool))
        self._compiled: Callable[..., tf.Tensor] = tf.function(
            self._step, input_signature=None if self.hparams.xla_compile else signature
        )
        self._compiled_losses: Callable[..., tf.Tensor] = tf.function(
            self._sentence_losses,
            input_signature=(features_spec(is_guided=is_guided), scalar),
            autograph=False,
        )

    def __call__(self, features: Features, step: int, learn: bool = True) -> tf.Tensor:
        """Takes one step, and adds its totals to `window`.

        Args:
            features: `inputs` [W, B, S], `targets` [W, B, T] and perhaps `alignment` [W, B, T];
                each replica processes its W / R parts one after another.
            step: number of steps before this one; selects the dropout masks.
            learn: False computes everything and changes nothing.

        Returns:
            Whether the gradient was finite, a scalar; if not, the step was skipped. The step
            itself waits for this value, so that reading it costs no further wait.

        Raises:
            UsageError: a layer of the model does what training cannot do.
        """
        features = self._shapes.pad(features)
        try:
            return self._compiled(features, tf.constant(step, tf.int64), tf.constant(learn))
        except UsageError as error:
            # Autograph replaces an error by one whose message is a traceback.
            raise self._calls.refusal or error from None

    @property
    def state(self) -> dict[str, tf.Variable | tf.Module]:
        """The variables that a checkpoint must contain, by name."""
        scale: dict[str, tf.Module] = {"loss_scale": self.loss_scale} if self.loss_scale else {}
        return self.window.state | scale

    def _step(self, features: Features, step: tf.Tensor, learn: tf.Tensor) -> tf.Tensor:
        """Sums over replicas, divides, clips and updates; `__call__` says what it is given."""
        scale = self.loss_scale.value if self.loss_scale else tf.constant(1.0)
        slopes = self._slopes_first(features, step) if self._counts_first else None
        arguments = (features, step, tf.identity(scale), slopes)
        per_replica = self.strategy.run(self._replica, arguments)
        gradients, weight, loss, penalty, tokens, statistics = sum_replicas(
            self.strategy, per_replica
        )
        divisor = tf.maximum(weight, 1.0) * scale
        gradients = [gradient / divisor for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm)
        if self.hparams.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.hparams.clip_grad_norm, norm)
        if finite and learn:
            self.optimizer.apply(gradients, self.variables)
        if learn:
            flops = self._passes * self.flops.training(features)
            self.window.add(
                Totals.of_step(features, loss - penalty, tokens, norm, finite, flops),
                [
                    *self.model.auxiliary_losses(statistics).values(),
                    *[penalty / tf.maximum(tokens, 1.0)] * (self._passes - 1),
                ],
                finite,
            )
            if self.loss_scale:
                self.loss_scale.update(finite)
        return finite

    def _replica_sums(
        self,
        features: Features,
        step: tf.Tensor,
        scale: tf.Tensor,
        slopes: list[Statistics] | None,
    ) -> _Sums:
        """Adds up one replica's micro-batches."""
        first = self._first_part()
        if self.accumulate == 1:
            return self._micro_batch(features, step, first, scale, slopes)
        # Starting from zeros, the model and its gradients are traced only once, in the loop.
        zero = tf.constant(0.0)
        gradients = [tf.zeros(v.shape) for v in self.variables]
        sums = _Sums(gradients, zero, zero, zero, zero, self._no_statistics())
        for part in tf.range(first, first + self.accumulate):
            more = self._micro_batch(features, step, part, scale, slopes)
            sums = tf.nest.map_structure(tf.add, sums, more)
        return sums

    @_without_autograph
    def _micro_batch(
        self,
        features: Features,
        step: tf.Tensor,
        part: tf.Tensor,
        scale: tf.Tensor,
        slopes: list[Statistics] | None,
    ) -> _Sums:
        """Computes part `part` of the batch, with gradients multiplied by `scale`.

        Args:
            features: of the whole batch.
            step: number of steps before this one.
            part: number of the part.
            scale: of float16.
            slopes: derivatives of the auxiliary losses by the sums over the whole batch; None:
                computed here, where each replica has only this part.
        """
        batch, number = self._part(features, step, part)
        tokens = tf.cast(tf.math.count_nonzero(batch["targets"]), tf.float32)
        # The sums of gradients will be divided by the weight of the whole batch.
        by_sums = scale * self._weight(features["targets"])
        if self.parts_weigh_equally:
            scale /= tf.maximum(tokens, 1.0)
        with tf.GradientTape() as tape:
            hidden, statistics = self._hidden_and_statistics(batch, number)
            loss, penalty = self._loss_and_penalty(hidden, batch["targets"], scale)
        self._calls.require_own(tape.watched_variables())
        if slopes is None:
            slopes = self._slopes(self._sum_of_replicas(statistics))
        gradients = tape.gradient(
            [loss, *tf.nest.flatten(statistics)],
            self.variables,
            output_gradients=[1.0, *(by_sums * slope for slope in tf.nest.flatten(slopes))],
        )
        self._calls.require_gradients(self.variables, gradients)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        weight = self._weight(batch["targets"][None])
        return _Sums(gradients, weight, loss / scale, penalty / scale, tokens, statistics)

    def _loss_and_penalty(
        self, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns `scale` times the summed loss of `targets` [B, T], and the penalty in it."""
        if self._passes == 2:
            return rdrop.summed_loss(self.model, hidden, targets, scale)
        return summed_loss(self.model, hidden, targets, scale), tf.constant(0.0)

    def _hidden(self, batch: Features, number: tf.Tensor) -> tf.Tensor:
        return self._hidden_and_statistics(batch, number)[0]

    @_without_autograph
    def _hidden_and_statistics(
        self, batch: Features, number: tf.Tensor
    ) -> tuple[tf.Tensor, list[Statistics]]:
        """Runs the model on part `number`, counted over all steps, with its own dropout masks.

        The result does not depend on which replica computes it.
        """
        if self._passes == 2:
            batch = rdrop.twice(batch)
        with self._calls.drawing_from(tf.stack([tf.constant(self.seed, tf.int64), number])):
            return self.model.hidden_and_statistics(batch, training=True)  # [passes · B, T, D]

    def _part(
        self, features: Features, step: tf.Tensor, part: tf.Tensor
    ) -> tuple[Features, tf.Tensor]:
        """Returns part `part` of a batch and its number, counted over all steps."""
        batch = {name: ids[part] for name, ids in features.items()}  # [B, S], [B, T]
        return batch, step * self.parts + tf.cast(part, tf.int64)

    def _first_part(self) -> tf.Tensor:
        """Returns the number of this replica's first part."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return replica * self.accumulate

    def _weight(self, targets: tf.Tensor) -> tf.Tensor:
        """Returns the divisor of summed gradients of `targets` [W, B, T]."""
        tokens = tf.cast(tf.math.count_nonzero(targets, axis=(1, 2)), tf.float32)  # [W]
        # A part of nothing but padding has weight 0.
        return tf.reduce_sum(tf.minimum(tokens, 1.0) if self.parts_weigh_equally else tokens)

    # ---- auxiliary losses

    def _slopes_first(self, features: Features, step: tf.Tensor) -> list[Statistics]:
        """Returns the slopes for all parts of the batch, from a forward pass of their own."""
        per_replica = self.strategy.run(self._count, (features, step))
        return self._slopes(sum_replicas(self.strategy, per_replica))

    def _replica_statistics(self, features: Features, step: tf.Tensor) -> list[Statistics]:
        """Adds up the statistics of one replica's micro-batches."""
        first = self._first_part()
        sums = self._no_statistics()
        for part in tf.range(first, first + self.accumulate):
            _, more = self._hidden_and_statistics(*self._part(features, step, part))
            sums = tf.nest.map_structure(tf.add, sums, more)
        return sums

    def _sum_of_replicas(self, statistics: list[Statistics]) -> list[Statistics]:
        """Sums the statistics over replicas, in one of them."""
        if not statistics or self.strategy.num_replicas_in_sync == 1:
            return statistics
        # Not `all_reduce`: its collective operations have the same keys in every strategy of a
        # process, so that a second training would meet those of the first.
        return tf.distribute.get_replica_context().merge_call(sum_replicas, args=(statistics,))

    def _slopes(self, sums: list[Statistics]) -> list[Statistics]:
        """Returns the derivatives of the auxiliary losses by the sums over the batch."""
        if not sums:
            return []
        with tf.GradientTape() as tape:
            tape.watch(sums)
            loss = tf.add_n(list(self.model.auxiliary_losses(sums).values()))
        return tape.gradient(loss, sums, unconnected_gradients="zero")

    def _no_statistics(self) -> list[Statistics]:
        return [layer.no_statistics() for layer in self.model.auxiliary_layers]

    # ---- diagnosis

    def sentence_losses(self, features: Features, step: int) -> tf.Tensor:
        """Recomputes the losses of a step for each sentence, with the same dropout masks.

        Meant to diagnose a failed step: runs on one device, sentence by sentence to save memory.

        Args:
            features: as for the step.
            step: as for the step.

        Returns:
            [W, B] in nats; 0 for rows of padding.
        """
        features = self._shapes.pad(features)  # masks depend on the shape
        numbers = step * self.parts + tf.range(self.parts, dtype=tf.int64)
        return tf.stack(
            [
                self._compiled_losses({name: ids[part] for name, ids in features.items()}, number)
                for part, number in enumerate(numbers)
            ]
        )

    def _sentence_losses(self, batch: Features, number: tf.Tensor) -> tf.Tensor:
        """Returns the losses [B] of part `number`, counted over all steps."""
        hidden = tf.split(self._hidden(batch, number), self._passes)
        return tf.map_fn(
            lambda sentence: self._loss_and_penalty(*sentence)[0],
            (tf.stack(hidden, axis=1), batch["targets"][:, None]),  # [B, passes, T, D], [B, 1, T]
            fn_output_signature=tf.float32,
        )


def _check_xla_support(model: Seq2Seq, strategy: tf.distribute.Strategy) -> None:
    if not model.supports_jit:
        raise UsageError(f"hparam xla_compile: XLA cannot compile a {type(model).__name__}")
    devices = strategy.extended.worker_devices
    if len(devices) > 1 and any("CPU" in device for device in devices):
        # XLA runs all its CPU programs on the first device, which lacks the others' variables.
        raise UsageError("hparam xla_compile: XLA cannot train on several logical CPU devices")
