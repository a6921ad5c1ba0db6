"""Scores given targets as a search would score them.

T2T's scorer also counts the padding after a target, so that its scores depend on the batch; these
do not.
"""

import tensorflow as tf

from t2t_lite.models.attention_maps import with_attention
from t2t_lite.models.seq2seq import Features, Seq2Seq
from t2t_lite.search.constraints import is_any
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.parts import ends_of
from t2t_lite.search.penalties import NO_PENALTY, Penalty, log_coverage
from t2t_lite.text.text_encoder import PAD_ID


def score(model: Seq2Seq | Ensemble, features: Features) -> tf.Tensor:
    """Returns the log-probability of each token of the targets, given its source.

    Args:
        model: any model.
        features: `inputs` [B, S] and `targets` [B, T], 0 at padding; perhaps `given` [B], how many
            tokens at the start of each target are given, as in a search.

    Returns:
        [B, T], float32; 0 at padding and for given tokens.
    """
    targets = features["targets"]
    logits = tf.cast(model(features), tf.float32)  # [B, T, V]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    counts = tf.not_equal(targets, PAD_ID)
    if "given" in features:
        counts &= tf.range(tf.shape(targets)[1]) >= features["given"][:, None]
    return tf.where(counts, -losses, 0.0)


def score_with_attention(
    model: Seq2Seq | Ensemble, features: Features
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the result of `score`, and the attention of each token to the source.

    Returns:
        [B, T], and the weights [B, T, S] of the last layer, averaged over its heads and over the
        models of an ensemble; both 0 at the targets' padding.

    Raises:
        UsageError: the model has no attention to the source.
    """
    log_probs, attention = with_attention(model, lambda: score(model, features))
    present = tf.not_equal(features["targets"], PAD_ID)
    return log_probs, tf.where(present[..., None], attention, 0.0)


def total_score(
    model: Seq2Seq | Ensemble, features: Features, penalty: Penalty = NO_PENALTY
) -> tf.Tensor:
    """Returns the score [B] of each target, as a search with this penalty computes it.

    A target without EOS has not ended: its score is its log-probability, without the penalty.

    Args:
        model: any model.
        features: as for `score`.
        penalty: that of the search.

    Raises:
        UsageError: the penalty is for coverage, and the model has no attention to the source.
    """
    targets = features["targets"]
    coverage: tf.Tensor | float = 0.0
    if penalty.coverage_penalty:
        log_probs, attention = score_with_attention(model, features)
        present = tf.not_equal(features["inputs"], PAD_ID)
        coverage = log_coverage(tf.reduce_sum(attention, axis=1), present)
    else:
        log_probs = score(model, features)
    total = tf.reduce_sum(log_probs, axis=1)
    lengths = tf.math.count_nonzero(targets, axis=1)
    ended = tf.reduce_any(is_any(targets, ends_of(model)), axis=1)
    return tf.where(ended, penalty.score(total, lengths, coverage, targets), total)
