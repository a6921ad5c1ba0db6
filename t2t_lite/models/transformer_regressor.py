"""T2T's `transformer_regressor`: numbers of a text."""

from typing import ClassVar

import keras
from keras import ops

from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.transformer_encoder import MeanOfEncoder
from t2t_lite.text.text_encoder import RESERVED_TOKENS


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerRegressor(MeanOfEncoder):
    """The Transformer's encoder; the mean of its outputs; a linear layer to the numbers.

    A target is numbers and EOS. To a search, number n is the logit of id n + 2 at position n, where
    no other id can occur.

    Examples:
        >>> model = TransformerRegressor("transformer_tiny", 8000, targets_vocab_size=2 + 1)
        >>> numbers = numbers_in(model({"inputs": texts, "targets": zeros}))  # [B, 1]
    """

    only_numbers: ClassVar[bool] = True
    kind_of_outputs: ClassVar[str] = "numbers"

    @property
    def has_source_attention(self) -> bool:
        """No: a number is of the whole text."""
        return False

    @property
    def _length(self) -> int:
        return self.targets_vocab_size - len(RESERVED_TOKENS)

    def _logits(
        self, outputs: keras.KerasTensor, positions: keras.KerasTensor
    ) -> keras.KerasTensor:
        numbers = ops.arange(self._length, dtype="int32")
        is_here = ops.equal(numbers, ops.cast(positions, "int32")[:, None])  # [N, V - 2]
        return ops.where(is_here, outputs[:, None], EXCLUDED)

    def numbers(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Returns the numbers [B, N], float32, of texts [B, S]."""
        targets = ops.zeros((ops.shape(inputs)[0], self._length), "int32")
        return numbers_in(self.hidden({"inputs": inputs, "targets": targets}, training=training))


def numbers_in(hidden: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the numbers [B, N] of a model's output [B, T, N + 2] for whole targets."""
    count = hidden.shape[-1] - len(RESERVED_TOKENS)
    return ops.diagonal(hidden[:, :count, len(RESERVED_TOKENS) :], axis1=1, axis2=2)
