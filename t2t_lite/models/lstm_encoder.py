"""Recurrent encoders: left to right, right to left, or both."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.recurrent import CELLS, Recurrent, State
from t2t_lite.models.flops import flops_per_token
from t2t_lite.models.hparams_model import HParamsModel
from t2t_lite.models.model_part import Encoder


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMEncoder(Encoder):
    """Recurrent layers: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0).

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: an `LSTMSeq2SeqAttention` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams
    shared_names: ClassVar[tuple[str, ...]] = ("inputs_embedding", "dropout", "encoder_layers")
    backward: ClassVar[bool] = False  # whether `encoder_layers` read right to left
    directions: ClassVar[int] = 1  # the output is that many times as wide as a layer

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        h = owner.hparams
        assert isinstance(h, LSTMHParams)
        owner.dropout = Dropout(h.dropout, owner.seeds)
        owner.encoder_layers = _layers(h, cls.backward)

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D], zero at padding."""
        return self.encode(inputs, training)[0]

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, list[State]]:
        """Encodes `inputs` [B, S]; returns [B, S, D], and each layer's final state [B, D]."""
        return self._read(self.encoder_layers, inputs, training)

    def _read(
        self, layers: Stack, inputs: keras.KerasTensor, training: bool
    ) -> tuple[keras.KerasTensor, list[State]]:
        x, present = self.inputs_embedding(inputs), ops.not_equal(inputs, 0)
        final = []
        for layer in layers:
            x, state = layer(self.dropout(x, training=training), mask=present)
            final.append(state)
        return x, final

    def flops_per_token(self) -> float:
        """Returns the operations of all layers for one token."""
        return flops_per_token(self.encoder_layers)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ReversedLSTMEncoder(LSTMEncoder):
    """An `LSTMEncoder` that reads from the last token to the first (Sutskever et al. 2014)."""

    backward = True


@keras.saving.register_keras_serializable(package="t2t_lite")
class BidirectionalLSTMEncoder(LSTMEncoder):
    """Two stacks, one for each direction; outputs and states stand side by side, 2D features."""

    shared_names = (*LSTMEncoder.shared_names, "backward_layers")
    directions = 2

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `LSTMEncoder.add_layers`."""
        super().add_layers(owner)
        assert isinstance(owner.hparams, LSTMHParams)
        owner.backward_layers = _layers(owner.hparams, backward=True)

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, list[State]]:
        """See `LSTMEncoder.encode`."""
        forward, final = self._read(self.encoder_layers, inputs, training)
        backward, other_final = self._read(self.backward_layers, inputs, training)
        both = keras.tree.map_structure(_side_by_side, final, other_final)
        return _side_by_side(forward, backward), both

    def flops_per_token(self) -> float:
        """See `LSTMEncoder.flops_per_token`."""
        return super().flops_per_token() + flops_per_token(self.backward_layers)


def _layers(hparams: LSTMHParams, backward: bool) -> Stack:
    d, make = hparams.hidden_size, CELLS[hparams.cell]
    cells = (make(d, d, hparams.initializer_gain) for _ in range(hparams.num_hidden_layers))
    return Stack(Recurrent(cell, backward) for cell in cells)


def _side_by_side(*parts: Any) -> keras.KerasTensor:
    return ops.concatenate(parts, axis=-1)
