"""The steps around each sub-layer: normalisation, dropout, residual connection."""

from collections.abc import Callable
from typing import Any

import keras

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import Layer, seeds_or_new
from t2t_lite.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="t2t_lite")
class LayerSteps(Layer):
    """A T2T sequence of steps: `n` normalise, `d` dropout, `a` add the sub-layer's input.

    Args:
        sequence: such as "dan"; "none" and "" do nothing.
        channels: D.
        dropout_rate: dropout rate of step `d`.
        epsilon: added to the variance in step `n`.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        sequence: str,
        channels: int,
        dropout_rate: float = 0.0,
        epsilon: float = 1e-6,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sequence = "" if sequence == "none" else sequence
        if not set(self.sequence) <= set("nda"):
            raise UsageError(f"layer sequence {sequence!r}: expected letters n, d, a, or none")
        self.channels = channels
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=self.dtype_policy)
        if "n" in self.sequence:
            self.norm = keras.layers.LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy)
            self.norm.build((None, None, channels))

    def call(
        self, x: keras.KerasTensor, before: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """Applies the steps to `x` [B, N, D]; step `a` adds `before` [B, N, D]."""
        for step in self.sequence:
            if step == "n":
                x = self.norm(x)
            elif step == "d":
                x = self.dropout(x, training=training)
            else:
                x = before + x
        return x


@keras.saving.register_keras_serializable(package="t2t_lite")
class Residual(Layer):
    """Wraps one sub-layer in its steps before and after.

    Post-norm (paper, section 3.1; T2T's v1) is `LayerNorm(x + Dropout(f(x)))`: "none" before,
    "dan" after. Pre-norm (v2, v3) is `x + Dropout(f(LayerNorm(x)))`: "n" before, "da" after.

    Args:
        before: steps applied to the sub-layer's input.
        after: steps applied to its output.
        **kwargs: see `Layer`.
    """

    def __init__(self, before: LayerSteps, after: LayerSteps, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.before = before
        self.after = after

    def call(
        self,
        x: keras.KerasTensor,
        *,
        sublayer: Callable[[keras.KerasTensor], keras.KerasTensor],
        training: bool = False,
    ) -> keras.KerasTensor:
        """Applies the sub-layer and its steps to `x` [B, N, D]."""
        y = sublayer(self.before(x, x, training=training))
        return self.after(y, x, training=training)
