"""What models with recurrent encoders and decoders have in common."""

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import keras
from keras import ops

from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.recurrent_attention import RecurrentAttention, SourceMemory
from t2t_lite.models.flops import ForwardFlops, flops_of_part, flops_per_token
from t2t_lite.models.hparams_model import Decoder
from t2t_lite.models.seq2seq import AttentionLayer, DecodeState, EncoderDecoder
from t2t_lite.tensor_sizes import split

_States = TypeVar("_States")


class Encoded(NamedTuple):
    """What a recurrent encoder gives its decoder."""

    output: keras.KerasTensor  # [B, S, D]
    present: keras.KerasTensor  # [B, S], False at padding
    states: Any = ()  # the state of each layer after its last token, [B, D]


class RecurrentSeq2Seq(EncoderDecoder):
    """Base of models whose decoder passes a state of constant size from step to step."""

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        return ForwardFlops(
            source=flops_of_part(self.encoder),
            target=flops_of_part(self.decoder) + flops_per_token(self.softmax_embedding),
        )


class AttentiveDecoder(Decoder, abc.ABC):
    """Base of recurrent decoders with one attention layer, which has one head."""

    attention: RecurrentAttention

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        # TensorFlow's XLA cannot differentiate a loop with attention inside.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    @abc.abstractmethod
    def _start(self, memory: Encoded, beams: int) -> tuple[SourceMemory, Any]:
        """Returns what to attend to, and the state before the first step, [B, K, D]."""

    def start(self, memory: Encoded, beams: int, length: int) -> DecodeState:
        """See `Decoder.start`."""
        return DecodeState(*self._start(memory, beams))


class AttentiveSeq2Seq(RecurrentSeq2Seq):
    """Base of models with an `AttentiveDecoder`."""

    decoder: AttentiveDecoder

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the attention to the source; see `Seq2Seq.hook_attention`."""
        attention = self.decoder.attention
        attention.attention_hook = lambda weights: hook(weights[:, 0])
        try:
            yield
        finally:
            attention.attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[AttentionLayer]]:
        """Returns the only attention layer."""
        return {"encoder_decoder": [self.decoder.attention]}

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        flops, attention = super().forward_flops(), self.decoder.attention
        return dataclasses.replace(
            flops,
            source=flops.source + sum(map(flops_per_token, attention.key_layers())),
            target=flops.target
            - flops_per_token(attention)
            + sum(map(flops_per_token, attention.query_layers())),
            target_source=attention.flops_per_pair(),
        )


def scan_steps(step: Callable[..., _States], start: _States, *known: keras.KerasTensor) -> _States:
    """Takes the steps of a search with one beam and known tokens, for training.

    Args:
        step: maps the state before a position, and all that is known of the position, each
            [B, 1, F], to the state after it.
        start: the state before the first position, [B, 1, D].
        *known: [B, T, F]: products with embeddings, which need no loop, and dropout masks, which
            are drawn before the loop, because a compiled loop would not advance the seeds.

    Returns:
        The states after all positions, [B, T, D].
    """
    sizes = [part.shape[-1] for part in known]

    def take(before: _States, now: keras.KerasTensor) -> tuple[_States, _States]:
        after = step(before, *(split(now, sizes) if known[1:] else [now]))
        return after, after

    # Packed: `scan` takes only one tensor of unknown length.
    packed = ops.swapaxes(ops.concatenate(known, axis=-1), 0, 1)[:, :, None]  # [T, B, 1, F]
    _, states = ops.scan(take, start, packed)
    return keras.tree.map_structure(lambda part: ops.swapaxes(part[:, :, 0], 0, 1), states)


def repeat_states(states: _States, beams: int) -> _States:
    """Gives each of K beams a copy of all states: [B, D] -> [B, K, D]."""
    return keras.tree.map_structure(lambda part: ops.stack([part] * beams, axis=1), states)
