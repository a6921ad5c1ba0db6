"""The base of all layers here."""

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import Any

import keras


@contextlib.contextmanager
def default_policy(policy: keras.DTypePolicy) -> Iterator[None]:
    """Makes `policy` that of all layers constructed inside the block."""
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

    To draw 60 million values at random takes about a second.
    """
    token = _initial_values.set(False)
    try:
        yield
    finally:
        _initial_values.reset(token)


class Layer(keras.layers.Layer):
    """A layer that knows its sizes when constructed and makes all its variables then.

    Under a mixed policy, kernels and embeddings are cast by the layers that hold them, and
    everything else follows. Keras would cast all arguments as well, masks of -1e9 included, which
    float16 cannot hold.
    """

    def __init__(self) -> None:
        super().__init__(autocast=False)

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Makes a weight as Keras does, but for `without_initial_values`."""
        if not _initial_values.get():
            kwargs["initializer"] = "zeros"
        return super().add_weight(*args, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        """Does nothing: there is nothing left to make."""
        self.built = True


class Stack(Layer):
    """Layers in a row.

    A TensorFlow checkpoint follows attributes; what stands in a list it would leave out.

    Args:
        layers: from the bottom up.
    """

    def __init__(self, layers: Iterable[keras.layers.Layer]) -> None:
        super().__init__()
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
