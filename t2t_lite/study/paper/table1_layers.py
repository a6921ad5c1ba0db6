"""The layers that Table 1 compares, as functions of a batch [B, n, d], reduced to what it counts.

Self-attention is equation 1 with the inputs as queries, keys and values; projections would add
n·d² to its n²·d. Recurrence is unrolled, so that the graph shows which operations are sequential.
"""

import math
from collections.abc import Callable

import tensorflow as tf

KERNEL = 3  # k, positions
NEIGHBORHOOD = 65  # r, positions: a centre and 32 on each side

LayerFunction = Callable[[tf.Tensor], tf.Tensor]


def self_attention(width: int) -> LayerFunction:
    """Every position sees all: softmax(x xᵀ / √d) x."""

    def layer(x: tf.Tensor) -> tf.Tensor:
        scores = tf.matmul(x, x, transpose_b=True) * width**-0.5  # [B, n, n]
        return tf.matmul(tf.nn.softmax(scores), x)

    return layer


def restricted(width: int, neighborhood: int = NEIGHBORHOOD) -> LayerFunction:
    """Every position sees the r positions around it; if r is even, one more before than after.

    Each block of r positions sees the previous block, itself and the next one, masked to the
    neighbourhood. The cost is 3 r·n·d, not n²·d.
    """

    def layer(x: tf.Tensor) -> tf.Tensor:
        batch, length, _ = x.shape
        blocks = math.ceil(length / neighborhood)
        padded = tf.pad(x, [[0, 0], [0, blocks * neighborhood - length], [0, 0]])
        middle = tf.reshape(padded, (batch, blocks, neighborhood, width))
        around = tf.pad(middle, [[0, 0], [1, 1], [0, 0], [0, 0]])
        seen = tf.concat([around[:, :-2], middle, around[:, 2:]], axis=2)  # [B, n/r, 3r, d]
        scores = tf.matmul(middle, seen, transpose_b=True) * width**-0.5  # [B, n/r, r, 3r]
        weights = tf.nn.softmax(scores + _hidden(length, blocks, neighborhood))
        mixed = tf.matmul(weights, seen)
        return tf.reshape(mixed, (batch, blocks * neighborhood, width))[:, :length]

    return layer


def _hidden(length: int, blocks: int, neighborhood: int) -> tf.Tensor:
    """Returns -1e9 where a position in a block does not see another, else 0: [n/r, r, 3r]."""
    starts = tf.range(blocks)[:, None, None] * neighborhood
    queries = starts + tf.range(neighborhood)[None, :, None]
    keys = starts + tf.range(-neighborhood, 2 * neighborhood)[None, None, :]
    first = queries - neighborhood // 2
    far = (keys < first) | (keys >= first + neighborhood)
    return tf.where(far | (keys < 0) | (keys >= length), -1e9, 0.0)


def recurrent(width: int) -> LayerFunction:
    """h_t = tanh(h_{t-1} U + x_t W)."""
    by_input, by_state = _kernel(width, width), _kernel(width, width)

    def layer(x: tf.Tensor) -> tf.Tensor:
        inputs = tf.unstack(tf.matmul(x, by_input), axis=1)
        states = [tf.tanh(inputs[0])]
        for here in inputs[1:]:
            states.append(tf.tanh(tf.matmul(states[-1], by_state) + here))
        return tf.stack(states, axis=1)

    return layer


def convolutional(width: int) -> LayerFunction:
    """A convolution over the k positions around each."""
    kernel = _kernel(KERNEL, width, width)
    return lambda x: tf.nn.conv1d(x, kernel, stride=1, padding="SAME")


def separable(width: int) -> LayerFunction:
    """A convolution over k positions of each feature, then a projection of each position."""
    depthwise, pointwise = _kernel(KERNEL, width), _kernel(width, width)

    def layer(x: tf.Tensor) -> tf.Tensor:
        ends = KERNEL // 2
        padded = tf.pad(x, [[0, 0], [ends, ends], [0, 0]])
        near = [padded[:, i : i + x.shape[1]] * depthwise[i] for i in range(KERNEL)]
        return tf.matmul(tf.add_n(near), pointwise)

    return layer


def _kernel(*shape: int) -> tf.Tensor:
    deviation = math.prod(shape[:-1]) ** -0.5
    return tf.random.stateless_normal(shape, (0, 0), stddev=deviation)


LAYERS: dict[str, Callable[[int], LayerFunction]] = {
    "self_attention": self_attention,
    "recurrent": recurrent,
    "convolutional": convolutional,
    "separable": separable,
    "restricted": restricted,
}
