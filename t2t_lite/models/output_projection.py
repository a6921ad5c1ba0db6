"""Maps the decoder's output to logits."""

import keras
from keras import ops

from t2t_lite.layers.embedding import Embedding


class OutputProjection:
    """The product with the softmax matrix: hidden features [..., D] to logits [..., V].

    Args:
        embedding: its rows are the softmax weights.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def __call__(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V]; `kernel`: as the method returns it."""
        return ops.matmul(hidden, self.kernel() if kernel is None else kernel)

    def kernel(self) -> keras.KerasTensor:
        """Returns the weights [D, V].

        A search calls this once, not in every step: the embedding holds the weights transposed, and
        transposing 32,000 rows takes longer than a step's product with them.
        """
        return self._embedding.transposed()

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables that a call reads."""
        return [self._embedding.matrix]
