"""Maps the decoder's output to logits."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.shapes import multiply

# Logit of an id that cannot occur: its probability is 0, and a hypothesis with it does not exist.
EXCLUDED = -1e9


@keras.saving.register_keras_serializable(package="t2t_lite")
class OutputProjection(Layer):
    """The product with the softmax matrix: hidden features [..., D] to logits [..., V].

    Each of its weights has a row for each id of the targets.

    Args:
        embedding: its rows are the softmax weights.
        use_bias: whether to add a bias, initially 0.
        **kwargs: see `Layer`.

    Attributes:
        excludes: whether some logits are `EXCLUDED`; label smoothing then leaves these ids out.
    """

    excludes: ClassVar[bool] = False

    def __init__(self, embedding: Embedding, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding
        self.use_bias = use_bias
        rows = (embedding.vocab_size,)
        self.bias = self.add_weight(rows, "zeros", name="bias") if use_bias else None

    def call(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | tuple[()] | None = None
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V]; `kernel`: as the method returns it."""
        is_given = kernel is not None and not isinstance(kernel, tuple)
        logits = multiply(hidden, kernel if is_given else self._kernel())
        return logits if self.bias is None else logits + ops.cast(self.bias, logits.dtype)

    def kernel(self) -> keras.KerasTensor | tuple[()]:
        """Returns the weights [D, V]; an empty tuple if products take them as they are stored.

        A search calls this once, not in every step: the embedding holds the weights transposed, and
        transposing 32,000 rows takes longer than a step's product with them. Products of 16-bit
        numbers are faster with transposed weights (see `Projection`).
        """
        return () if self.embedding.is_narrow else self._kernel()

    def _kernel(self) -> keras.KerasTensor:
        """Returns the weights [D, V]."""
        return self.embedding.transposed()


@keras.saving.register_keras_serializable(package="t2t_lite")
class GivenLogits(OutputProjection):
    """For models whose `hidden` are logits [..., V], some of them perhaps `EXCLUDED`."""

    excludes = True

    def __init__(self, **kwargs: Any) -> None:
        Layer.__init__(self, **kwargs)

    @classmethod
    def _argument_names(cls) -> list[str]:
        return []

    def call(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | tuple[()] | None = None
    ) -> keras.KerasTensor:
        """Returns `hidden`."""
        return hidden

    def kernel(self) -> tuple[()]:
        """Returns an empty tuple: there are no weights."""
        return ()
