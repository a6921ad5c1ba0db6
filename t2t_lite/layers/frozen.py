"""Which parts of a layer or model are frozen, for its configuration.

Keras keeps `trainable` of a layer, but not of the sub-layers that its constructor creates.
"""

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import keras

from t2t_lite.layers import _private_api

FROZEN = "frozen"  # the key in a configuration, absent if no part is frozen
_OF_TENSORFLOW = "_self_"  # how attributes begin in which it holds all parts a second time


def frozen_parts(layer: keras.layers.Layer) -> dict[str, list[str]]:
    """Returns the entry of a configuration: the paths of frozen sub-layers and weights.

    Args:
        layer: a layer or model; its own `trainable` is not part of the entry.
    """
    paths = [path for path, part in _freezable(layer) if not part.trainable]
    return {FROZEN: paths} if paths else {}


def freeze_parts(layer: keras.layers.Layer, trainable: bool, paths: Collection[str]) -> None:
    """Sets `trainable` of a newly created layer and of all its parts.

    Args:
        layer: a layer or model.
        trainable: its own `trainable`.
        paths: of the parts to freeze, from `frozen_parts`.
    """
    layer.trainable = trainable
    # Setting a layer's flag sets those of all its parts, so parts come after what holds them.
    for path, part in _freezable(layer):
        part.trainable = path not in paths


def _freezable(layer: keras.layers.Layer) -> Iterator[tuple[str, Any]]:
    """Yields the paths of sub-layers and of weights that can learn, each after what holds it."""
    for path, part, owner in parts(layer):
        if part is owner or any(part is weight for weight in _private_api.own_weights(owner)):
            yield path, part


def parts(
    layer: keras.layers.Layer, prefix: str = ""
) -> Iterator[tuple[str, Any, keras.layers.Layer]]:
    """Yields all sub-layers and variables inside a layer; each after what holds it.

    Args:
        layer: a layer or model.
        prefix: of all paths.

    Yields:
        The path of attributes; the sub-layer or variable; and the sub-layer, or that which has the
        variable in an attribute.
    """
    attributes = _private_api.attributes(layer)
    visible = {name for name in dir(layer) if not name.startswith(_OF_TENSORFLOW)}
    visible -= _keras_attributes()
    for name in sorted(visible & attributes.keys()):
        for path, value in _flat(attributes[name], prefix + name):
            if isinstance(value, keras.layers.Layer):
                yield path, value, value
                yield from parts(value, f"{path}.")
            elif isinstance(value, keras.Variable):
                yield path, value, layer


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the values inside lists, tuples and dicts, with their paths."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _flat(entry, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from _flat(entry, f"{path}.{number}")
    else:
        yield path, value


@functools.cache
def _keras_attributes() -> frozenset[str]:
    """Names of attributes that Keras itself gives to layers and models."""
    return frozenset((*vars(keras.layers.Layer()), *vars(keras.Model())))
