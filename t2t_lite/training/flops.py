"""How many floating-point operations training takes, and how many the hardware can do.

A multiplication and an addition are two operations. Counted are the matrix products of the model,
and for tokens alone, not for padding: what the task asks for, not what a program spends on it.
Hence neither recomputed activations nor the optimizer count.
"""

import dataclasses
import math
import time
from typing import Self

import keras
import tensorflow as tf

from t2t_lite.layers.attention import EncoderDecoderAttention, SelfAttention
from t2t_lite.layers.relative_attention import RelativeSelfAttention
from t2t_lite.models.lstm import AdditiveAttention, LSTMSeq2SeqAttention
from t2t_lite.models.seq2seq import Features, Seq2Seq
from t2t_lite.models.transformer import Transformer

# Backward, every product becomes two: by its weights, and by its input (Kaplan et al. 2020,
# "Scaling Laws for Neural Language Models", section 2.1).
_PRODUCTS_OF_TRAINING = 3
_MOST_ROWS = 2048  # of the products that are measured: more do not make them faster
_LEAST_SECONDS = 0.1  # of a measurement


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

    source: float
    target: float
    source_source: float
    target_source: float
    target_target: float

    @classmethod
    def of(cls, model: Seq2Seq) -> Self:
        """Counts the products of `model`; zeros for a model of unknown structure."""
        if isinstance(model, Transformer):
            return cls._of_transformer(model)
        if isinstance(model, LSTMSeq2SeqAttention):
            return cls._of_lstm(model)
        return cls(0.0, 0.0, 0.0, 0.0, 0.0)

    @classmethod
    def _of_transformer(cls, model: Transformer) -> Self:
        # Keys and values of the source belong to the decoder, but are made of source tokens.
        memory = sum(_dense(layer.source_attention.kv) for layer in model.decoder_layers)
        return cls(
            source=_dense(model.encoder_layers) + memory,
            target=_dense(model.decoder_layers) - memory + _dense(model.softmax_embedding),
            source_source=sum(_pair(layer.attention) for layer in model.encoder_layers),
            target_source=sum(_pair(layer.source_attention) for layer in model.decoder_layers),
            target_target=sum(_pair(layer.attention) for layer in model.decoder_layers),
        )

    @classmethod
    def _of_lstm(cls, model: LSTMSeq2SeqAttention) -> Self:
        attention, size = model.attention, model.hparams.hidden_size
        query = _dense(attention.query) if isinstance(attention, AdditiveAttention) else 0.0
        step = _dense(model.decoder_cells) + query + _dense(attention.join)
        return cls(
            source=_dense(model.encoder_layers) + _dense(attention.key),
            target=step + _dense(model.softmax_embedding),
            source_source=0.0,
            # A score, by a vector or a dot product, and the weighted mean.
            target_source=2.0 * size + 2.0 * size,
            target_target=0.0,
        )

    def training(self, features: Features) -> tf.Tensor:
        """Returns the operations of forward and backward pass.

        Args:
            features: `inputs` [..., S] and `targets` [..., T], 0 for padding.

        Returns:
            A float64 scalar.
        """
        s, t = (
            tf.cast(tf.math.count_nonzero(features[name], axis=-1), tf.float64)
            for name in ("inputs", "targets")
        )
        forward = self.source * s + self.target * t
        forward += self.source_source * s * s
        forward += (self.target_source * s + self.target_target * t) * t
        return _PRODUCTS_OF_TRAINING * tf.reduce_sum(forward)


def _dense(layer: keras.layers.Layer) -> float:
    """Operations of all kernels and embedding matrices in `layer` for one token.

    The tables of distances are not among them: they are multiplied for each pair.
    """
    return 2.0 * sum(
        math.prod(w.shape)
        for w in layer.trainable_weights
        if len(w.shape) == 2 and not w.name.startswith("relative_")
    )


def _pair(attention: SelfAttention | EncoderDecoderAttention) -> float:
    """Operations of all heads for one pair of a query and a key.

    Twice as many where their distance has a key and a value, too.
    """
    products = 2 if isinstance(attention, RelativeSelfAttention) else 1
    return products * 2.0 * (attention.config.key_channels + attention.config.value_channels)


def gemm_rate(model: Seq2Seq, tokens: int, device: str) -> float:
    """Measures how fast a device multiplies matrices of the training step's own shapes.

    The products are those of a feed-forward network with the model's largest kernel [n, m]:
    [tokens, n] × [n, m], and that × [m, n], in the model's dtype.

    Args:
        model: gives kernel and dtype.
        tokens: rows, the positions of one side of a batch.
        device: where, by TensorFlow's name.

    Returns:
        Floating-point operations per second.
    """
    matrices = [w for w in model.trainable_weights if len(w.shape) == 2]
    kernels = [w for w in matrices if w.name == "kernel"] or matrices  # rather than embeddings
    n, m = max((w.shape for w in kernels), key=math.prod)
    rows = min(tokens, _MOST_ROWS)
    pairs = 16 if "GPU" in device else 1  # in a turn of the loop: a GPU waits between turns
    with tf.device(device):
        # Unit variance in and out: no overflow in half precision, no denormal numbers.
        x, wide, narrow = (
            tf.cast(
                tf.random.stateless_normal(shape, (0, 0), stddev=deviation), model.compute_dtype
            )
            for shape, deviation in (((rows, n), 1.0), ((n, m), n**-0.5), ((m, n), m**-0.5))
        )

        @tf.function
        def multiply(turns: tf.Tensor) -> tf.Tensor:
            y = x
            for _ in tf.range(turns):
                for _ in range(pairs):
                    y = tf.matmul(tf.matmul(y, wide), narrow)
            return y[0, 0]

        multiply(tf.constant(1)).numpy()  # compiles
        turns, seconds = 0, 0.0
        while seconds < _LEAST_SECONDS:
            turns = max(1, 2 * turns)
            start = time.perf_counter()
            multiply(tf.constant(turns)).numpy()
            seconds = time.perf_counter() - start
    return turns * pairs * 2 * (2.0 * rows * n * m) / seconds
