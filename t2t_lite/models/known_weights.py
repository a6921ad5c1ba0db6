"""The weights that a model has before it is used: others would be neither trained nor restored."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras

from t2t_lite.errors import UsageError
from t2t_lite.layers import _private_api
from t2t_lite.layers.frozen import parts


class KnownWeights:
    """The weights of a model at one moment.

    Args:
        model: the model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._known = {id(weight) for weight in model.weights}

    def require_no_others(self) -> None:
        """Raises UsageError if layers of the model have created weights since then."""
        late = [weight for weight in self._model.weights if id(weight) not in self._known]
        if late:
            raise UsageError(
                f"{type(self._model).__name__}: {described(self._model, late)} appeared after the "
                "model was made, so that nothing trains or restores it: create the layer in "
                "make_layers, and call it in every call of the model in training"
            )


class FirstCall(keras.Operation):
    """The first call of a model in training, traced without computing anything.

    Args:
        model: the model, whose layers may create their weights in the call.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name=model.name)
        self._model = model
        self._created: list[keras.Variable] = []

    def call(self, features: Any) -> Any:
        """Calls the model, and notes what it creates."""
        before = len(_private_api.created_in_scope())  # by what the model is part of
        outputs = self._model.call(features, training=True)
        self._created = _private_api.created_in_scope()[before:]
        return outputs

    def require_own_weights(self) -> None:
        """Raises UsageError if the call has created weights that the model does not have."""
        own = {id(variable) for variable in self._model.variables}
        require_own(self._model, [one.path for one in self._created if id(one) not in own])


def require_own(model: keras.Model, foreign: Sequence[str]) -> None:
    """Raises UsageError if there are variables that the model uses and does not have.

    Args:
        model: the model.
        foreign: the names of such variables.
    """
    if foreign:
        raise UsageError(
            f"{type(model).__name__}: the loss depends on {', '.join(foreign)}, which the model "
            "does not have, so that nothing trains or restores it: keep the layer in an attribute "
            "of the model, or in a list or dict that is one, and make weights with add_weight, not "
            "tf.Variable"
        )


def described(model: keras.Model, variables: Iterable[keras.Variable]) -> str:
    """Returns the names of variables in a model and of the layers that have them, for messages."""
    names = []
    for variable in variables:
        layers = [one for one in _private_api.flattened(model) if _has(one, variable)]
        owner = min(reversed(layers), key=lambda layer: len(layer.variables))  # the innermost
        names.append(f"{variable.name} of the layer {place(model, owner)}")
    return ", ".join(names)


def place(model: keras.Model, layer: keras.layers.Layer) -> str:
    """Returns where a layer is in a model, and its class, for messages."""
    paths = {id(part): path for path, part, _ in parts(model)}
    return f"{paths.get(id(layer), layer.name)!r} ({type(layer).__name__})"


def _has(layer: keras.layers.Layer, variable: keras.Variable) -> bool:
    return any(variable is one for one in layer.variables)
