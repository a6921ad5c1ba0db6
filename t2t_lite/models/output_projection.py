"""Maps the decoder's output to logits."""

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.shapes import multiply
from t2t_lite.text.text_encoder import PAD_ID

# Logit of an id that cannot occur: its probability is 0, and a hypothesis with it does not exist.
EXCLUDED = -1e9


class OutputRows(NamedTuple):
    """The weights of some ids."""

    ids: keras.KerasTensor  # [U], of which the first is padding
    kernel: keras.KerasTensor  # [D, U]
    bias: keras.KerasTensor | tuple[()]  # [U], if there is one


@keras.saving.register_keras_serializable(package="t2t_lite")
class OutputProjection(Layer):
    """The product with the softmax matrix: hidden features [..., D] to logits [..., V].

    Each of its weights has a row for each id of the targets.

    Args:
        embedding: its rows are the softmax weights.
        use_bias: whether to add a bias, initially 0.
        has_padding: whether padding (id 0) is an output like others; if not, its logit is
            `EXCLUDED`, and all logits are float32.
        **kwargs: see `Layer`.

    Attributes:
        excludes: whether some logits are `EXCLUDED`; label smoothing then leaves these ids out.
    """

    excludes: ClassVar[bool] = False

    has_padding: bool = True

    def __init__(
        self,
        embedding: Embedding,
        use_bias: bool = False,
        has_padding: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding
        self.use_bias = use_bias
        self.has_padding = has_padding
        rows = (embedding.vocab_size,)
        self.bias = self.add_weight(rows, "zeros", name="bias") if use_bias else None

    def call(
        self,
        hidden: keras.KerasTensor,
        kernel: keras.KerasTensor | OutputRows | tuple[()] | None = None,
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V].

        Args:
            hidden: the decoder's output.
            kernel: as the method returns it; or what `rows` returns, for the logits of its ids.
        """
        bias = self.bias
        if isinstance(kernel, OutputRows):
            ids, kernel, bias = kernel
        else:
            ids = ops.arange(self.embedding.vocab_size)
        is_given = kernel is not None and not isinstance(kernel, tuple)
        logits = multiply(hidden, kernel if is_given else self._kernel())
        if self.bias is not None:
            logits = logits + ops.cast(bias, logits.dtype)
        if self.has_padding:
            return logits
        is_padding = ops.equal(ids, PAD_ID)
        return ops.where(is_padding, EXCLUDED, ops.cast(logits, "float32"))

    def kernel(self) -> keras.KerasTensor | tuple[()]:
        """Returns the weights [D, V]; an empty tuple if products take them as they are stored.

        A search calls this once, not in every step: the embedding holds the weights transposed, and
        transposing 32,000 rows takes longer than a step's product with them. Products of 16-bit
        numbers are faster with transposed weights (see `Projection`).
        """
        return () if self.embedding.is_narrow else self._kernel()

    def rows(self, ids: keras.KerasTensor) -> OutputRows:
        """Returns the weights of some ids [U]."""
        bias = () if self.bias is None else ops.take(self.bias, ids)
        return OutputRows(ids, self._kernel(ids), bias)

    def _kernel(self, ids: keras.KerasTensor | None = None) -> keras.KerasTensor:
        """Returns the weights [D, V], or those of some ids [D, U]."""
        return self.embedding.transposed(ids)


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
