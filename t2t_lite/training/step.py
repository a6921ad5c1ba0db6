"""One update of the weights, the same on any number of replicas.

Every replica computes the gradient of the *sum* of its token losses; sums and token counts are
added over replicas, and only then divided. Hence N replicas ≡ 1 replica ≡ N micro-batches, to
rounding. (A mean of replica means would give tokens of short batches more weight, as T2T's
`multistep_adam` does with its micro-batches; for that optimizer, so does this step.)

What is trained for is an objective (training/objectives/). Layers may add auxiliary losses to it,
whose gradients need sums over the whole batch (training/auxiliary_slopes.py).
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.models.auxiliary_losses import auxiliary_losses
from t2t_lite.models.flops import ForwardFlops
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training import xla
from t2t_lite.training.auxiliary_slopes import AuxiliarySlopes
from t2t_lite.training.bucket_padding import BucketShapes
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.features import Features, features_spec
from t2t_lite.training.forward import Forward, without_autograph
from t2t_lite.training.gradients import ReplicaGradients, Sums
from t2t_lite.training.objectives import objective_of
from t2t_lite.training.optimizers import loss_scale_of
from t2t_lite.training.totals import Totals, Window


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
        xla.require_support(model, strategy)
        self.strategy = strategy
        self.model = model
        self.optimizer = optimizer
        self.parts = parts
        self.hparams = model.hparams
        self.variables = model.trainable_variables
        self.objective = objective_of(model, self.hparams)
        self.forward = Forward(model, self.objective, parts, seed)
        accumulate = parts // strategy.num_replicas_in_sync
        self.auxiliary = AuxiliarySlopes(strategy, model, self.forward, accumulate)
        own = ReplicaGradients(model, self.objective, self.forward, self.auxiliary, accumulate)
        self._replica: Callable[..., Sums] = xla.compiled(model, own.sums)
        with strategy.scope():
            self.loss_scale = loss_scale_of(self.hparams)
        self.flops = model.forward_flops() or ForwardFlops()
        self.window = Window([*self.auxiliary.names, *self.objective.penalties])
        self.shapes = BucketShapes(self.hparams)
        # One trace serves all sizes; only XLA needs to know them.
        spec = features_spec(parts, is_guided=self.hparams.is_guided)
        signature = (spec, tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.bool))
        self._compiled: Callable[..., tf.Tensor] = tf.function(
            self._step, input_signature=None if self.hparams.xla_compile else signature
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
        features = self.shapes.pad(features)
        try:
            return self._compiled(features, tf.constant(step, tf.int64), tf.constant(learn))
        except UsageError as error:
            # Autograph replaces an error by one whose message is a traceback.
            raise self.forward.calls.refusal or error from None

    @property
    def state(self) -> dict[str, tf.Variable | tf.Module]:
        """The variables that a checkpoint must contain, by name."""
        scale: dict[str, tf.Module] = {"loss_scale": self.loss_scale} if self.loss_scale else {}
        return self.window.state | scale

    def _step(self, features: Features, step: tf.Tensor, learn: tf.Tensor) -> tf.Tensor:
        """Sums over replicas, divides, clips and updates; `__call__` says what it is given."""
        scale = self.loss_scale.value if self.loss_scale else tf.constant(1.0)
        slopes = self.auxiliary.before(features, step)
        per_replica = self.strategy.run(self._replica, (features, step, tf.identity(scale), slopes))
        sums = sum_replicas(self.strategy, per_replica)
        divisor = tf.maximum(sums.weight, 1.0) * scale
        gradients = [gradient / divisor for gradient in sums.gradients]
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm)
        if self.hparams.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.hparams.clip_grad_norm, norm)
        if finite and learn:
            self.optimizer.apply(gradients, self.variables)
        if learn:
            self._count(features, sums, norm, finite)
            if self.loss_scale:
                self.loss_scale.update(finite)
        return finite

    @without_autograph
    def _count(self, features: Features, sums: Sums, norm: tf.Tensor, finite: tf.Tensor) -> None:
        """Adds the totals of a step to `window`."""
        flops = self.objective.passes * self.flops.training(features)
        loss = sums.loss
        for penalty in sums.penalties:
            loss -= penalty
        auxiliary = auxiliary_losses(self.model, sums.statistics).values()
        penalties = [penalty / tf.maximum(sums.tokens, 1.0) for penalty in sums.penalties]
        totals = Totals.of_step(features, loss, sums.tokens, norm, finite, flops)
        self.window.add(totals, [*auxiliary, *penalties], finite)
