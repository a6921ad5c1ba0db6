"""Constraints on outputs: a prefix, lengths, no repeated n-grams, your own."""

import abc
import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.search.parts import DEAD, SearchPart, Sentences
from t2t_lite.text.text_encoder import PAD_ID

# Log-probability of a forbidden token: so far below `DEAD` that the hypothesis stays dead, whatever
# is added.
_FORBIDDEN = 2 * DEAD


class Constraint(SearchPart, abc.ABC):
    """Forbids tokens; the log-probabilities of the others do not change.

    Scores are thus the model's own. A prefix overrides all constraints.
    """

    def applies(self, step: tf.Tensor, sentences: Sentences) -> tf.Tensor | bool:
        """Returns whether anything may be forbidden at `step`: a scalar; steps without are faster.

        Args:
            step: as in `allowed`.
            sentences: as in `allowed`.
        """
        del step, sentences
        return True

    @abc.abstractmethod
    def allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int | tf.Tensor
    ) -> tf.Tensor:
        """Returns which tokens may come at `step`.

        Args:
            ids: [B, K, L], the hypotheses; ids from `step` on mean nothing.
            step: a scalar, the number of their tokens; less than L.
            sentences: their `limits` [B], `prefixes` [B, P], the ids that end them, `ends` [B], how
                many tokens of prompts no length counts, `uncounted` [B], and how many have
                log-probability 0, `given` [B].
            vocab_size: V; with a short list, the ids in it, a scalar.

        Returns:
            [B, K, V] bool, or a shape that broadcasts to it.
        """


@dataclasses.dataclass(frozen=True)
class MinLength(Constraint):
    """Outputs have at least this many tokens, EOS not counted, if their limits allow it."""

    tokens: int
    others: tuple[int, ...] = ()  # ids that end an output besides EOS

    def applies(self, step: tf.Tensor, sentences: Sentences) -> tf.Tensor:
        """Whether an output may be too short."""
        return step < self.tokens + tf.reduce_max(sentences.given)

    def allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int | tf.Tensor
    ) -> tf.Tensor:
        """Forbids EOS before."""
        shortest = self.tokens + sentences.given[:, None, None]
        is_end = _ends(vocab_size, sentences, self.others)
        return ~is_end | (step >= shortest)


@dataclasses.dataclass(frozen=True)
class FixedLength(Constraint):
    """Outputs are as long as their limits, with EOS only at the end."""

    others: tuple[int, ...] = ()  # ids that end an output besides EOS

    def allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int | tf.Tensor
    ) -> tf.Tensor:
        """Forbids EOS before the last step, and all else there."""
        is_last = step == sentences.limits - 1  # [B]
        return _ends(vocab_size, sentences, self.others) == is_last[:, None, None]


@dataclasses.dataclass(frozen=True)
class EndAtLimit(Constraint):
    """The last token of an output that reaches its limit is EOS, which its score does not count.

    As a prefix does, it overrides the other constraints.
    """

    def applies(self, step: tf.Tensor, sentences: Sentences) -> tf.Tensor:
        """Whether a sentence is at its limit."""
        return tf.reduce_any(step >= sentences.limits - 1)

    def allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int | tf.Tensor
    ) -> tf.Tensor:
        """Forbids nothing: `constrain` puts EOS where it belongs."""
        return tf.constant(True)


@dataclasses.dataclass(frozen=True)
class Suppressed(Constraint):
    """Some tokens never come."""

    ids: tuple[int, ...]

    def allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int | tf.Tensor
    ) -> tf.Tensor:
        """Forbids them."""
        return ~is_any(tf.range(vocab_size), self.ids)


@dataclasses.dataclass(frozen=True)
class NoRepeatedNgrams(Constraint):
    """No n-gram of this size occurs twice."""

    size: int

    def allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int | tf.Tensor
    ) -> tf.Tensor:
        """Forbids tokens that would complete an n-gram that has occurred before."""
        before = self.size - 1  # tokens of an n-gram before its last one
        starts = tf.maximum(tf.shape(ids)[2] - before, 0)  # possible n-grams
        repeated = tf.range(starts) + before < step  # those that have occurred: [starts]
        repeated = tf.broadcast_to(repeated, tf.concat([tf.shape(ids)[:2], [starts]], axis=0))
        for i in range(before):
            now = tf.gather(ids, tf.maximum(step - before + i, 0), axis=2)  # [B, K]
            repeated &= ids[:, :, i : i + starts] == now[..., None]
        places = tf.where(repeated)  # [N, 3]
        last = tf.gather_nd(ids, tf.add(places, [0, 0, before]))
        places = tf.concat([places[:, :2], tf.cast(last, tf.int64)[:, None]], axis=1)
        shape = tf.concat([tf.shape(ids, tf.int64)[:2], [tf.cast(vocab_size, tf.int64)]], axis=0)
        return tf.scatter_nd(places, tf.ones_like(last), shape) == 0


def constrain(
    constraints: Sequence[Constraint],
    logits: tf.Tensor,
    ids: tf.Tensor,
    step: tf.Tensor,
    sentences: Sentences,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Forbids the tokens that must not come at `step`, and those other than a prefix's.

    Args:
        constraints: all of them must allow a token.
        logits: [B, K, V].
        ids: as in `Constraint.allowed`.
        step: as in `Constraint.allowed`.
        sentences: as in `Constraint.allowed`.

    Returns:
        Logits [B, K, V] of the permitted tokens, and their total log-probability [B, K]; that of
        given tokens is 0.
    """

    def constrained() -> tuple[tf.Tensor, tf.Tensor]:
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        size = log_probs.shape[-1] or tf.shape(log_probs)[-1]  # it varies with a short list
        vocabulary = tf.range(size)
        allowed = tf.constant(True)
        for constraint in constraints:
            allowed &= constraint.allowed(ids, step, sentences, size)
        at, is_given = forced(step, sentences), step < sentences.given  # [B]
        if any(isinstance(constraint, EndAtLimit) for constraint in constraints):
            is_last = step == sentences.limits - 1
            at, is_given = tf.where(is_last, sentences.ends, at), is_given | is_last
        at = at[:, None, None]
        allowed = tf.where(at == PAD_ID, allowed, vocabulary == at)
        # NaN must stay visible: searches check for it.
        left = tf.where(allowed | tf.math.is_nan(log_probs), log_probs, _FORBIDDEN)
        total = tf.reduce_logsumexp(left, axis=-1)
        uncounted = tf.where(is_given[:, None], total, 0.0)  # [B, K]
        return left - uncounted[..., None], total - uncounted

    def free() -> tuple[tf.Tensor, tf.Tensor]:
        return tf.cast(logits, tf.float32), tf.zeros(tf.shape(logits)[:2])

    applying = [constraint.applies(step, sentences) for constraint in constraints]
    if any(now is True for now in applying):
        return constrained()
    longest = tf.shape(sentences.prefixes)[1]
    return tf.cond(tf.reduce_any([step < longest, *applying]), constrained, free)


def _ends(vocab_size: int | tf.Tensor, sentences: Sentences, others: Sequence[int]) -> tf.Tensor:
    """Returns which ids end an output: [B, 1, V]."""
    ids = tf.range(vocab_size)
    return (ids == sentences.ends[:, None, None]) | is_any(ids, others)


def is_any(ids: tf.Tensor, wanted: Sequence[int]) -> tf.Tensor:
    """Returns which `ids` are among those `wanted`: booleans of the shape of `ids`."""
    return tf.reduce_any(ids[..., None] == tf.constant([*wanted], ids.dtype), axis=-1)


def forced(step: tf.Tensor, sentences: Sentences) -> tf.Tensor:
    """Returns the ids [B] of the prefixes at `step`, 0 after them."""
    prefixes = sentences.prefixes
    # One more column, for steps after all prefixes.
    padded = tf.pad(prefixes, [[0, 0], [0, 1]])
    return tf.gather(padded, tf.minimum(step, tf.shape(prefixes)[1]), axis=1)
