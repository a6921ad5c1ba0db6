"""Cross entropy with label smoothing, per token."""

import math

import tensorflow as tf


def smoothed_cross_entropy(
    logits: tf.Tensor, targets: tf.Tensor, label_smoothing: float
) -> tf.Tensor:
    """Cross entropy against smoothed labels, as T2T has it.

    The right subword has probability 1 - ε, the other V - 1 share ε evenly (paper, section 5.4).
    The entropy of that distribution is subtracted, so that a perfect model has loss 0.

    Args:
        logits: [N, V], float32.
        targets: [N], ids of the right subwords.
        label_smoothing: ε; 0 is the plain cross entropy.

    Returns:
        [N] losses in nats.
    """
    vocab_size = logits.shape[-1]
    low = label_smoothing / (vocab_size - 1)
    high = 1.0 - label_smoothing
    entropy = -(high * math.log(high) + label_smoothing * math.log(low + 1e-20))

    @tf.custom_gradient
    def loss(z: tf.Tensor) -> tuple[tf.Tensor, object]:
        # One fused kernel gives -log softmax(z)[y] and its gradient, softmax(z) - onehot(y).
        plain, gradient = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=z, labels=targets)
        if label_smoothing == 0.0:
            return plain, lambda upstream: upstream[:, None] * gradient
        rows = tf.range(tf.shape(z)[0], dtype=targets.dtype)
        at_target = tf.stack([rows, targets], axis=1)  # [N, 2]
        # With logsumexp(z) = plain + z_y:  -Σ p log softmax(z) = logsumexp(z) - Σ p z.
        z_y = tf.gather_nd(z, at_target)
        smoothed = plain + (1.0 - high + low) * z_y - low * tf.reduce_sum(z, axis=1) - entropy

        def backward(upstream: tf.Tensor) -> tf.Tensor:
            scaled = (gradient - low) * upstream[:, None]
            return tf.tensor_scatter_nd_add(scaled, at_target, (1.0 - high + low) * upstream)

        return smoothed, backward

    return loss(logits)
