"""How many floating-point operations a model takes.

A multiplication and an addition are two operations. Counted are the matrix products of the model,
and for tokens alone, not for padding: what the task asks for, not what a program spends on it.
Hence neither recomputed activations nor the optimizer count.
"""

import dataclasses
import math

import keras
from keras import ops

# Backward, every product becomes two: by its weights, and by its input (Kaplan et al. 2020,
# "Scaling Laws for Neural Language Models", section 2.1).
_PRODUCTS_OF_TRAINING = 3


@dataclasses.dataclass(frozen=True)
class ForwardFlops:
    """The operations of a forward pass, which are linear in five numbers.

    With s and t tokens in source and target of a sentence, EOS counted, the pass takes
    `source · s + target · t + source_source · s² + target_source · t · s + target_target · t²`.

    A dense layer with a kernel [n, m] does 2nm operations for each token that it sees, the softmax
    matrix [V, D] 2VD for each target token; attention (paper, equation 1) does 2 d_k + 2 d_v for
    each head and each pair of a query and a key. Pairs in the future are counted, as usual: most
    programs compute and then hide them. Looking up embeddings is no product.
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

    The tables of distances are not among them: they are multiplied for each pair.
    """
    return 2.0 * sum(
        math.prod(weight.shape)
        for weight in layer.trainable_weights
        if len(weight.shape) == 2 and not weight.name.startswith("relative_")
    )
