"""Models of an encoder and a decoder, each of which is a Keras model that owns its layers."""

import abc
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers import _private_api
from t2t_lite.layers.base import default_policy
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.position import Position
from t2t_lite.models.flops import flops_per_token
from t2t_lite.models.hparams_model import HParamsModel, make_embedding
from t2t_lite.models.output_projection import OutputRows
from t2t_lite.models.seq2seq import DecodeState, Features, Seq2Seq


class ModelPart(HParamsModel, abc.ABC):
    """Base of encoders and decoders: an embedding and layers.

    Args:
        hparams: an object of `hparams_class`, or the name of a registered set.
        embedding: V, or a layer to share.
        seeds: the whole model's generator of dropout masks (default: a new one).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    embedding: Embedding

    def __init__(
        self,
        hparams: BasicHParams | str,
        embedding: int | Embedding,
        *,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, seeds=seeds, **kwargs)
        with default_policy(self.dtype_policy):
            if not isinstance(embedding, Embedding):
                embedding = make_embedding(self.hparams, int(embedding))
            self.embedding = embedding
            self.make_layers()

    @abc.abstractmethod
    def make_layers(self) -> None:
        """Checks the hparams and creates the layers, as attributes; `embedding` exists."""

    def flops_per_token(self) -> float:
        """Returns the operations of all layers for one token; looking up a row takes none."""
        tables = Embedding | Position
        return sum(flops_per_token(part) for part in self.layers if not isinstance(part, tables))

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs, including the embedding, which may be shared."""
        serialized = keras.saving.serialize_keras_object(self.embedding)
        # Keras restores a layer that encoder and decoder share by this key. Keras sets it, but
        # loses it when the second part of a model is saved after the first.
        serialized["shared_object_id"] = id(self.embedding)
        return {**super().get_config(), "embedding": serialized}


class Encoder(ModelPart):
    """Base of encoders: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0)."""

    @abc.abstractmethod
    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Any:
        """Encodes `inputs` [B, S]; returns what the decoder reads.

        Its first item is what a call returns, unless the encoder's `call` says otherwise.
        """

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D]."""
        return self.encode(inputs, training)[0]

    def compute_mask(
        self, inputs: keras.KerasTensor, previous_mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Returns which of `inputs` [B, S] are not padding."""
        return ops.not_equal(inputs, 0)


class Decoder(ModelPart):
    """Base of decoders: ids [B, T] and what the encoder's `encode` returns -> [B, T, D].

    Position t depends only on targets before t; the decoder shifts them right.
    """

    @abc.abstractmethod
    def call(
        self, targets: keras.KerasTensor, memory: Any, training: bool = False
    ) -> keras.KerasTensor:
        """Maps `targets` [B, T] to [B, T, D], given `memory`, the result of `encode`."""

    def require_known(self, id_: int, name: str) -> None:
        """Raises UsageError if the value of the hparam `name` is not an id of the targets."""
        if id_ >= self.embedding.vocab_size:
            raise UsageError(
                f"hparam {name}={id_}: expected an id of the target vocabulary, which has "
                f"{self.embedding.vocab_size}"
            )

    @abc.abstractmethod
    def start(self, memory: Any, beams: int, length: int) -> DecodeState:
        """Allocates state for `length` steps of `beams` hypotheses; see `Seq2Seq`."""

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Extends the state to `length` steps; by default, its size does not depend on them."""
        return state

    @abc.abstractmethod
    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes a step as `Seq2Seq.decode_step`; returns [B, K, D] and the new state."""


class EncoderDecoder(Seq2Seq):
    """Base of models of an encoder, a decoder and an output projection, which own the layers.

    Attributes:
        encoder: maps ids [B, S] to [B, S, D]; None in a language model.
        decoder: maps ids [B, T] and the result of `encode` to [B, T, D].
    """

    encoder_class: ClassVar[type[Encoder]]
    decoder_class: ClassVar[type[Decoder]]

    def make_layers(self) -> None:
        """Creates encoder and decoder."""
        h, seeds = self.hparams, self.seeds
        if self.has_inputs:
            self.encoder = self.encoder_class(
                h, self.inputs_embedding, seeds=seeds, name=f"{self.name}_encoder"
            )
        self.decoder = self.decoder_class(
            h,
            self.targets_embedding,
            seeds=seeds,
            name=f"{self.name}_decoder",
            **self._decoder_arguments(),
        )
        self.supports_jit = all(part.supports_jit for part in _private_api.flattened(self))

    def _decoder_arguments(self) -> dict[str, Any]:
        """Returns further arguments of `decoder_class`."""
        return {}

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Any:
        """Encodes `inputs` [B, S]; returns what the decoder reads."""
        return self.encoder.encode(inputs, training)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]; see `Seq2Seq.hidden`."""
        memory = self.encode(features["inputs"], training)
        return self.decoder(features["targets"], memory, training=training)

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; see `Seq2Seq.start_decoding`."""
        state = self.decoder.start(self.encode(inputs), beams, length)
        return state._replace(weights=(state.weights, self.output_projection.kernel()))

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Extends the state to `length` steps in total; see `Seq2Seq.grow`."""
        return self.decoder.grow(state, length)

    @property
    def can_narrow(self) -> bool:
        """See `Seq2Seq.can_narrow`."""
        return self.takes_inputs

    def narrow(self, state: DecodeState, ids: keras.KerasTensor) -> DecodeState:
        """Narrows the vocabulary of the targets to `ids` [U], of which the first is padding.

        From then on, `decode_step` takes and predicts places in them in place of ids.
        """
        of_decoder, _ = state.weights
        return state._replace(weights=(of_decoder, self.output_projection.rows(ids)))

    def decode_step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        of_decoder, kernel = state.weights
        if isinstance(kernel, OutputRows):
            ids = ops.take(kernel.ids, ids)
        hidden, after = self.decoder.step(ids, step, state._replace(weights=of_decoder))
        return self.output_projection(hidden, kernel), after._replace(weights=state.weights)
