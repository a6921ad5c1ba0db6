"""What a model says of each token of an output: its probability, and what it attended to."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.decoding.scoring import score_with_attention, total_score
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.penalties import Penalty

# Most logits that are computed at a time; 256 MiB of them.
_LOGITS = 1 << 26


class Details(NamedTuple):
    """T tokens of an output for S tokens of its source, EOS included."""

    source_tokens: list[str]  # as text
    tokens: list[str]  # as text
    log_probs: np.ndarray  # [T], by the model alone, whatever the search forbids
    attention: np.ndarray  # [T, S], of the last layer, the mean over its heads


def joined(pieces: Sequence[Details]) -> Details:
    """Returns the details of pieces of a source as those of the whole."""
    shapes = [piece.attention.shape for piece in pieces]
    attention = np.zeros(np.sum(shapes, axis=0))
    row = column = 0
    for piece in pieces:
        rows, columns = piece.attention.shape
        attention[row : row + rows, column : column + columns] = piece.attention
        row, column = row + rows, column + columns
    return Details(
        [token for piece in pieces for token in piece.source_tokens],
        [token for piece in pieces for token in piece.tokens],
        np.concatenate([piece.log_probs for piece in pieces]),
        attention,
    )


class Scorer:
    """Scores targets; compiled when first called, for all shapes.

    Args:
        model: a trained model.
        penalty: what the search scores its outputs by.
    """

    def __init__(self, model: Seq2Seq | Ensemble, penalty: Penalty) -> None:
        self._vocab_size = (
            model.models[0] if isinstance(model, Ensemble) else model
        ).targets_vocab_size
        self._scores = _compiled(lambda features: (total_score(model, features, penalty),))
        self._details = _compiled(lambda features: score_with_attention(model, features))

    def scores(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """Returns the score of each pair of source and target, both with EOS, as a search's."""
        return [float(score) for (score,) in self._rows(self._scores, pairs)]

    def details(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns for each pair its tokens' log-probabilities [T] and attention [T, S]."""
        rows = zip(pairs, self._rows(self._details, pairs), strict=True)
        return [
            (log_probs[: len(target)], attention[: len(target), : len(source)])
            for (source, target), (log_probs, attention) in rows
        ]

    def _rows(
        self,
        compiled: Callable[[dict[str, tf.Tensor]], tuple[tf.Tensor, ...]],
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields what `compiled` says of each pair, computed for as many as memory allows."""
        longest = max((len(target) for _, target in pairs), default=1)
        size = max(1, _LOGITS // (longest * self._vocab_size))
        for start in range(0, len(pairs), size):
            sources, targets = zip(*pairs[start : start + size], strict=True)
            features = {"inputs": padded(sources), "targets": padded(targets)}
            yield from zip(*(part.numpy() for part in compiled(features)), strict=True)


def padded(ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns lists of ids as one array, 0 behind each."""
    return keras.utils.pad_sequences(ids, padding="post")


def _compiled(function: Callable[..., tuple[tf.Tensor, ...]]) -> Callable[..., tuple]:
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(function, input_signature=[{"inputs": ids, "targets": ids}])
