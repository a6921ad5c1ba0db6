"""Private interfaces that this package uses: Keras's, the same from 3.10 to 3.15, and PyTorch's.

Each is checked; where a release lacks it, something public takes its place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import keras


def own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Returns the weights that belong to a layer itself, not to its sub-layers, frozen or not.

    Without the private list, those of its sub-layers are among them.
    """
    return getattr(layer, "_trainable_variables", layer.weights)


def attributes(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns a layer's attributes by name, on every backend."""
    own = vars(layer)
    return {**own, **own.get("_modules", {})}  # where PyTorch keeps sub-layers


def flattened(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a layer and all layers inside it, each once."""
    if hasattr(layer, "_flatten_layers"):
        return list(layer._flatten_layers())
    return list(_found(layer, {}).values())


def created_in_scope() -> list[keras.Variable]:
    """Returns the variables that were created in the current `keras.StatelessScope`.

    Without the private list, none.
    """
    try:
        from keras.src.backend.common.global_state import get_global_attribute
    except ImportError:
        return []
    return [*(get_global_attribute("uninitialized_variables") or ())]


def tracked(values: Iterable[Any]) -> set[int]:
    """Returns the identities of all objects that a TensorFlow checkpoint of `values` reaches."""
    waiting, found = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) not in found and hasattr(value, "_trackable_children"):
            found.add(id(value))
            waiting += value._trackable_children().values()
    return found


def _found(value: Any, found: dict[int, keras.layers.Layer]) -> dict[int, keras.layers.Layer]:
    """Adds the layers in a value, an attribute of a layer, to `found`, by identity."""
    if isinstance(value, keras.layers.Layer):
        if id(value) not in found:
            found[id(value)] = value
            _found(attributes(value), found)
    elif isinstance(value, Mapping):
        _found(list(value.values()), found)
    elif isinstance(value, list | tuple):
        for part in value:
            _found(part, found)
    return found
