"""A Keras model whose sizes and options are hparams: a whole model, its encoder or its decoder."""

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import keras
from keras import ops

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.base import (
    FROZEN,
    created_in_scope,
    default_policy,
    flattened,
    freeze_parts,
    frozen_parts,
    is_narrow,
    parts,
    tracked,
)
from t2t_lite.layers.dense import Embedding

# Keras's dtype policy for each value of the hparam `dtype`; variables are float32, except within
# `narrow_matrices`.
_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}


_NOT_OWN = (__name__.partition(".")[0], "keras")

_KERAS_ARGUMENTS = ("name", "trainable")  # passed to `keras.Model`


class _Completed(abc.ABCMeta):
    """Completes a model after all of its constructor, that of a user's subclass included."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        model = super().__call__(*args, **kwargs)
        model.complete()
        return model


class HParamsModel(keras.Model, metaclass=_Completed):
    """Base of models and of their encoders and decoders.

    Args:
        hparams: an object of `hparams_class`, or the name of a registered set.
        seeds: the generator of dropout masks (default: a new one).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: the set or hparam is unknown, or a value is not supported.

    Attributes:
        is_narrow: whether it was constructed within `narrow_matrices`, in a 16-bit dtype.
    """

    hparams_class: ClassVar[type[BasicHParams]] = BasicHParams
    hparams: BasicHParams
    _has_called_build = False

    def __init__(
        self,
        hparams: BasicHParams | str,
        *,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        for_keras = {name: kwargs.pop(name) for name in _KERAS_ARGUMENTS if name in kwargs}
        resolved = self._resolved(hparams, kwargs)
        super().__init__(dtype=_POLICIES[resolved.dtype], autocast=False, **for_keras)
        self.hparams = resolved.freeze()
        self.is_narrow = is_narrow(self.dtype_policy)
        # The only source of randomness; the trainer sets its state from (seed, step, replica).
        self.seeds = keras.random.SeedGenerator(seed=0, name="seeds") if seeds is None else seeds

    @classmethod
    def _resolved(cls, hparams: BasicHParams | str, changes: dict[str, Any]) -> BasicHParams:
        """Returns an unfrozen copy of the hparams, with the changes."""
        found = registry.hparams(hparams) if isinstance(hparams, str) else hparams
        if not isinstance(found, cls.hparams_class):
            raise UsageError(
                f"{cls.__name__} takes {cls.hparams_class.__name__}; "
                + (f"the set {hparams!r} has " if isinstance(hparams, str) else "got ")
                + type(found).__name__
            )
        return found.copy(**changes)

    def complete(self) -> None:
        """Ends the construction, after which the model may have layers without weights.

        The layers of this package create their weights when constructed, Keras's own ones when
        first called. By Keras's rule, a model that has such layers is not built yet, and its first
        call builds it. A user's class may have a `build` of its own, which is called here.
        """
        if is_own(type(self).build) and not self._has_called_build:
            self._has_called_build = True
            self.built = False
            self.build(self._input_shapes())
        self.built = all(part.built for part in flattened(self) if part is not self)

    def _input_shapes(self) -> Any:
        """Returns the shapes of what `call` takes, for `build`."""
        return (None, None)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Traces `call`: Keras would derive the spec from the shapes, and every dtype from one."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def compute_output_shape(self, ids_shape: Any, *others: tuple[int | None, ...]) -> Any:
        """Returns the shape of the output.

        Args:
            ids_shape: of ids, [B, N], or of each in a dict.
            *others: of the further tensors that `call` takes, such as an encoder's output.
        """
        dtypes = ["int32", *[self.compute_dtype] * len(others)]
        tensors = [
            keras.tree.map_shape_structure(functools.partial(keras.KerasTensor, dtype=dtype), shape)
            for shape, dtype in zip((ids_shape, *others), dtypes, strict=True)
        ]
        return keras.tree.map_structure(lambda x: x.shape, self.compute_output_spec(*tensors))

    def input_signature(self) -> list[Any]:
        """Returns the specs of the arguments that `export` lets its callers pass."""
        return [keras.InputSpec(shape=(None, None), dtype="int32")]

    def export(self, *args: Any, input_signature: list[Any] | None = None, **kwargs: Any) -> None:
        """Exports as Keras does; by default for any number of ids."""
        signature = self.input_signature() if input_signature is None else input_signature
        super().export(*args, input_signature=signature, **kwargs)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Returns what TensorFlow's checkpoints contain, layers in lists and dicts included.

        Raises:
            UsageError: a weight has no name of its own, as those of layers in a set.
        """
        children = super()._trackable_children(save_type, **kwargs)
        if save_type != "checkpoint":
            return children
        reached = tracked(children.values())
        left_out = {id(w): w for w in self.weights if id(w) not in reached}
        if left_out:  # so that the names of all others stay those of attributes
            children = {**children}
            for path, weight, _ in parts(self):
                if id(weight) in left_out and path not in children:  # keys 1 and "1" are alike
                    children[path] = left_out.pop(id(weight))
        if left_out:
            lost = ", ".join(weight.path for weight in left_out.values())
            raise UsageError(
                f"{type(self).__name__}: a checkpoint has no name for {lost}: keep the layer in an "
                "attribute, or in a list or dict that is one, under a key of its own (not 1 beside "
                "'1')"
            )
        return children

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs, including the hparams and which parts are frozen."""
        names = self.hparams_class.names()  # not a set's further fields
        hparams = {name: getattr(self.hparams, name) for name in names}
        config = {"hparams": hparams, "name": self.name, **frozen_parts(self)}
        return config if self.trainable else {**config, "trainable": False}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Builds the model from the result of `get_config`."""
        arguments = {
            name: keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
            if name not in ("hparams", "trainable", FROZEN)
        }
        model = cls(hparams=cls.hparams_class.from_dict(config["hparams"]), **arguments)
        trainable, frozen = config.get("trainable", True), config.get(FROZEN, ())
        if frozen or not trainable or model.hparams.frozen:  # which may have been undone
            freeze_parts(model, trainable, frozen)
        return model


def make_embedding(
    hparams: BasicHParams, vocab_size: int, channels: int | None = None
) -> Embedding:
    """Creates an embedding matrix [V, D] according to the hparams; D is `channels` if given."""
    scaled = hparams.multiply_embedding_mode == "sqrt_depth"
    channels = channels or hparams.hidden_size
    return Embedding(vocab_size, channels, scaled, hparams.embedding_stddev)


def is_own(one: object) -> bool:
    """Whether a class or a method is a user's: neither this package's nor Keras's."""
    return str(getattr(one, "__module__", "")).partition(".")[0] not in _NOT_OWN


class FirstCall(keras.Operation):
    """The first call of a model in training, traced without computing anything.

    Args:
        model: the model, whose layers may create their weights in the call.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name=model.name)
        self._model = model
        self._created: list[keras.Variable] = []

    def call(self, features: Any) -> Any:
        """Calls the model, and notes what it creates."""
        before = len(created_in_scope())  # by what the model is part of
        outputs = self._model.call(features, training=True)
        self._created = created_in_scope()[before:]
        return outputs

    def require_own_weights(self) -> None:
        """Raises UsageError if the call has created weights that the model does not have."""
        own = {id(variable) for variable in self._model.variables}
        require_own(self._model, [one.path for one in self._created if id(one) not in own])


def require_own(model: keras.Model, foreign: Sequence[str]) -> None:
    """Raises UsageError if there are variables that the model uses and does not have.

    Args:
        model: the model.
        foreign: the names of such variables.
    """
    if foreign:
        raise UsageError(
            f"{type(model).__name__}: the loss depends on {', '.join(foreign)}, which the model "
            "does not have, so that nothing trains or restores it: keep the layer in an attribute "
            "of the model, or in a list or dict that is one, and make weights with add_weight, not "
            "tf.Variable"
        )


class DecodeState(NamedTuple):
    """The state of a model between steps: nested dicts, lists and tuples of tensors."""

    sentence: Any  # leading dimension B; shared by all beams, never copied
    hypothesis: Any  # leading dimensions [B, K]; gathered when beams are reordered
    weights: Any = ()  # shared by all sentences: weights in the form that every step needs


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
