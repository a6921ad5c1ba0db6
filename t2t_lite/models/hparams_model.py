"""A Keras model whose sizes and options are hparams."""

from typing import Any, ClassVar, Self

import keras

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.embedding import Embedding

# The hparam `dtype`, and Keras's policy for it: variables are float32 throughout.
_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}
_OF_KERAS = ("name", "trainable")  # arguments of `keras.Model`


class HParamsModel(keras.Model):
    """Base of models and of their encoders and decoders.

    A subclass makes its layers inside `default_policy(self.dtype_policy)`, from `self.hparams`.

    Args:
        hparams: of the class's `hparams_class`, or the name of a registered set.
        seeds: the generator of dropout masks; by default one of its own.
        **kwargs: hparams to change, and `name` and `trainable` for Keras.

    Raises:
        UsageError: there is no such set or hparam, or it has a value that no model knows.
    """

    hparams_class: ClassVar[type[BasicHParams]] = BasicHParams
    hparams: BasicHParams

    def __init__(
        self,
        hparams: BasicHParams | str,
        *,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        for_keras = {name: kwargs.pop(name) for name in _OF_KERAS if name in kwargs}
        resolved = self._resolved(hparams, kwargs)
        require_choice(resolved, "dtype", *_POLICIES)
        require_choice(resolved, "initializer", "uniform_unit_scaling")
        require_choice(resolved, "multiply_embedding_mode", "sqrt_depth", "none")
        super().__init__(dtype=_POLICIES[resolved.dtype], autocast=False, **for_keras)
        self.hparams = resolved.freeze()
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
        return found.change(**changes) if changes else found.copy()

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs; the hparams are part of it."""
        return {"hparams": self.hparams.to_dict(), "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Builds the model from the result of `get_config`."""
        arguments = {
            name: keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
            if name != "hparams"
        }
        return cls(hparams=cls.hparams_class.from_dict(config["hparams"]), **arguments)


def make_embedding(hparams: BasicHParams, vocab_size: int) -> Embedding:
    """Makes an embedding matrix [V, D] as the hparams say."""
    scaled = hparams.multiply_embedding_mode == "sqrt_depth"
    return Embedding(vocab_size, hparams.hidden_size, scaled)


def require_choice(hparams: BasicHParams, name: str, *choices: str) -> None:
    """Raises UsageError unless an hparam has one of the values `choices`."""
    if getattr(hparams, name) not in choices:
        expected = " or ".join(choices)
        raise UsageError(f"hparam {name}={getattr(hparams, name)!r}: expected {expected}")
