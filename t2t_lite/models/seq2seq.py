"""The seam between models and everything else: training, search, scoring, export.

A model is a plain `keras.Model`. For training it maps whole sequences to logits; for search it
takes one step of all hypotheses at a time. Search knows only this protocol.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.base import default_policy
from t2t_lite.layers.embedding import Embedding

# The hparam `dtype`, and Keras's policy for it: variables are float32 throughout.
_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}

# {"inputs": [B, S], "targets": [B, T]}, integer ids, 0 at padding.
Features = dict[str, keras.KerasTensor]

# Is shown attention weights.
Watch = Callable[[keras.KerasTensor], None]

_Result = TypeVar("_Result")


class Attentive(Protocol):
    """A layer that attends."""

    watch: Watch | None  # where it is set, it is shown the weights [B, H, Q, N] of every call


class DecodeState(NamedTuple):
    """What a model remembers between steps: nests (dicts, lists, tuples) of tensors."""

    sentence: Any  # leading dimension B; the same for all beams, never copied for them
    hypothesis: Any  # leading dimensions [B, K]; what a reorder of the beams gathers
    weights: Any = ()  # the same for all sentences: what all steps need of the model's weights


class Seq2Seq(keras.Model, abc.ABC):
    """Base of all models.

    A subclass makes its layers inside `default_policy(self.dtype_policy)`.

    Args:
        hparams: the hyperparameters, of the class's `hparams_class`.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.

    Raises:
        UsageError: an hparam has a value that no model knows.
    """

    hparams_class: ClassVar[type[BasicHParams]] = BasicHParams

    def __init__(
        self,
        hparams: BasicHParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        **kwargs: Any,
    ) -> None:
        _require(hparams, "dtype", *_POLICIES)
        super().__init__(dtype=_POLICIES[hparams.dtype], autocast=False, **kwargs)
        self.hparams = hparams.copy().freeze()
        self.inputs_vocab_size = inputs_vocab_size
        self.targets_vocab_size = targets_vocab_size
        # The only source of randomness; the trainer sets its state from (seed, step, replica).
        self.seeds = keras.random.SeedGenerator(seed=0, name="seeds")
        _require(hparams, "initializer", "uniform_unit_scaling")
        _require(hparams, "multiply_embedding_mode", "sqrt_depth", "none")
        with default_policy(self.dtype_policy):
            self._make_embeddings()
        self.built = True  # every layer makes its variables when it is constructed

    def _make_embeddings(self) -> None:
        """One, two or three matrices; vocabularies of unlike size cannot share one, as in T2T."""
        h = self.hparams
        scaled = h.multiply_embedding_mode == "sqrt_depth"
        same = self.inputs_vocab_size == self.targets_vocab_size
        share_softmax = h.shared_embedding_and_softmax_weights and same
        self.targets_embedding = Embedding(self.targets_vocab_size, h.hidden_size, scaled)
        self.inputs_embedding = (
            self.targets_embedding
            if share_softmax or (h.shared_embedding and same)
            else Embedding(self.inputs_vocab_size, h.hidden_size, scaled)
        )
        self.softmax_embedding = (
            self.targets_embedding
            if share_softmax
            else Embedding(self.targets_vocab_size, h.hidden_size, scaled)
        )

    # ---- training

    def call(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns logits [B, T, V]; those at position t depend on targets before t alone."""
        return self.project(self.hidden(features, training=training))

    @abc.abstractmethod
    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D], before the softmax matrix.

        The targets stand in `features` as they are: shifting them right is the model's business.
        """

    def project(
        self, hidden: keras.KerasTensor, kernel: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V]; `kernel`: see `softmax_kernel`."""
        return ops.matmul(hidden, self.softmax_kernel() if kernel is None else kernel)

    def softmax_kernel(self) -> keras.KerasTensor:
        """Returns the weights [D, V] that `project` multiplies by.

        Steps of a search take them from here once: they lie transposed in the embedding, and
        turning 32,000 rows around takes longer than one step's product with them.
        """
        return self.softmax_embedding.transposed()

    @property
    def project_variables(self) -> list[keras.Variable]:
        """The variables that `project` reads."""
        return [self.softmax_embedding.matrix]

    def watching(self, watch: Watch) -> AbstractContextManager[None]:
        """Shows `watch` the attention to the source [B, N, S] in each call, while it is open.

        N is T in a call of the model and K in a decoding step. If a model attends more than once,
        it shows the mean over the heads of its last layer.

        Raises:
            UsageError: the model knows no attention.
        """
        raise UsageError(f"{type(self).__name__} has no attention to the source to look at")

    def attention_layers(self) -> Mapping[str, Sequence[Attentive]]:
        """Returns the layers that attend, in their order, by what they attend to.

        The kinds are `encoder` and `decoder` for self-attention and `encoder_decoder` for attention
        to the source; a model has those that it knows.
        """
        return {}

    # ---- search

    @abc.abstractmethod
    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S] and makes room for `length` steps of `beams` hypotheses."""

    @abc.abstractmethod
    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Makes room for `length` steps in all, keeping what is there."""

    @abc.abstractmethod
    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis.

        Args:
            ids: [B, K], the tokens before this step; ignored at step 0, where the decoder starts
                from a zero vector.
            step: position of the token to predict, a scalar counted from 0.
            state: as `start_decoding` or the step before returned it.

        Returns:
            Logits [B, K, V] and the new state.
        """

    def _embed_step(self, ids: keras.KerasTensor, step: keras.KerasTensor) -> keras.KerasTensor:
        """Embeds `ids` [B, K] as the inputs [B, K, D] of a decoding step; zero at step 0."""
        return self.targets_embedding(ops.where(ops.equal(step, 0), ops.zeros_like(ids), ids))

    # ---- Keras

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs; the hparams are part of it."""
        return {
            "hparams": self.hparams.to_dict(),
            "inputs_vocab_size": self.inputs_vocab_size,
            "targets_vocab_size": self.targets_vocab_size,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Builds the model from `get_config`'s result."""
        return cls(**{**config, "hparams": cls.hparams_class.from_dict(config["hparams"])})


class Watchable(Protocol):
    """What shows its attention."""

    def watching(self, watch: Watch) -> AbstractContextManager[None]:
        """See `Seq2Seq.watching`."""


def with_attention(
    model: Watchable, compute: Callable[[], _Result]
) -> tuple[_Result, keras.KerasTensor]:
    """Returns what `compute` returns, and how `model` attended to the source in it, [B, N, S].

    Where several models were at work, as in an ensemble, it is the mean of their attention.
    """
    seen: list[keras.KerasTensor] = []
    with model.watching(seen.append):
        result = compute()
    return result, ops.mean(ops.stack(seen), axis=0)


def _require(hparams: BasicHParams, name: str, *choices: str) -> None:
    if getattr(hparams, name) not in choices:
        expected = " or ".join(choices)
        raise UsageError(f"hparam {name}={getattr(hparams, name)!r}: expected {expected}")


def shift_right(embedded: keras.KerasTensor) -> keras.KerasTensor:
    """Delays targets [B, T, D] by one position; the first sees a zero vector (T2T's start)."""
    return ops.pad(embedded, [[0, 0], [1, 0], [0, 0]])[:, :-1]
