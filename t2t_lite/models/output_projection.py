"""Maps the decoder's output to logits."""

import keras
from keras import ops

from t2t_lite.layers.embedding import Embedding


class OutputProjection:
    """The product with the softmax matrix: hidden features [..., D] to logits [..., V].

    Args:
        embedding: its rows are the softmax weights.
        bias: [V], added to the logits (default: none).
    """

    def __init__(self, embedding: Embedding, bias: keras.Variable | None = None) -> None:
        self._embedding = embedding
        self._bias = bias

    def __call__(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V]; `kernel`: as the method returns it."""
        logits = ops.matmul(hidden, self.kernel() if kernel is None else kernel)
        return logits if self._bias is None else logits + ops.cast(self._bias, logits.dtype)

    def kernel(self) -> keras.KerasTensor:
        """Returns the weights [D, V].

        A search calls this once, not in every step: the embedding holds the weights transposed, and
        transposing 32,000 rows takes longer than a step's product with them.
        """
        return self._embedding.transposed()

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables that a call reads."""
        matrix = self._embedding.matrix
        return [matrix] if self._bias is None else [matrix, self._bias]
