"""The losses of a model's layers in addition to that of the tokens: layers/auxiliary_losses.py."""

from collections.abc import Sequence

import keras

from t2t_lite.layers.auxiliary_losses import Statistics, collected_statistics
from t2t_lite.models.seq2seq import Features, Seq2Seq


def hidden_and_statistics(
    model: Seq2Seq, features: Features, training: bool = False
) -> tuple[keras.KerasTensor, list[Statistics]]:
    """Returns `hidden` of a model, [B, T, D], and the sums over real tokens of its layers.

    Args:
        model: any model.
        features: `inputs` [B, S] and `targets` [B, T].
        training: whether dropout is on.

    Returns:
        The features, and the sums for each of `auxiliary_layers`, in their order.
    """
    features = model.with_dropped_symbols(features, training)
    with collected_statistics() as collected:
        hidden = model.hidden(features, training=training)
    layers = model.auxiliary_layers
    return hidden, [collected.get(layer) or layer.no_statistics() for layer in layers]


def auxiliary_losses(model: Seq2Seq, sums: Sequence[Statistics]) -> dict[str, keras.KerasTensor]:
    """Returns the weighted losses of a batch by name.

    Args:
        model: any model.
        sums: those of `hidden_and_statistics`, over all parts of the batch.

    Returns:
        float32 scalars, to be added to the mean loss of a token.
    """
    losses: dict[str, keras.KerasTensor] = {}
    for layer, own in zip(model.auxiliary_layers, sums, strict=True):
        for name, loss in layer.auxiliary_losses(own).items():
            losses[name] = losses[name] + loss if name in losses else loss
    return losses
