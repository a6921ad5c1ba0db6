"""Private interfaces that this package uses: Keras 3.15's and PyTorch's.

setup.cfg pins the range of Keras; check these names before raising it.
"""

from typing import Any

import keras


def own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Returns the weights that belong to a layer itself, not to its sub-layers, frozen or not."""
    return layer._trainable_variables


def attributes(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns a layer's attributes by name, on every backend."""
    own = vars(layer)
    return {**own, **own.get("_modules", {})}  # where PyTorch keeps sub-layers


def flattened(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a layer and all layers inside it, each once."""
    return list(layer._flatten_layers())
