"""The base of all layers here."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras


class Layer(keras.layers.Layer):
    """A layer that knows its sizes when constructed and makes all its variables then."""

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
