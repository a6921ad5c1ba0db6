"""Transformers with layers of a user's own, of every kind and in every place."""

from typing import Any

import keras

from t2t_lite.models.transformer import Transformer, TransformerEncoder

SMALL = {
    "num_hidden_layers": 1,
    "hidden_size": 8,
    "filter_size": 12,
    "num_heads": 2,
    "max_length": 32,
}
DRY = dict.fromkeys(("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout"), 0.0)


def a_dense(size: int = 8) -> keras.layers.Dense:
    """Returns a layer that creates its weights when first called, and none of them 0."""
    return keras.layers.Dense(size, kernel_initializer="orthogonal", bias_initializer="normal")


@keras.saving.register_keras_serializable(package="tests")
class Block(keras.layers.Layer):
    """A layer with lists and dicts inside."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.steps = [a_dense(), [a_dense()]]
        self.by_name = {"deep": {"last": a_dense()}}

    def call(self, x: Any) -> Any:
        """Maps [B, T, D] to [B, T, D]."""
        return self.by_name["deep"]["last"](self.steps[1][0](self.steps[0](x)))


@keras.saving.register_keras_serializable(package="tests")
class OwnEncoder(TransformerEncoder):
    """An encoder with a layer on top."""

    def make_layers(self) -> None:
        """Creates it."""
        super().make_layers()
        self.above = (a_dense(),)

    def encode(self, inputs: Any, training: bool = False) -> Any:
        """Applies it."""
        encoded, padding = super().encode(inputs, training)
        return self.above[0](encoded), padding


class InASet(Transformer):
    """A Transformer with a layer for which checkpoints have no name."""

    def make_layers(self) -> None:
        """Creates it."""
        super().make_layers()
        self.hidden_away = {a_dense()}

    def hidden(self, features: Any, training: bool = False) -> Any:
        """Applies it."""
        (layer,) = self.hidden_away
        return layer(super().hidden(features, training=training))


@keras.saving.register_keras_serializable(package="tests")
class WithOwnLayers(Transformer):
    """A Transformer with layers in attributes, a list, a dict, models and a part."""

    encoder_class = OwnEncoder

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ids = keras.Input((None, 8))
        self.functional = keras.Model(ids, a_dense()(keras.layers.LayerNormalization()(ids)))

    def make_layers(self) -> None:
        """Creates all layers but one."""
        super().make_layers()
        self.alone = a_dense()
        self.listed = [a_dense(), Block()]
        self.by_name = {"first": a_dense()}
        self.sequential = keras.Sequential([a_dense(), a_dense()])

    def hidden(self, features: Any, training: bool = False) -> Any:
        """Applies all layers."""
        x = super().hidden(features, training=training)
        for layer in (self.alone, *self.listed, self.by_name["first"]):
            x = layer(x)
        return self.functional(self.sequential(x))


def with_own_layers(**changes: Any) -> WithOwnLayers:
    """Returns a small model without dropout, whose first call is made when it is."""
    return WithOwnLayers("transformer_base", 13, 13, **{**SMALL, **DRY, **changes})


class OnTop(Transformer):
    """A layer of Keras's on top of the decoder, in `hidden` alone: the steps know nothing of it."""

    def make_layers(self):
        super().make_layers()
        self.extra = a_dense()

    def hidden(self, features, training=False):
        return self.extra(super().hidden(features, training=training))
