"""An encoder or a decoder as a separate model."""

import abc
import numbers
from typing import Any, ClassVar

import keras

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.base import default_policy
from t2t_lite.layers.embedding import Embedding
from t2t_lite.models.hparams_model import HParamsModel, make_embedding


class ModelPart(HParamsModel, abc.ABC):
    """Base of encoders and decoders: one embedding and some of a model's layers.

    Args:
        hparams: an object of `hparams_class`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: the model whose layers it shares (default: new layers).
        has_inputs: whether there is a source; the decoder of a language model has none.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    shared_names: ClassVar[tuple[str, ...]]  # attributes of the whole model, the embedding first

    def __init__(
        self,
        hparams: BasicHParams | str,
        embedding: int | Embedding,
        *,
        layers_of: HParamsModel | None = None,
        has_inputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, seeds=None if layers_of is None else layers_of.seeds, **kwargs)
        if not (has_inputs if layers_of is None else layers_of.has_inputs):
            self.inputs_vocab_size = 0
        if layers_of is None:
            with default_policy(self.dtype_policy):
                if isinstance(embedding, numbers.Integral):
                    embedding = make_embedding(self.hparams, int(embedding))
                setattr(self, self.shared_names[0], embedding)
                self.add_layers(self)
        else:
            for name in self.shared_names:
                setattr(self, name, getattr(layers_of, name))
        self.built = True  # layers create their variables when constructed

    @classmethod
    @abc.abstractmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """Creates the layers in `shared_names`, except the embedding, as attributes of `owner`.

        Args:
            owner: a part of this class, or the whole model, which then shares them with the part.
        """

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs, including the embedding, which may be shared."""
        embedding = getattr(self, self.shared_names[0])
        serialized = keras.saving.serialize_keras_object(embedding)
        # Keras restores a layer that encoder and decoder share by this key. Keras sets it, but
        # loses it when the second part of a model is saved after the first.
        serialized["shared_object_id"] = id(embedding)
        return {**super().get_config(), "embedding": serialized, "has_inputs": self.has_inputs}


class Encoder(ModelPart):
    """Base of encoders: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0)."""

    def compute_mask(
        self, inputs: keras.KerasTensor, previous_mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Returns which of `inputs` [B, S] are not padding."""
        return keras.ops.not_equal(inputs, 0)
