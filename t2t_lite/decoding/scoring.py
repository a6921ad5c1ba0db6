"""Scores given targets as a search would score them.

T2T's scorer also counts the padding after a target, so that its scores depend on the batch; these
do not.
"""

from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.models.seq2seq import Features, Seq2Seq, with_attention
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.penalties import NO_PENALTY, Penalty, log_coverage
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

# Most logits computed at a time: 256 MiB of them.
_MAX_LOGITS = 1 << 26


def score(model: Seq2Seq | Ensemble, features: Features) -> tf.Tensor:
    """Returns the log-probability of each token of the targets, given its source.

    Args:
        model: any model.
        features: `inputs` [B, S] and `targets` [B, T], 0 at padding.

    Returns:
        [B, T], float32; 0 at padding.
    """
    targets = features["targets"]
    logits = tf.cast(model(features), tf.float32)  # [B, T, V]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.where(tf.not_equal(targets, PAD_ID), -losses, 0.0)


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
        features: `inputs` [B, S] and `targets` [B, T], 0 at padding.
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
    ended = tf.reduce_any(tf.equal(targets, EOS_ID), axis=1)
    return tf.where(ended, penalty.score(total, lengths, coverage, targets), total)


class Scorer:
    """Scores given targets; compiled for all shapes on the first call.

    Args:
        model: a trained model.
        penalty: the penalty by which the search scores its outputs.
    """

    def __init__(self, model: Seq2Seq | Ensemble, penalty: Penalty) -> None:
        self._vocab_size = (
            model.models[0] if isinstance(model, Ensemble) else model
        ).targets_vocab_size
        self._scores = _compile(lambda features: (total_score(model, features, penalty),))
        self._details = _compile(
            (lambda features: score_with_attention(model, features))
            if model.has_source_attention
            else (lambda features: (score(model, features),))
        )

    def scores(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """Returns the score of each pair of source and target, both with EOS, as in a search."""
        return [float(score) for (score,) in self._rows(self._scores, pairs)]

    def details(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Returns for each pair its tokens' log-probabilities [T] and attention [T, S].

        The attention is None if the model has none to the source.
        """
        rows = zip(pairs, self._rows(self._details, pairs), strict=True)
        return [
            (
                log_probs[: len(target)],
                attention[0][: len(target), : len(source)] if attention else None,
            )
            for (source, target), (log_probs, *attention) in rows
        ]

    def _rows(
        self,
        compiled: Callable[[dict[str, tf.Tensor]], tuple[tf.Tensor, ...]],
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the results of `compiled` for each pair, in chunks that fit into memory."""
        longest = max((len(target) for _, target in pairs), default=1)
        size = max(1, _MAX_LOGITS // (longest * self._vocab_size))
        for start in range(0, len(pairs), size):
            sources, targets = zip(*pairs[start : start + size], strict=True)
            features = {"inputs": padded(sources), "targets": padded(targets)}
            yield from zip(*(part.numpy() for part in compiled(features)), strict=True)


def padded(ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns lists of ids as one array, each padded with 0 at its end."""
    return keras.utils.pad_sequences(ids, padding="post")


def _compile(function: Callable[..., tuple[tf.Tensor, ...]]) -> Callable[..., tuple]:
    ids = tf.TensorSpec([None, None], tf.int32)
    # Autograph would wrap the models' errors in tracebacks.
    return tf.function(function, input_signature=[{"inputs": ids, "targets": ids}], autograph=False)
