"""An encoder or a decoder as a model of its own."""

from typing import Any, ClassVar

import keras

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.base import default_policy
from t2t_lite.layers.embedding import Embedding
from t2t_lite.models.hparams_model import HParamsModel, make_embedding


class ModelPart(HParamsModel):
    """Base of encoders and decoders, which have one embedding and some of a model's layers.

    Args:
        hparams: of the class's `hparams_class`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: the model whose layers it shares; by default it makes its own.
        **kwargs: hparams to change, and `name` and `trainable` for Keras.
    """

    shared_names: ClassVar[tuple[str, ...]]  # attributes of the whole model, the embedding first

    def __init__(
        self,
        hparams: BasicHParams | str,
        embedding: int | Embedding,
        *,
        layers_of: HParamsModel | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, seeds=None if layers_of is None else layers_of.seeds, **kwargs)
        if layers_of is None:
            with default_policy(self.dtype_policy):
                if isinstance(embedding, int):
                    embedding = make_embedding(self.hparams, embedding)
                setattr(self, self.shared_names[0], embedding)
                self._make_layers()
        else:
            for name in self.shared_names:
                setattr(self, name, getattr(layers_of, name))
        self.built = True  # every layer makes its variables when it is constructed

    def _make_layers(self) -> None:
        """Makes all of `shared_names` but the embedding."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs; the embedding is part of it, as it may be shared."""
        embedding = getattr(self, self.shared_names[0])
        serialized = keras.saving.serialize_keras_object(embedding)
        # By this key Keras makes one layer again of those that encoder and decoder share. It sets
        # it itself, but loses it where the second part of a model comes after the first.
        serialized["shared_object_id"] = id(embedding)
        return {**super().get_config(), "embedding": serialized}


class Encoder(ModelPart):
    """Base of encoders: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0)."""

    def compute_mask(
        self, inputs: keras.KerasTensor, previous_mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Returns which of `inputs` [B, S] are not padding."""
        return keras.ops.not_equal(inputs, 0)
