"""The SSRU, a simpler simple recurrent unit (Kim et al., WNGT 2019, section 3).

In a decoder it takes the place of self-attention: a step then reads one vector, however long the
output is. Bergamot's students have it. The equations are those of Marian (rnn/cells.h, class SSRU).
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection


class SSRUState(NamedTuple):
    """What a hypothesis remembers of the positions before."""

    cell: keras.KerasTensor  # c, [B, K, D], float32

    def grown(self, length: int) -> "SSRUState":
        """Returns the state itself: it has room for any number of positions."""
        return self


@keras.saving.register_keras_serializable(package="t2t_lite")
class SSRU(Layer):
    """`c_t = f_t ⊙ c_(t-1) + (1 - f_t) ⊙ x_t W`, `f_t = σ(x_t W_f + b_f)`; the output is ReLU(c_t).

    No gate reads the state, so that one product over all positions comes before the loop. The loop
    is in float32: a narrower number would forget what a gate near 1 changes.

    Args:
        channels: D.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(self, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.gain = gain
        # The columns: candidate W, gate W_f.
        self.projection = Projection(channels, (channels, channels), gain, dtype=self.dtype_policy)
        self.gate_bias = self.add_weight((channels,), "zeros", name="gate_bias")

    def call(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, T, D] to [B, T, D]; `bias` is for a `SelfAttention` in its place."""
        kept, new = (ops.swapaxes(part, 0, 1) for part in self._gates(x))  # [T, B, D]
        return self._output(ops.swapaxes(_cells(kept, new), 0, 1))

    def empty_cache(self, batch: keras.KerasTensor, beams: int, length: int) -> SSRUState:
        """Returns the state before the first step; `length` is for a `SelfAttention`."""
        return SSRUState(ops.zeros((batch, beams, self.channels), "float32"))

    def step(
        self, x: keras.KerasTensor, state: SSRUState, step: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, SSRUState]:
        """Processes one position `x` [B, K, D] of every hypothesis; returns it and the state."""
        kept, new = self._gates(x)
        cell = kept * state.cell + new
        return self._output(cell), SSRUState(cell)

    def _gates(self, x: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns f and (1 - f) ⊙ x W of every position, each like `x`, in float32."""
        candidate, gate = ops.split(ops.cast(self.projection(x), "float32"), 2, axis=-1)
        kept = ops.sigmoid(gate + ops.cast(self.gate_bias, "float32"))
        return kept, (1.0 - kept) * candidate

    def _output(self, cell: keras.KerasTensor) -> keras.KerasTensor:
        return ops.cast(ops.relu(cell), self.compute_dtype)


@ops.custom_gradient
def _cells(kept: keras.KerasTensor, new: keras.KerasTensor) -> Any:
    """Returns `c_t = kept_t ⊙ c_(t-1) + new_t`, c being 0 before; all [T, B, D].

    The gradient is the same loop, backward. Differentiated automatically, the loop would be twice
    as slow, and TensorFlow's XLA could not compile it.
    """
    cells = _scan(kept, new)

    def gradient(*upstream: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        (by_cells,) = keras.tree.flatten(upstream)
        nothing = ops.zeros_like(kept[:1])
        by_new = _scan(ops.concatenate([kept[1:], nothing], axis=0), by_cells, backward=True)
        return by_new * ops.concatenate([nothing, cells[:-1]], axis=0), by_new

    return cells, gradient


def _scan(
    kept: keras.KerasTensor, new: keras.KerasTensor, backward: bool = False
) -> keras.KerasTensor:
    def step(
        cell: keras.KerasTensor, now: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        kept, new = ops.split(now, 2, axis=-1)
        cell = kept * cell + new
        return cell, cell

    # Packed: `scan` takes only one tensor of unknown length.
    packed = ops.concatenate([kept, new], axis=-1)
    _, cells = ops.scan(step, ops.zeros_like(new[0]), packed, reverse=backward)
    return cells


def of_hparams(hparams: TransformerHParams) -> SSRU:
    """Creates the layer according to the hparams.

    Raises:
        UsageError: positions must see later ones.
    """
    if hparams.prepends_inputs and not hparams.predicts_inputs:
        raise UsageError(
            f"hparam decoder_self={hparams.decoder_self} reads only earlier positions, but with "
            f"prepend_mode={hparams.prepend_mode} a source sees all of itself: set "
            "decoder_self=attention, or prepend_mode=prepend_inputs_masked_attention"
        )
    return SSRU(hparams.hidden_size, hparams.initializer_gain)
