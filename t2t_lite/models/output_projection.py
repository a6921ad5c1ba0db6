"""Maps the decoder's output to logits."""

from typing import ClassVar

import keras
from keras import ops

from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.shapes import multiply

# Logit of an id that cannot occur: its probability is 0, and a hypothesis with it does not exist.
EXCLUDED = -1e9


class OutputProjection:
    """The product with the softmax matrix: hidden features [..., D] to logits [..., V].

    Args:
        embedding: its rows are the softmax weights.
        bias: [V], added to the logits (default: none).

    Attributes:
        excludes: whether some logits are `EXCLUDED`; label smoothing then leaves these ids out.
    """

    excludes: ClassVar[bool] = False

    def __init__(self, embedding: Embedding, bias: keras.Variable | None = None) -> None:
        self._embedding = embedding
        self._bias = bias

    def __call__(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | tuple[()] | None = None
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V]; `kernel`: as the method returns it."""
        is_given = kernel is not None and not isinstance(kernel, tuple)
        logits = multiply(hidden, kernel if is_given else self._kernel())
        return logits if self._bias is None else logits + ops.cast(self._bias, logits.dtype)

    def kernel(self) -> keras.KerasTensor | tuple[()]:
        """Returns the weights [D, V]; an empty tuple if products take them as they are stored.

        A search calls this once, not in every step: the embedding holds the weights transposed, and
        transposing 32,000 rows takes longer than a step's product with them. Products of 16-bit
        numbers are faster with transposed weights (see `Projection`).
        """
        return () if self._embedding.is_narrow else self._kernel()

    def _kernel(self) -> keras.KerasTensor:
        """Returns the weights [D, V]."""
        return self._embedding.transposed()

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables that a call reads; each has a row for each id of the targets."""
        matrix = self._embedding.matrix
        return [matrix] if self._bias is None else [matrix, self._bias]


class GivenLogits(OutputProjection):
    """For models whose `hidden` are logits [..., V], some of them perhaps `EXCLUDED`."""

    excludes = True

    def __init__(self) -> None:
        pass

    def __call__(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | tuple[()] | None = None
    ) -> keras.KerasTensor:
        """Returns `hidden`."""
        return hidden

    def kernel(self) -> tuple[()]:
        """Returns an empty tuple: there are no weights."""
        return ()

    @property
    def variables(self) -> list[keras.Variable]:
        """None."""
        return []
