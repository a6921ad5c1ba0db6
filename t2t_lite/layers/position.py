"""Positions, added to embeddings: sinusoids (paper, section 3.5) or a learned table."""

import math
from typing import Any

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import Layer


def sinusoids(
    positions: keras.KerasTensor, channels: int, paper: bool = False
) -> keras.KerasTensor:
    """Sines in the first half of the features, cosines in the second, as in T2T.

    The wavelengths form a geometric series from 2π to 20,000π. (The paper interleaves sines and
    cosines, which is the same up to the order of features.) An odd last feature is 0.

    Args:
        positions: [N], counted from 0.
        channels: D.
        paper: whether wavelengths are the paper's, 2π · 10,000^(2i/D), which end before 20,000π.

    Returns:
        [N, D], float32.
    """
    half = channels // 2
    step = math.log(10_000.0) / (half if paper else max(half - 1, 1))
    rates = ops.exp(ops.arange(half, dtype="float32") * -step)  # [D/2]
    angles = ops.cast(positions, "float32")[:, None] * rates[None, :]  # [N, D/2]
    signal = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)
    return ops.pad(signal, [[0, 0], [0, channels - 2 * half]])


@keras.saving.register_keras_serializable(package="t2t_lite")
class Position(Layer):
    """Adds a position vector to each embedding.

    Args:
        kind: "timing" (sinusoids), "timing_paper" (see `sinusoids`), "emb" (learned) or "none".
        channels: D.
        max_length: rows of the learned table; later positions share the last row.
        offset: position of the first symbol, for sinusoids.
        stddev: standard deviation of the table's initial values (default: Glorot's uniform).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        kind: str,
        channels: int,
        max_length: int = 256,
        offset: int = 0,
        stddev: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if kind not in ("timing", "timing_paper", "emb", "none"):
            raise UsageError(f"hparam pos={kind!r}: expected timing, timing_paper, emb or none")
        if kind == "emb" and max_length < 1:
            raise UsageError(
                f"hparam pos=emb learns a vector for each of max_length={max_length} positions: "
                "set max_length"
            )
        self.kind = kind
        self.channels = channels
        self.max_length = max_length
        self.offset = offset
        self.stddev = stddev
        if kind == "emb":
            self.table = self.add_weight(
                shape=(max_length, channels),
                initializer=(
                    "glorot_uniform"
                    if stddev is None
                    else keras.initializers.RandomNormal(stddev=stddev)
                ),
                name="table",
            )

    def call(
        self, x: keras.KerasTensor, positions: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Adds position vectors.

        Args:
            x: [B, N, D].
            positions: [N], counted from 0 (default: 0 to N - 1).
        """
        if positions is None:
            positions = ops.arange(ops.shape(x)[1])
        if self.kind == "none":
            return x
        if self.kind == "emb":
            signal = ops.take(self.table, ops.minimum(positions, self.max_length - 1), axis=0)
        else:
            paper = self.kind == "timing_paper"
            signal = sinusoids(positions + self.offset, self.channels, paper)
        return x + ops.cast(signal, x.dtype)[None]  # [1, N, D]
