"""Measures how many floating-point operations per second the hardware sustains."""

import math
import time

import tensorflow as tf

from t2t_lite.models.seq2seq import Seq2Seq

_MAX_ROWS = 2048  # of the measured products: more do not make them faster
_MIN_SECONDS = 0.1  # of a measurement


def gemm_rate(model: Seq2Seq, tokens: int, device: str) -> float:
    """Measures how fast a device multiplies matrices of the shapes used in training.

    The products are those of a feed-forward network with the model's largest kernel [n, m]:
    [tokens, n] × [n, m], and the result × [m, n], in the model's dtype.

    Args:
        model: determines the kernel and the dtype.
        tokens: number of rows: positions of one side of a batch.
        device: TensorFlow's name of the device.

    Returns:
        Floating-point operations per second.
    """
    matrices = [w for w in model.trainable_weights if len(w.shape) == 2]
    kernels = [w for w in matrices if w.name == "kernel"] or matrices  # rather than embeddings
    n, m = max((w.shape for w in kernels), key=math.prod)
    rows = min(tokens, _MAX_ROWS)
    pairs = 16 if "GPU" in device else 1  # per turn of the loop: a GPU waits between turns
    with tf.device(device):
        # Unit variance of inputs and outputs avoids overflow in half precision and denormals.
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
        while seconds < _MIN_SECONDS:
            turns = max(1, 2 * turns)
            start = time.perf_counter()
            multiply(tf.constant(turns)).numpy()
            seconds = time.perf_counter() - start
    return turns * pairs * 2 * (2.0 * rows * n * m) / seconds
