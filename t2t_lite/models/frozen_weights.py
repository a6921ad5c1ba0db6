"""The hparam `frozen`: the parts of a model whose weights do not change in training."""

import math
from typing import Any, Protocol

import keras

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import PARTS, BasicHParams
from t2t_lite.layers.dense import Embedding


class ModelWithParts(Protocol):
    """What `parts_of` needs of a model."""

    hparams: BasicHParams
    inputs_embedding: Embedding
    targets_embedding: Embedding
    encoder: Any  # a layer, or None
    decoder: Any

    @property
    def weights(self) -> list[keras.Variable]:
        """All weights."""


def parts_of(model: ModelWithParts) -> dict[str, list[keras.Variable]]:
    """Returns the weights of each part that `frozen` can name; each weight is in one part.

    A matrix that embeds belongs to `embeddings`, even if encoder, decoder and softmax share it.
    """
    layers = {
        "embeddings": (model.inputs_embedding, model.targets_embedding),
        "encoder": (model.encoder,),
        "decoder": (model.decoder,),
    }
    part_of = {
        id(weight): part
        for part, owners in reversed(layers.items())  # of several parts, the first one has it
        for owner in owners
        if owner is not None
        for weight in owner.weights
    }
    parts: dict[str, list[keras.Variable]] = {part: [] for part in PARTS}
    for weight in model.weights:
        parts[part_of.get(id(weight), "output")].append(weight)
    return parts


def freeze(model: ModelWithParts) -> None:
    """Freezes the parts that the model's hparams name, as `weight.trainable` says it in Keras.

    Raises:
        UsageError: the model has no weights of such a part, or nothing remains to be learned.
    """
    frozen = model.hparams.frozen
    parts = parts_of(model)
    for part in model.hparams.frozen_parts:
        if not parts[part]:
            others = ", ".join(name for name, weights in parts.items() if weights)
            raise UsageError(
                f"hparam frozen={frozen}: this {type(model).__name__} has no weights of the part "
                f"{part!r}; it has {others}"
            )
        for weight in parts[part]:
            weight.trainable = False
    if frozen and not any(weight.trainable for weight in model.weights):
        raise UsageError(
            f"hparam frozen={frozen}: no weight of this {type(model).__name__} is left to learn; "
            "freeze fewer parts"
        )


def frozen_summary(model: ModelWithParts) -> str:
    """Returns how many parameters of which parts are trained, and how many are frozen; one line.

    Empty if the model's hparams freeze nothing.
    """
    if not model.hparams.frozen:
        return ""
    sizes: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for part, weights in parts_of(model).items():
        if size := sum(math.prod(weight.shape) for weight in weights):
            sizes[part not in model.hparams.frozen_parts][part] = size
    trained, frozen = (
        f"{sum(by_part.values()):,} parameters ("
        + ", ".join(f"{part} {size:,}" for part, size in by_part.items())
        + ")"
        for by_part in (sizes[True], sizes[False])
    )
    return f"trained: {trained}; frozen: {frozen}"
