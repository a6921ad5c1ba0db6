"""The base class of all layers, dropout, and what Keras tells of the parts of a layer.

In `.keras` files, a layer's configuration says which parts are frozen: Keras keeps `trainable` of a
layer, but not of the sub-layers that its constructor creates.

At the end are private interfaces of Keras, the same from 3.10 to 3.15, and of PyTorch. Each is
checked; where a release lacks it, something public takes its place.
"""

import contextlib
import contextvars
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from t2t_lite.tensor_sizes import shape_of

FROZEN = "frozen"  # the key in a configuration, absent if no part is frozen
_GROUP = 1024  # features whose dropout shares random bits
_LEAST_KEPT = 2.0**-15  # probability of a kept feature; float16 has no number above 65504
# Returns the gradients of a function's arguments, see `keras.ops.custom_gradient`: PyTorch's gets
# the arguments before `upstream`, which has a name there.
Gradient = Callable[..., Any]
_OF_TENSORFLOW = "_self_"  # how attributes begin in which it holds all parts a second time


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


def seeds_or_new(seeds: keras.random.SeedGenerator | None) -> keras.random.SeedGenerator:
    """Returns `seeds`, or a new generator for a layer outside a model."""
    return keras.random.SeedGenerator() if seeds is None else seeds


@keras.saving.register_keras_serializable(package="t2t_lite")
class Dropout(Layer):
    """Zeroes features with probability `rate` and scales the others by `1 / (1 - rate)`.

    The scale is rounded to the dtype of the features, and the probability follows it, so that the
    mean stays the same: with rate 0.1, bfloat16 has scale 1.109 and probability 0.0986. A rate
    between 1 - 2⁻¹⁵ and 1 counts as 1 - 2⁻¹⁵, whose scale is a number in every dtype.

    All dropout layers of a model draw from one generator, in call order.
    Setting its state from (seed, step, replica) makes every mask of a step repeatable.

    Args:
        rate: probability of a zero.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self, rate: float, seeds: keras.random.SeedGenerator | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seeds = seeds_or_new(seeds)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Applies dropout to `x`, of any shape, if `training`."""
        if not training or self.rate == 0.0:
            return x
        if self.rate == 1.0:
            return ops.zeros_like(x)
        dtype = keras.backend.standardize_dtype(x.dtype)
        scale = float(np.array(1.0 / max(1.0 - self.rate, _LEAST_KEPT)).astype(dtype))
        kept = self._kept(shape_of(x), 1.0 / scale)
        return dropped(x, kept, scale)

    def _kept(
        self, shape: Sequence[int | keras.KerasTensor], probability: float
    ) -> keras.KerasTensor:
        """Draws which features to keep, of that shape.

        A feature has 8 random bits of its own, because drawing bits takes longer than all the rest.
        They give its probability to 2⁻⁸. 8 more bits, which a group of features shares, decide
        whether that is rounded up or down, so that the probability is exact to 2⁻¹⁶. The covariance
        of two features in a group is at most 2⁻¹⁸.
        """
        size = functools.reduce(operator.mul, shape, 1)
        groups = (size + (_GROUP - 1)) // _GROUP
        # A word more in each group: its lowest 8 bits are those that the group shares.
        words = keras.random.randint(
            (groups, _GROUP // 4 + 1), -(2**31), 2**31 - 1, "int32", seed=self.seeds
        )
        numbers = int8_quarters(words)  # [groups, 4 + _GROUP], from -128
        shared, numbers = numbers[:, :1], numbers[:, 4:]
        high, low = divmod(min(max(round(probability * 2**16), 1), 2**16 - 1), 2**8)
        # Numbers below `high` are kept; `high` itself is, too, where the shared number is below
        # `low`. For each of the two halves of rates, another comparison has its limits in int8.
        below, first = (ops.less_equal, -129) if high >= 2**7 else (ops.less, -128)
        more = ops.cast(shared < ops.cast(low - 128, "int8"), "int8")
        kept = below(numbers, more + ops.cast(first + high, "int8"))
        return ops.reshape(ops.reshape(kept, (-1,))[:size], shape)


def dropped(x: keras.KerasTensor, kept: keras.KerasTensor, scale: float) -> keras.KerasTensor:
    """Returns `x` times `scale` where `kept`, and 0 elsewhere.

    Products are faster than choices, and a gradient written by hand keeps fewer arrays: `kept`
    takes a byte for each feature until the backward pass, which makes the factors again.

    Args:
        x: of any shape.
        kept: of the same shape, booleans.
        scale: the factor.
    """

    def times_factors(y: keras.KerasTensor) -> keras.KerasTensor:
        return y * (ops.cast(kept, y.dtype) * ops.cast(scale, y.dtype))

    @ops.custom_gradient
    def run(x: keras.KerasTensor) -> tuple[keras.KerasTensor, Gradient]:
        def gradient(
            *arguments: keras.KerasTensor, upstream: keras.KerasTensor | None = None
        ) -> keras.KerasTensor:
            return times_factors(arguments[-1] if upstream is None else upstream)

        return times_factors(x), gradient

    return run(x)


def int8_quarters(words: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the quarters of each int32 of `words` [G, N] as int8 [G, 4N], lowest first.

    Keras has `ops.view`, which takes no time, since 3.12.
    """
    if hasattr(ops, "view"):
        return ops.view(words, "int8")
    quarters = [ops.right_shift(ops.left_shift(words, up), 24) for up in (24, 16, 8, 0)]
    return ops.reshape(ops.cast(ops.stack(quarters, axis=-1), "int8"), (-1, 4 * words.shape[-1]))


# ---- which parts of a layer or model are frozen


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
        if part is owner or any(part is weight for weight in own_weights(owner)):
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
    values = attributes(layer)
    visible = {name for name in dir(layer) if not name.startswith(_OF_TENSORFLOW)}
    visible -= _keras_attributes()
    for name in sorted(visible & values.keys()):
        for path, value in _flat(values[name], prefix + name):
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


# ---- private interfaces


def attributes(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns a layer's attributes by name, on every backend."""
    own = vars(layer)
    return {**own, **own.get("_modules", {})}  # where PyTorch keeps sub-layers


def own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Returns the weights that belong to a layer itself, not to its sub-layers, frozen or not.

    Without the private list, those of its sub-layers are among them.
    """
    return getattr(layer, "_trainable_variables", layer.weights)


def flattened(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a layer and all layers inside it, each once."""
    if hasattr(layer, "_flatten_layers"):
        return list(layer._flatten_layers())
    return list(_found(layer, {}).values())


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
