"""What models with recurrent decoders have in common."""

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.recurrent_attention import RecurrentAttention
from t2t_lite.models.model_part import ModelPart
from t2t_lite.models.seq2seq import AttentionLayer, DecodeState, Seq2Seq

_States = TypeVar("_States")


class RecurrentSeq2Seq(Seq2Seq):
    """Base of models whose decoder passes a state of constant size from step to step."""

    encoder_class: ClassVar[type[ModelPart]]

    def make_layers(self) -> None:
        """Creates the encoder's layers; a subclass adds its decoder's."""
        if not self.hparams.num_hidden_layers:
            raise UsageError("hparam num_hidden_layers=0: a recurrent model needs at least 1")
        # TensorFlow's XLA cannot differentiate a loop with attention inside.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self.encoder_class.add_layers(self)

    @abc.abstractmethod
    def _start(self, inputs: keras.KerasTensor, beams: int, training: bool) -> tuple[Any, Any]:
        """Encodes `inputs` [B, S]; returns what belongs to a sentence and to a hypothesis."""

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; the size of the state does not depend on `length`."""
        return DecodeState(
            *self._start(inputs, beams, training=False), self.output_projection.kernel()
        )

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Returns `state`, whose size does not depend on the length."""
        return state


class WithAttention:
    """Hooks of a model with one attention layer, which has one head."""

    attention: RecurrentAttention

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the attention to the source; see `Seq2Seq.hook_attention`."""
        self.attention.attention_hook = lambda weights: hook(weights[:, 0])
        try:
            yield
        finally:
            self.attention.attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[AttentionLayer]]:
        """Returns the only attention layer."""
        return {"encoder_decoder": [self.attention]}


def repeat_states(states: _States, beams: int) -> _States:
    """Gives each of K beams a copy of all states: [B, D] -> [B, K, D]."""
    return keras.tree.map_structure(lambda part: ops.repeat(part[:, None], beams, axis=1), states)
