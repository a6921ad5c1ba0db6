"""The interface between models and everything else: training, search, scoring, export.

A model is a plain `keras.Model`. For training it maps whole sequences to logits; for search it
takes one step of all hypotheses at a time. Search uses only this protocol.
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

import keras
from keras import ops

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.base import default_policy, flattened
from t2t_lite.layers.dense import Embedding, OutputProjection, OutputRows, drop_symbols
from t2t_lite.layers.transformer_layers import Position
from t2t_lite.models.hparams_model import (
    Decoder,
    Encoder,
    FirstCall,
    HParamsModel,
    is_own,
    make_embedding,
)
from t2t_lite.models.hparams_model import (
    DecodeState as DecodeState,
)

# {"inputs": [B, S], "targets": [B, T]}, integer ids, 0 at padding.
Features = dict[str, keras.KerasTensor]


_SIDES = ("inputs", "targets")


class AttentionLayer(Protocol):
    """A layer whose attention can be hooked."""

    attention_hook: AttentionHook | None  # receives the weights [B, H, Q, N] of every call


class VocabularyRows(NamedTuple):
    """Declares a weight with a row for each id of a vocabulary, as `warm_start` needs to know."""

    role: str  # weights with the same role in two models have the same purpose
    weight: keras.Variable
    side: str  # `inputs` or `targets`, whose vocabulary it is
    axis: int = 0  # that of the rows
    first_id: int = 0  # the id of the first row


class _Embeddings(HParamsModel):
    """The matrices of a model with a row for each id of a vocabulary."""

    inputs_vocab_size: int
    targets_vocab_size: int

    @property
    def has_inputs(self) -> bool:
        """Whether there is a source: language models have none."""
        return self.inputs_vocab_size != 0

    def _make_embeddings(self) -> None:
        """Creates one to three matrices; as in T2T, unequal vocabularies cannot share one."""
        h = self.hparams
        same = not self.has_inputs or self.inputs_vocab_size == self.targets_vocab_size
        share_softmax = same and h.shared_embedding_and_softmax_weights
        self.targets_embedding = make_embedding(h, self.targets_vocab_size)
        self.inputs_embedding = (
            self.targets_embedding
            if not self.has_inputs or share_softmax or (same and h.shared_embedding)
            else make_embedding(h, self.inputs_vocab_size)
        )
        self.softmax_embedding = (
            self.targets_embedding if share_softmax else self._make_softmax_embedding()
        )

    def _make_softmax_embedding(self) -> Embedding:
        """Creates the softmax matrix [V, D], where it is not that of the embeddings."""
        return make_embedding(self.hparams, self.targets_vocab_size)

    def _make_output_projection(self) -> OutputProjection:
        """Creates what maps the decoder's output to logits."""
        return OutputProjection(self.softmax_embedding)

    def vocabulary_rows(self) -> Iterator[VocabularyRows]:
        """Yields the weights with a row for each id of a vocabulary; a shared one several times."""
        yield VocabularyRows("targets_embedding", self.targets_embedding.matrix, "targets")
        if self.has_inputs:
            yield VocabularyRows("inputs_embedding", self.inputs_embedding.matrix, "inputs")
        for weight in self.output_projection.variables:
            yield VocabularyRows(f"output_projection/{weight.name}", weight, "targets")


class _SourceAttention(HParamsModel):
    """What observes the attention of a model to its source; by default, there is none."""

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Calls `hook` with the attention to the source [B, N, S] in each call inside the block.

        N is T in a call of the model and K in a decoding step. A model with several attention
        layers passes the mean over the heads of its last layer, or says what it passes instead.

        Raises:
            UsageError: the model has no attention to the source.
        """
        raise UsageError(f"{type(self).__name__} has no attention to the source")

    def attention_layers(self) -> Mapping[str, Sequence[AttentionLayer]]:
        """Returns the attention layers by kind, from bottom to top.

        The kinds are `encoder` and `decoder` for self-attention and `encoder_decoder` for attention
        to the source; a model returns the kinds that it has.
        """
        return {}


class Seq2Seq(_Embeddings, _SourceAttention, abc.ABC):
    """Base of all models.

    A subclass creates its layers in `make_layers`.

    Args:
        hparams: an object of `hparams_class`, or the name of a registered set.
        inputs_vocab_size: V of the source; 0: there is none, as in a language model.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: the set or hparam is unknown, a value is not supported, the model needs a
            source, or `frozen` leaves nothing to learn.
    """

    # Whether the model works without a source, as a language model.
    can_lack_inputs: ClassVar[bool] = False

    # Whether the model gives each source one label, and nothing else.
    only_labels: ClassVar[bool] = False

    # Whether the model gives each source numbers, and nothing else: see `TransformerRegressor`.
    only_numbers: ClassVar[bool] = False

    # Whether a source is two texts with EOS between them, a source and its translation.
    reads_translations: ClassVar[bool] = False

    # A model that has such parts: Keras models or layers that own their weights.
    encoder: Any = None
    decoder: Any = None

    def __init__(
        self,
        hparams: BasicHParams | str,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, **kwargs)
        if not inputs_vocab_size and not self.can_lack_inputs:
            raise UsageError(
                f"{type(self).__name__} needs a source, and the problem has no inputs: for a "
                "language model use --model=transformer or attention_lm"
            )
        self.inputs_vocab_size = inputs_vocab_size
        self.targets_vocab_size = targets_vocab_size
        with default_policy(self.dtype_policy):
            self._make_embeddings()
            self.output_projection = self._make_output_projection()
            self.make_layers()

    def make_layers(self) -> None:
        """Checks the hparams and creates the other layers, as attributes; by default, none.

        The constructor calls this under the model's dtype policy, when hparams, vocabulary sizes,
        embeddings and `output_projection` are set.
        """

    def complete(self) -> None:
        """Ends the construction: every layer of the model has its weights, before any call."""
        super().complete()
        if not self.built and is_own(type(self).build):  # which has been called
            Seq2Seq.build(self)
            self.built = True
        elif not self.built:
            self.build()
        if self.hparams.frozen:
            registry.variant("frozen")(self)

    def build(self, input_shape: Any = None) -> None:
        """Calls the model once, as in training, for layers that create their weights in a call.

        The call is symbolic: it computes nothing, draws no random numbers but initial weights, and
        serves all sizes.

        Args:
            input_shape: for Keras; ignored.

        Raises:
            UsageError: the call creates weights of a layer in which Keras does not find it.
        """
        if self.built:
            return
        lengths = {"inputs": None if self.takes_inputs else 0, "targets": None}
        features = {
            side: keras.KerasTensor((None, length), "int32") for side, length in lengths.items()
        }
        first_call = FirstCall(self)
        first_call.compute_output_spec(features)
        first_call.require_own_weights()
        for part in reversed(flattened(self)):  # of what is nested, the inner first
            if isinstance(part, HParamsModel) and part is not self:
                part.complete()  # it need not have been called itself: see `Encoder.encode`

    def _input_shapes(self) -> dict[str, tuple[int | None, ...]]:
        sides = _SIDES if self.takes_inputs else ("targets",)
        return dict.fromkeys(sides, (None, None))

    @property
    def takes_inputs(self) -> bool:
        """Whether a call takes sources."""
        return self.has_inputs

    @property
    def has_source_attention(self) -> bool:
        """Whether the model has attention to the source, which `hook_attention` can observe."""
        return self.has_inputs and type(self).hook_attention is not _SourceAttention.hook_attention

    def _require_source(self) -> None:
        """Raises UsageError if a model of a kind that has attention to the source has no source."""
        if not self.has_inputs:
            raise UsageError("a language model has no source to attend to")

    # ---- training

    def call(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns logits [B, T, V]; those at position t depend only on targets before t.

        Raises:
            UsageError: `features` is not a dict, or lacks a side.
        """
        self._require_sides(features)
        hidden = self.hidden(self.with_dropped_symbols(features, training), training=training)
        return self.output_projection(hidden)

    def _require_sides(self, features: Features) -> None:
        sides = _SIDES if self.takes_inputs else ("targets",)
        if not isinstance(features, Mapping) or not {*sides} <= features.keys():
            given = list(features) if isinstance(features, Mapping) else type(features).__name__
            raise UsageError(
                f"{type(self).__name__} was called with {given}: expected "
                '{"inputs": ids [B, S], "targets": ids [B, T]}'
            )

    def input_signature(self) -> list[Any]:
        """Returns the specs of the features that `export` lets its callers pass."""
        sides = _SIDES if self.takes_inputs else ("targets",)
        return [{side: keras.InputSpec(shape=(None, None), dtype="int32") for side in sides}]

    def make_train_function(self, *args: Any, **kwargs: Any) -> Any:
        """Prepares `fit`, as Keras does.

        Raises:
            UsageError: the hparams ask for an objective, such as R-Drop, that `fit` does not know,
                or for alignments, which it does not read.
        """
        h = self.hparams
        if name := h.objective or ("guided_alignment_weight" if h.is_guided else ""):
            what = h.objectives.get(name, "guided alignment")
            raise UsageError(
                f"hparam {name}={getattr(h, name)}: {what} works in t2t-trainer and "
                f"t2t_lite.train, not in fit; for fit, build the model with {name}=0"
            )
        return super().make_train_function(*args, **kwargs)

    @abc.abstractmethod
    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D], before the softmax matrix.

        The targets in `features` are not shifted; the model itself shifts them right. In training
        with the hparam `symbol_dropout` or SimCut, `features` has `DROPPED_ID` where a symbol is
        dropped: `Embedding` maps it to zero, and it is not padding.
        """

    def with_dropped_symbols(self, features: Features, training: bool) -> Features:
        """Returns the features as `hidden` takes them: in training, with `symbol_dropout`."""
        rate = self.hparams.symbol_dropout
        if not training or not rate:
            return features
        dropped = {name: drop_symbols(features[name], rate, self.seeds) for name in _SIDES}
        return {**features, **dropped}

    @property
    def auxiliary_layers(self) -> list[Any]:
        """The layers with losses of their own: `.keras` files have their weights by this name."""
        return [part for part in flattened(self) if hasattr(part, "auxiliary_losses")]

    @property
    def learned_positions(self) -> int:
        """The positions for which the model learns a vector; 0: its positions have no end."""
        parts = flattened(self)
        tables = [p for p in parts if isinstance(p, Position) and p.kind == "emb"]
        return min((table.max_length for table in tables), default=0)

    @property
    def never_output(self) -> tuple[int, ...]:
        """The ids that a search never outputs, though they have probabilities."""
        return ()

    @property
    def other_ends(self) -> tuple[int, ...]:
        """The ids that end an output as EOS does."""
        return ()

    @property
    def can_narrow(self) -> bool:
        """Whether a search may compute the logits of a part of the vocabulary alone: `narrow`."""
        return False

    def forward_flops(self) -> Any:
        """Returns the operations of a forward pass, `ForwardFlops`; None: nothing counts them."""
        return None

    # ---- search

    @abc.abstractmethod
    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; allocates state for `length` steps of `beams` hypotheses."""

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Extends the state to `length` steps in total, keeping its content.

        By default, its size does not depend on the length.
        """
        return state

    @abc.abstractmethod
    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis.

        Args:
            ids: [B, K], the previous tokens; ignored at step 0, where the decoder starts
                (from a zero vector: see `Embedding.step`).
            step: position of the token to predict, a scalar counted from 0.
            state: from `start_decoding` or the previous step.

        Returns:
            Logits [B, K, V] and the new state.
        """

    # ---- Keras

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs, including the hparams."""
        sizes = {
            "inputs_vocab_size": self.inputs_vocab_size,
            "targets_vocab_size": self.targets_vocab_size,
        }
        return {**super().get_config(), **sizes}


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
        self.supports_jit = all(part.supports_jit for part in flattened(self))

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


def shift_right(
    embedded: keras.KerasTensor, start: keras.KerasTensor | None = None
) -> keras.KerasTensor:
    """Delays targets [B, T, D] by one position.

    Args:
        embedded: the targets.
        start: [D], what the first position sees (default: a zero vector, T2T's start).
    """
    if start is None:
        return ops.pad(embedded, [[0, 0], [1, 0], [0, 0]])[:, :-1]
    first = ops.zeros_like(embedded[:, :1]) + start
    return ops.concatenate([first, embedded[:, :-1]], axis=1)
