"""Recurrent encoders: left to right, right to left, or both."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.recurrent import CELLS, Recurrent
from t2t_lite.models.encoder_decoder import Encoder
from t2t_lite.models.recurrent import Encoded


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMEncoder(Encoder):
    """Recurrent layers: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0).

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams
    backward: ClassVar[bool] = False  # whether `stack` reads right to left
    directions: ClassVar[int] = 1  # the output is that many times as wide as a layer

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        self.dropout = Dropout(self.hparams.dropout, self.seeds)
        self.stack = self._make_stack(self.backward)

    def _make_stack(self, backward: bool) -> Stack:
        h = self.hparams
        d, make = h.hidden_size, CELLS[h.cell]
        cells = (make(d, d, h.initializer_gain) for _ in range(h.num_hidden_layers))
        return Stack(Recurrent(cell, backward) for cell in cells)

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """Encodes `inputs` [B, S]; see `Encoder.encode`. Outputs are zero at padding."""
        return self._read(self.stack, inputs, training)

    def _read(self, stack: Stack, inputs: keras.KerasTensor, training: bool) -> Encoded:
        x, present = self.embedding(inputs), ops.not_equal(inputs, 0)
        final = []
        for layer in stack:
            x, state = layer(self.dropout(x, training=training), mask=present)
            final.append(state)
        return Encoded(x, present, final)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ReversedLSTMEncoder(LSTMEncoder):
    """An `LSTMEncoder` that reads from the last token to the first (Sutskever et al. 2014)."""

    backward = True


@keras.saving.register_keras_serializable(package="t2t_lite")
class BidirectionalLSTMEncoder(LSTMEncoder):
    """Two stacks, one for each direction; outputs and states stand side by side, 2D features."""

    directions = 2

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        self.backward_stack = self._make_stack(backward=True)

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """See `LSTMEncoder.encode`."""
        forward = self._read(self.stack, inputs, training)
        backward = self._read(self.backward_stack, inputs, training)
        pairs = ((forward.output, forward.states), (backward.output, backward.states))
        output, states = keras.tree.map_structure(_side_by_side, *pairs)
        return Encoded(output, forward.present, states)


def _side_by_side(*parts: Any) -> keras.KerasTensor:
    return ops.concatenate(parts, axis=-1)
