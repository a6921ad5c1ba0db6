"""Length and coverage penalties: how a finished hypothesis is scored."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.models.attention_maps import with_attention
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.decode_hparams import LENGTH_PENALTIES, DecodeHParams, length_divisor
from t2t_lite.search.parts import SearchPart, StepModel, WrappedModel, inner_state, outer_state
from t2t_lite.text.text_encoder import PAD_ID, TextEncoder

# Minimum attention to a source position: log 0 would outweigh everything else.
_LEAST_ATTENTION = 1e-6


@dataclasses.dataclass(frozen=True)
class Penalty(SearchPart):
    """The score `log P / lp(length) + coverage_penalty · Σ log min(attention, 1)`.

    The length counts EOS. The sum is over the source's positions; the attention to each is summed
    over the output's positions (Wu et al. 2016, equation 14). A subclass may score otherwise.

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

    @classmethod
    def from_hparams(
        cls, hparams: DecodeHParams, encoders: Mapping[str, TextEncoder], text: str
    ) -> Self:
        """Builds it with the decode hparams of its fields."""
        return cls(hparams.alpha, hparams.length_penalty, hparams.coverage_penalty)

    def wrap(self, model: StepModel) -> StepModel:
        """Adds up the attention of hypotheses, if their coverage counts."""
        return CoverageTracker(model) if self.coverage_penalty else model

    def score(
        self, log_probs: tf.Tensor, length: tf.Tensor, coverage: tf.Tensor | float, ids: tf.Tensor
    ) -> tf.Tensor:
        """Scores finished hypotheses: [B, C] in a search, [B] where given targets are scored.

        Args:
            log_probs: [B, C] or [B], their log-probabilities.
            length: of a shape that broadcasts to it, their lengths, EOS counted, prompts not.
            coverage: the same, the result of `log_coverage`; 0.0 if `coverage_penalty` is 0.
            ids: [B, C, L] or [B, L], the hypotheses, 0 after EOS.

        Returns:
            The scores, of the shape of `log_probs`.
        """
        del ids  # only penalties of users need them
        return log_probs / self._divisor(length) + self.coverage_penalty * coverage

    def attainable(self, log_probs: tf.Tensor, length: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
        """Returns an upper bound of the scores of all continuations, by which a search ends.

        A log-probability only falls, and coverage adds at most 0. The divisor is monotonic in the
        length, so that it is greatest at one of the ends.

        Args:
            log_probs: [B], of hypotheses that have not ended, at most 0.
            length: [B], their length so far.
            limit: [B], the maximum length.
        """
        return log_probs / tf.maximum(self._divisor(length + 1), self._divisor(limit))

    def _divisor(self, length: tf.Tensor) -> tf.Tensor:
        length = tf.cast(tf.maximum(length, 1), tf.float32)  # nothing ends within a prompt
        return length_divisor(self.length_penalty, self.alpha, length)


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


class CoverageTracker(WrappedModel):
    """Wraps a model and sums up the attention of each hypothesis to each source position."""

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Starts hypotheses with no attention yet."""
        state = self._model.start_decoding(inputs, beams, length)
        nothing = tf.zeros([tf.shape(inputs)[0], beams, tf.shape(inputs)[1]])
        return DecodeState(
            _Sentence(inputs != PAD_ID, state.sentence),
            _Hypothesis(nothing, state.hypothesis),
            state.weights,
        )

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


def coverage_so_far(state: DecodeState) -> tf.Tensor:
    """Returns the `log_coverage` [B, K] of the attention that a `CoverageTracker` has summed up."""
    return log_coverage(state.hypothesis.attention, state.sentence.present[:, None])
