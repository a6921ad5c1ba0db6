"""What training asks of layers that are not this package's own, such as Keras's.

Training changes the weights that a model has at the start, by gradients of its own loss alone, and
draws the random numbers of each part of a batch from (seed, part). What a layer does besides would
be lost without a word: it is an error that names the layer.
"""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import created_in_scope, flattened
from t2t_lite.models.hparams_model import require_own
from t2t_lite.models.known_weights import KnownWeights, described, place
from t2t_lite.models.seq2seq import Seq2Seq


class TrainedCalls:
    """The calls of a model in training.

    Args:
        model: with all its weights.

    Raises:
        UsageError: a weight has a regularizer, which the loss would lack; or a layer draws random
            numbers of its own, where activations are computed twice.

    Attributes:
        refusal: the last error of a call, as it was raised.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        self.refusal: UsageError | None = None
        self._weights = KnownWeights(model)
        self._own = {id(variable.value) for variable in model.variables}
        weights = {id(weight) for weight in model.weights}
        states = {id(state): state for state in model.variables if id(state) not in weights}
        del states[id(model.seeds.state)]
        self._others = list(states.values())  # of the generators that layers have of their own
        if self._others and getattr(model.hparams, "recompute_activations", False):
            raise UsageError(
                f"hparam recompute_activations: {described(model, self._others)} would not be "
                "drawn again as it was: use t2t_lite.layers.base.Dropout(rate, self.seeds), or "
                "set recompute_activations=false"
            )
        if regularized := [w for w in model.trainable_weights if w.regularizer is not None]:
            raise UsageError(
                f"{type(model).__name__}: {described(model, regularized)} has a regularizer, which "
                "t2t-trainer does not add to the loss: leave it out, and set the hparam "
                "weight_decay, or make the layer an AuxiliaryLayer"
            )

    @contextlib.contextmanager
    def drawing_from(self, seed: tf.Tensor) -> Iterator[None]:
        """Lets calls inside the block draw random numbers that depend on `seed` [2] alone.

        Raises:
            UsageError: a layer creates weights, changes a variable or adds a loss.
        """
        own = self._model.seeds.state
        # Independent streams: neighbouring numbers must not give neighbouring generator states.
        states = [(own, _drawn([2], seed, own.dtype))]
        if self._others:
            others = _drawn(
                [len(self._others), 2],
                tf.random.experimental.stateless_fold_in(seed, 1),
                own.dtype,
            )
            states += zip(self._others, tf.unstack(others), strict=True)
        with keras.StatelessScope(states, collect_losses=True) as scope:
            yield
            with self._noted():
                self._require_plain(scope)

    def _require_plain(self, scope: keras.StatelessScope) -> None:
        """Raises UsageError if a call did in `scope` what training cannot do."""
        self._weights.require_no_others()
        model = self._model
        require_own(model, [one.path for one in created_in_scope()])
        changed = [w for w in model.weights if scope.get_current_value(w) is not None]
        if changed:
            raise UsageError(
                f"{type(model).__name__}: a call changes {described(model, changed)}, which "
                "t2t-trainer does not support: use a layer that changes nothing, such as "
                "LayerNormalization, or train with fit"
            )
        if scope.losses:
            adding = [one for one in flattened(model) if one.losses]
            raise UsageError(
                f"{type(model).__name__}: the layer {place(model, adding[-1])} adds a loss, which "
                "t2t-trainer leaves out: make it an AuxiliaryLayer, or train with fit"
            )

    def require_own(self, watched: Sequence[tf.Variable]) -> None:
        """Raises UsageError if the model does not have a variable from which its loss is computed.

        Keras finds no layers in objects that are neither layers nor collections, in functions or
        outside the model, and no weights of TensorFlow's own kind.
        """
        with self._noted():
            foreign = [one for one in watched if id(one) not in self._own]
            require_own(self._model, [one.name.partition(":")[0] for one in foreign])

    def require_gradients(
        self, variables: Sequence[keras.Variable], gradients: Sequence[tf.Tensor | None]
    ) -> None:
        """Raises UsageError if the loss does not depend on one of the variables."""
        unused = [v for v, g in zip(variables, gradients, strict=True) if g is None]
        with self._noted():
            if unused:
                raise UsageError(
                    f"{type(self._model).__name__}: the loss does not depend on "
                    f"{described(self._model, unused)}: use the layer in `hidden`, remove it, or "
                    "freeze it (trainable=False)"
                )

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        """Keeps an error of the block in `refusal`."""
        try:
            yield
        except UsageError as error:
            self.refusal = error
            raise


def _drawn(shape: Sequence[int], seed: tf.Tensor, dtype: str) -> tf.Tensor:
    """Returns states of generators."""
    return tf.cast(tf.random.stateless_uniform(shape, seed, None, None, tf.uint32), dtype)
