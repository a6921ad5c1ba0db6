"""Attention weights of every layer and head for one pair of sentences."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import Seq2Seq


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
