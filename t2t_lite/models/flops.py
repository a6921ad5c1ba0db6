"""The number of floating-point operations of a model.

A multiplication and an addition are two operations. Only the model's matrix products count, for
tokens but not for padding: what the task needs, not what a program spends on it. So recomputed
activations and the optimizer do not count.
"""

import dataclasses
import math
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import flattened
from t2t_lite.layers.dense import Embedding
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.transformer_layers import Position
from t2t_lite.models.hparams_model import ModelPart

# The backward pass has two products for each one of the forward pass (Kaplan et al. 2020,
# "Scaling Laws for Neural Language Models", section 2.1).
_PRODUCTS_OF_TRAINING = 3


@dataclasses.dataclass(frozen=True)
class ForwardFlops:
    """The operations of a forward pass, a linear function with five coefficients.

    With s and t tokens in source and target of a sentence, EOS counted, the pass takes
    `source · s + target · t + source_source · s² + target_source · t · s + target_target · t²`.

    A dense layer with a kernel [n, m] takes 2nm operations per token, the softmax matrix [V, D] 2VD
    per target token, and attention (paper, equation 1) 2 d_k + 2 d_v per head and pair of a query
    and a key. As usual, pairs in the future count: most programs compute and then hide them.
    Embedding lookups do not count.
    """

    source: float = 0.0
    target: float = 0.0
    source_source: float = 0.0
    target_source: float = 0.0
    target_target: float = 0.0

    def forward(self, features: dict[str, keras.KerasTensor]) -> keras.KerasTensor:
        """Returns the operations of the forward pass.

        Args:
            features: `inputs` [..., S] and `targets` [..., T], 0 for padding.

        Returns:
            A float64 scalar.
        """
        s, t = (
            ops.cast(ops.count_nonzero(features[name], axis=-1), "float64")
            for name in ("inputs", "targets")
        )
        operations = self.source * s + self.target * t
        operations += self.source_source * s * s
        operations += (self.target_source * s + self.target_target * t) * t
        return ops.sum(operations)

    def training(self, features: dict[str, keras.KerasTensor]) -> keras.KerasTensor:
        """Returns the operations of forward and backward pass; see `forward`."""
        return _PRODUCTS_OF_TRAINING * self.forward(features)


def flops_per_token(layer: keras.layers.Layer) -> float:
    """Returns the operations of all kernels and embedding matrices in `layer` for one token.

    Tables of relative distances are left out: they are multiplied once per pair. Of the experts of
    a mixture, only those that a token goes to count.
    """
    matrices = sum(
        math.prod(weight.shape)
        for weight in layer.weights
        if len(weight.shape) == 2 and not weight.name.startswith("relative_")
    )
    mixtures = [part for part in flattened(layer) if isinstance(part, MixtureOfExperts)]
    return 2.0 * matrices + sum(mixture.flops_per_token() for mixture in mixtures)


def flops_of_part(part: ModelPart) -> float:
    """Returns the operations of all layers of an encoder or decoder for one token.

    Looking up a row of a table takes none.
    """
    tables = Embedding | Position
    return sum(flops_per_token(layer) for layer in part.layers if not isinstance(layer, tables))


def of_transformer(model: Any) -> ForwardFlops:
    """Returns the operations of a model whose encoder and decoder are stacks with attention."""
    layers = model.attention_layers()
    own, of_target, of_source = (
        layers.get(kind, ()) for kind in ("encoder", "decoder", "encoder_decoder")
    )
    # The decoder's layers compute keys and values of the source, but per source token.
    memory = sum(flops_per_token(attention.kv) for attention in of_source)
    softmax = flops_per_token(model.softmax_embedding)
    return ForwardFlops(
        source=(flops_per_token(model.encoder.stack) if model.has_inputs else 0.0) + memory,
        target=flops_per_token(model.decoder.stack) - memory + softmax,
        source_source=sum(attention.flops_per_pair() for attention in own),
        target_source=sum(attention.flops_per_pair() for attention in of_source),
        target_target=sum(attention.flops_per_pair() for attention in of_target),
    )
