"""Length and coverage penalties: how a finished hypothesis is scored."""

import dataclasses
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import DecodeState, with_attention
from t2t_lite.search.decode_hparams import LENGTH_PENALTIES
from t2t_lite.search.search_loop import StepModel
from t2t_lite.search.wrapped_state import inner_state, outer_state
from t2t_lite.text.text_encoder import PAD_ID

# Minimum attention to a source position: log 0 would outweigh everything else.
_LEAST_ATTENTION = 1e-6


@dataclasses.dataclass(frozen=True)
class Penalty:
    """The score `log P / lp(length) + coverage_penalty · Σ log min(attention, 1)`.

    The length counts EOS. The sum is over the source's positions; the attention to each is summed
    over the output's positions (Wu et al. 2016, equation 14).

    Args:
        alpha: exponent of the length penalty. 0: none; positive: favors longer outputs; negative:
            favors shorter ones, even more than the log-probability does.
        length_penalty: "t2t": lp(length) = ((5 + length) / 6)^alpha, as in T2T and GNMT;
            "average": length^alpha, as in most other toolkits.
        coverage_penalty: beta, at least 0.

    Raises:
        UsageError: a value is invalid.
    """

    alpha: float = 0.0
    length_penalty: str = "t2t"
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.length_penalty not in LENGTH_PENALTIES:
            raise UsageError(
                f"length_penalty={self.length_penalty!r}: expected {' or '.join(LENGTH_PENALTIES)}"
            )
        if self.coverage_penalty < 0:
            raise UsageError(f"coverage_penalty={self.coverage_penalty} is less than 0")

    def score(
        self, log_probs: tf.Tensor, length: tf.Tensor, coverage: tf.Tensor | float = 0.0
    ) -> tf.Tensor:
        """Scores finished hypotheses of one shape.

        Args:
            log_probs: their log-probabilities.
            length: their lengths, EOS counted.
            coverage: the result of `log_coverage` for them.
        """
        return log_probs / self._divisor(length) + self.coverage_penalty * coverage

    def attainable(self, log_probs: tf.Tensor, length: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
        """Returns an upper bound of the scores of all continuations.

        A log-probability only falls, and coverage adds at most 0. The divisor is monotonic in the
        length, so that it is greatest at one of the ends.

        Args:
            log_probs: of hypotheses that have not ended, at most 0.
            length: their length so far.
            limit: the maximum length.
        """
        return log_probs / tf.maximum(self._divisor(length + 1), self._divisor(limit))

    def _divisor(self, length: tf.Tensor) -> tf.Tensor:
        length = tf.cast(tf.maximum(length, 1), tf.float32)  # nothing ends within a prompt
        return LENGTH_PENALTIES[self.length_penalty](length) ** self.alpha


NO_PENALTY = Penalty()
DEFAULT_PENALTY = Penalty(alpha=0.6)  # the paper's, section 6.1


def log_coverage(attention: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Returns Σ log min(attention, 1) over the source's positions: 0 if each sum is at least 1.

    Args:
        attention: [..., S], the attention to each position, summed over the output's positions.
        present: [..., S], which positions are not padding.
    """
    logs = tf.math.log(tf.clip_by_value(attention, _LEAST_ATTENTION, 1.0))
    return tf.reduce_sum(tf.where(present, logs, 0.0), axis=-1)


class _Sentence(NamedTuple):
    present: tf.Tensor  # [B, S], which positions of the source are not padding
    model: Any


class _Hypothesis(NamedTuple):
    attention: tf.Tensor  # [B, K, S], the sum over all steps
    model: Any


class CoverageTracker:
    """Wraps a model and sums up the attention of each hypothesis to each source position.

    Args:
        model: the model to wrap.
    """

    def __init__(self, model: StepModel) -> None:
        self._model = model

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Starts hypotheses with no attention yet."""
        state = self._model.start_decoding(inputs, beams, length)
        nothing = tf.zeros([tf.shape(inputs)[0], beams, tf.shape(inputs)[1]])
        return DecodeState(
            _Sentence(inputs != PAD_ID, state.sentence),
            _Hypothesis(nothing, state.hypothesis),
            state.weights,
        )

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Grows the state to `length` steps in all."""
        inner = self._model.grow(inner_state(state), length)
        return outer_state(inner, state.sentence, state.hypothesis)

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Takes one step and adds its attention."""
        (logits, inner), attention = with_attention(
            self._model, lambda: self._model.decode_step(ids, step, inner_state(state))
        )
        before = state.hypothesis
        after = before._replace(attention=before.attention + attention)
        return logits, outer_state(inner, state.sentence, after)

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Hooks the model's attention to the source; see `Seq2Seq.hook_attention`."""
        return self._model.hook_attention(hook)

    def log_coverage(self, state: DecodeState) -> tf.Tensor:
        """Returns the `log_coverage` [B, K] of the attention so far."""
        return log_coverage(state.hypothesis.attention, state.sentence.present[:, None])
