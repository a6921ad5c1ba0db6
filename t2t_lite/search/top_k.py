"""Finds the k largest of many numbers, faster than TensorFlow."""

import tensorflow as tf

# Numbers in a block; sizes from 50 to 250 are equally fast.
_SMALLEST, _LARGEST = 32, 512


def top_k(x: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the same as `tf.math.top_k`, several times faster for large V.

    First finds the largest number of each block, in one pass. The k blocks in which these are
    largest contain the k largest numbers.

    Args:
        x: [..., V]; faster if V is known.
        k: at most V.

    Returns:
        The numbers [..., k], largest first, and their indices; of equal numbers the first.
    """
    size = _block_size(x.shape[-1] or 0, k)
    if not size:
        return tf.math.top_k(x, k)
    shape = tf.shape(x)[:-1]
    blocks = tf.reshape(x, [-1, x.shape[-1] // size, size])  # [N, V / size, size]
    chosen = tf.math.top_k(tf.reduce_max(blocks, axis=-1), k).indices  # [N, k]
    chosen = tf.sort(chosen)  # so that equal numbers stay in order
    candidates = tf.gather(blocks, chosen, axis=1, batch_dims=1)  # [N, k, size]
    best, places = tf.math.top_k(tf.reshape(candidates, [-1, k * size]), k)
    block = tf.gather(chosen, places // size, axis=1, batch_dims=1)
    shape = tf.concat([shape, [k]], axis=0)
    return tf.reshape(best, shape), tf.reshape(block * size + places % size, shape)


def _block_size(count: int, k: int) -> int:
    """Returns a divisor of `count` suitable as block size; 0 if there is none."""
    sizes = (size for size in range(_SMALLEST, _LARGEST + 1) if count % size == 0)
    return next((size for size in sizes if 4 * k * size <= count), 0)
