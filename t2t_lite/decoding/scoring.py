"""The score that a model gives to an output it is shown."""

import tensorflow as tf

from t2t_lite.models.seq2seq import Features, Seq2Seq


def log_probabilities(model: Seq2Seq, features: Features) -> tf.Tensor:
    """Log-probability of each target given its source: what a search calls its score at alpha 0.

    T2T's scorer counts the padding behind a target too, so that its scores depend on the batch;
    these do not.

    Args:
        model: any model.
        features: `inputs` [B, S] and `targets` [B, T], 0 at padding.

    Returns:
        [B], float32: the sum over a target's subwords, EOS included if it is there.
    """
    targets = features["targets"]
    logits = tf.cast(model(features), tf.float32)  # [B, T, V]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return -tf.reduce_sum(tf.where(tf.not_equal(targets, 0), losses, 0.0), axis=1)
