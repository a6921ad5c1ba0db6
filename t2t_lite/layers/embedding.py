"""The embedding matrix, which sources, targets and the softmax may share."""

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, is_narrow

# Replaces a symbol that is dropped in training: it has no embedding, but is not padding.
DROPPED_ID = -1


@keras.saving.register_keras_serializable(package="t2t_lite")
class Embedding(Layer):
    """A matrix [V, D] whose rows are embeddings (paper, section 3.4) and softmax weights.

    Args:
        vocab_size: V.
        channels: D.
        scaled: whether to multiply embeddings by √D; the softmax is not scaled.
        stddev: standard deviation of the initial values (default: 1/√D).
        **kwargs: see `Layer`.

    Attributes:
        is_narrow: whether the matrix is stored in 16 bits, see `narrow_matrices`.
    """

    def __init__(
        self,
        vocab_size: int,
        channels: int,
        scaled: bool = True,
        stddev: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.channels = channels
        self.scaled = scaled
        self.stddev = channels**-0.5 if stddev is None else stddev
        self.scale = channels**0.5 if scaled else 1.0
        self.is_narrow = is_narrow(self.dtype_policy)
        self.matrix = self.add_weight(
            shape=(vocab_size, channels),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
            name="matrix",
            autocast=False,  # rows are cast after the lookup: gradients add up in float32
        )

    def call(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        """Looks up `ids` [B, N]; the result [B, N, D] is zero at padding (0) and at DROPPED_ID."""
        ids = ops.cast(ids, "int32")  # Keras turns ids into floats, in `fit` on several replicas
        rows = ops.take(ops.convert_to_tensor(self.matrix), ids, axis=0)  # [B, N, D]
        rows = ops.cast(rows, self.variable_dtype)  # float32, even if the matrix is narrow
        present = ops.cast(ops.greater(ids, 0), rows.dtype) * self.scale
        return ops.cast(rows * present[..., None], self.compute_dtype)

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, start_id: int = 0
    ) -> keras.KerasTensor:
        """Looks up the inputs of a decoding step, [B, K, D].

        Args:
            ids: [B, K], the previous tokens, ignored at step 0.
            step: a scalar, counted from 0.
            start_id: looked up at step 0 instead; 0: the decoder starts from a zero vector.
        """
        return self(ops.where(ops.equal(step, 0), ops.full_like(ids, start_id), ids))

    def compute_mask(
        self, ids: keras.KerasTensor, previous_mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Returns which of `ids` [B, N] are not padding."""
        return ops.not_equal(ids, 0)

    def transposed(self, ids: keras.KerasTensor | None = None) -> keras.KerasTensor:
        """Returns the matrix as softmax weights [D, V], or the rows of some ids [U] as [D, U]."""
        matrix = self.matrix if ids is None else ops.take(self.matrix, ids, axis=0)
        return ops.transpose(ops.cast(matrix, self.compute_dtype))
