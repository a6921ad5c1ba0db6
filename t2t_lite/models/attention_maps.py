"""Attention weights: those to the source in any computation, and all of a pair of sentences."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import keras
import numpy as np
from keras import ops

from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import Seq2Seq

_Result = TypeVar("_Result")


class SupportsAttention(Protocol):
    """A model or an ensemble whose attention can be hooked."""

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """See `Seq2Seq.hook_attention`."""


def with_attention(
    model: SupportsAttention, compute: Callable[[], _Result]
) -> tuple[_Result, keras.KerasTensor]:
    """Returns the result of `compute` and the attention of `model` to the source, [B, N, S].

    For an ensemble this is the mean over its models.
    """
    seen: list[keras.KerasTensor] = []
    with model.hook_attention(seen.append):
        result = compute()
    return result, ops.mean(ops.stack(seen), axis=0)


def attention_maps(
    model: Seq2Seq, inputs: Sequence[int], targets: Sequence[int]
) -> dict[str, list[np.ndarray]]:
    """Returns a model's attention weights under teacher forcing.

    Args:
        model: any model.
        inputs: S ids of the source.
        targets: T ids of the target.

    Returns:
        For each kind of `Seq2Seq.attention_layers`, a float32 array [H, Q, N] per layer: encoder
        [H, S, S], decoder [H, T, T], encoder_decoder [H, T, S]. Position t of the decoder's
        self-attention is the token before t; position 0 is the zero vector at the start.
    """
    layers = model.attention_layers()
    seen: dict[str, list[np.ndarray]] = {kind: [] for kind in layers}
    for kind, group in layers.items():
        for layer in group:
            layer.attention_hook = _collector(seen[kind])
    try:
        features = {"inputs": inputs, "targets": targets}
        model.hidden({name: ops.array([ids], "int32") for name, ids in features.items()})
    finally:
        for group in layers.values():
            for layer in group:
                layer.attention_hook = None
    return seen


def _collector(found: list[np.ndarray]) -> AttentionHook:
    """Returns a hook that appends the weights [1, H, Q, N] that it receives."""

    def hook(weights: keras.KerasTensor) -> None:
        found.append(ops.convert_to_numpy(ops.cast(weights[0], "float32")))

    return hook
