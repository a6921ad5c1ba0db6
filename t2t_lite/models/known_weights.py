"""The weights that a model has before it is used: others would be neither trained nor restored."""

from collections.abc import Iterable

import keras

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import flattened, parts


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


def described(model: keras.Model, variables: Iterable[keras.Variable]) -> str:
    """Returns the names of variables in a model and of the layers that have them, for messages."""
    names = []
    for variable in variables:
        layers = [one for one in flattened(model) if _has(one, variable)]
        owner = min(reversed(layers), key=lambda layer: len(layer.variables))  # the innermost
        names.append(f"{variable.name} of the layer {place(model, owner)}")
    return ", ".join(names)


def place(model: keras.Model, layer: keras.layers.Layer) -> str:
    """Returns where a layer is in a model, and its class, for messages."""
    paths = {id(part): path for path, part, _ in parts(model)}
    return f"{paths.get(id(layer), layer.name)!r} ({type(layer).__name__})"


def _has(layer: keras.layers.Layer, variable: keras.Variable) -> bool:
    return any(variable is one for one in layer.variables)
