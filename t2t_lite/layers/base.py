"""The base class of all layers."""

import contextlib
import contextvars
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, Self

import keras

from t2t_lite.layers.frozen import FROZEN, freeze_parts, frozen_parts


@contextlib.contextmanager
def default_policy(policy: keras.DTypePolicy) -> Iterator[None]:
    """Makes `policy` the default of all layers constructed inside the block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


_initial_values = contextvars.ContextVar("initial_values", default=True)


@contextlib.contextmanager
def without_initial_values() -> Iterator[None]:
    """Leaves the weights of layers constructed inside the block at 0, to be read from a file.

    Drawing 60 million random values takes about a second.
    """
    token = _initial_values.set(False)
    try:
        yield
    finally:
        _initial_values.reset(token)


_narrow_matrices = contextvars.ContextVar("narrow_matrices", default=False)


@contextlib.contextmanager
def narrow_matrices() -> Iterator[None]:
    """Stores the matrices of layers constructed inside the block in their compute dtype, all 0.

    For decoding: a step under a mixed policy then reads half the bytes, and casts no weights.
    Vectors stay in float32, and so do matrices that layers use in float32.
    """
    token = _narrow_matrices.set(True)
    try:
        with without_initial_values():
            yield
    finally:
        _narrow_matrices.reset(token)


def is_narrow(policy: keras.DTypePolicy) -> bool:
    """Whether layers of this policy, constructed now, store their matrices in a narrower dtype."""
    return _narrow_matrices.get() and policy.compute_dtype != policy.variable_dtype


class Layer(keras.layers.Layer):
    """A layer that knows its sizes when constructed and creates all its variables then.

    A subclass keeps each constructor argument in an attribute of the same name: `get_config`
    reads them there. The exception is `seeds`, the generator of dropout masks: a model passes its
    own to all its layers; a layer outside a model creates one.

    Under a mixed policy, kernels and embeddings are cast by the layers that hold them, and
    everything else follows. Keras would also cast all arguments, including masks of -1e9, which
    float16 cannot hold.

    Args:
        **kwargs: `name`, `dtype` and `trainable`, as for every Keras layer.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True  # outputs keep the mask of the first argument
        self.built = True  # constructors create the variables

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, and which parts are frozen."""
        arguments = {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            for name in self._argument_names()
        }
        return {**super().get_config(), **arguments, **frozen_parts(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Builds a layer from the result of `get_config`."""
        arguments = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in cls._argument_names()
            if name in config
        }
        others = {name: value for name, value in config.items() if name != FROZEN}
        layer = super().from_config({**others, **arguments})
        if FROZEN in config:
            freeze_parts(layer, layer.trainable, config[FROZEN])
        return layer

    @classmethod
    def _argument_names(cls) -> list[str]:
        """Names of the arguments of all constructors down from this base."""
        constructors = [
            vars(kind)["__init__"]
            for kind in cls.__mro__[: cls.__mro__.index(Layer)]
            if "__init__" in vars(kind)
        ]
        parameters = [
            parameter
            for constructor in constructors
            for parameter in list(inspect.signature(constructor).parameters.values())[1:]
        ]
        left_out = ("seeds", "kwargs")
        names = [parameter.name for parameter in parameters if parameter.name not in left_out]
        return list(dict.fromkeys(names))

    def add_weight(
        self, shape: Any = None, initializer: Any = None, *, precise: bool = False, **kwargs: Any
    ) -> keras.Variable:
        """Adds a weight as Keras does, but respects the contexts of this module.

        Args:
            shape: its shape.
            initializer: of its values.
            precise: whether it stays in float32 within `narrow_matrices`.
            **kwargs: see Keras.
        """
        drawn = initializer if _initial_values.get() else "zeros"
        if is_narrow(self.dtype_policy) and len(shape or ()) > 1 and not precise:
            kwargs["dtype"] = self.compute_dtype
        return super().add_weight(shape, drawn, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        """Does nothing: the variables already exist."""
        self.built = True


def seeds_or_new(seeds: keras.random.SeedGenerator | None) -> keras.random.SeedGenerator:
    """Returns `seeds`, or a new generator for a layer outside a model."""
    return keras.random.SeedGenerator() if seeds is None else seeds


@keras.saving.register_keras_serializable(package="t2t_lite")
class Stack(Layer):
    """Layers in a row.

    TensorFlow checkpoints follow attributes and would leave out layers in a plain list.

    Args:
        layers: from bottom to top.
    """

    def __init__(self, layers: Iterable[keras.layers.Layer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count = 0
        for layer in layers:
            setattr(self, f"layer_{self._count}", layer)
            self._count += 1

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> keras.layers.Layer:
        return getattr(self, f"layer_{range(self._count)[number]}")

    def __iter__(self) -> Iterator[keras.layers.Layer]:
        return (self[number] for number in range(self._count))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, and which parts are frozen."""
        # Not an attribute: Keras would save the layers a second time under that name.
        layers = keras.saving.serialize_keras_object(list(self))
        return {**keras.layers.Layer.get_config(self), "layers": layers, **frozen_parts(self)}
