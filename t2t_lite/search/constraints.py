"""Constraints on outputs: a prefix, a minimum or exact length, no repeated n-grams."""

import dataclasses

import tensorflow as tf

from t2t_lite.search.search_loop import DEAD, Sentences
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

# Log-probability of a forbidden token: so far below `DEAD` that the hypothesis stays dead, whatever
# is added.
_FORBIDDEN = 2 * DEAD


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Forbids tokens; the log-probabilities of the others do not change.

    Scores are thus the model's own. A prefix overrides the other constraints.

    Args:
        min_length: minimum tokens of an output, EOS and a prompt not counted, if its limit allows
            it.
        no_repeat_ngram_size: n: no n-gram occurs twice; 0: n-grams may repeat.
        force_length: whether outputs are as long as their limits, with EOS only at the end.
        is_prompt: whether prefixes are prompts, whose log-probability and length do not count.
    """

    min_length: int = 0
    no_repeat_ngram_size: int = 0
    force_length: bool = False
    is_prompt: bool = False

    def __call__(
        self, logits: tf.Tensor, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Forbids the tokens that must not come at `step`.

        Args:
            logits: [B, K, V].
            ids: [B, K, L], the hypotheses; ids from `step` on are ignored.
            step: a scalar, the number of their tokens; less than L.
            sentences: their limits and prefixes.

        Returns:
            Logits [B, K, V] of the permitted tokens, and their total log-probability [B, K].
        """

        def constrained() -> tuple[tf.Tensor, tf.Tensor]:
            log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
            allowed = self._allowed(ids, step, sentences, log_probs.shape[-1])
            # NaN must stay visible: searches check for it.
            left = tf.where(allowed | tf.math.is_nan(log_probs), log_probs, _FORBIDDEN)
            total = tf.reduce_logsumexp(left, axis=-1)
            if self.is_prompt:
                is_forced = _forced(step, sentences) != PAD_ID  # [B]
                uncounted = tf.where(is_forced[:, None], total, 0.0)  # [B, K]
                left, total = left - uncounted[..., None], total - uncounted
            return left, total

        def free() -> tuple[tf.Tensor, tf.Tensor]:
            return tf.cast(logits, tf.float32), tf.zeros(tf.shape(logits)[:2])

        if self.no_repeat_ngram_size or self.force_length:
            return constrained()
        longest = tf.shape(sentences.prefixes)[1]
        shortest = self.min_length + (longest if self.is_prompt else 0)
        return tf.cond(step < tf.maximum(shortest, longest), constrained, free)

    def uncounted(self, sentences: Sentences) -> tf.Tensor:
        """Returns how many tokens no length counts: those of prompts, [B], or the scalar 0."""
        if not self.is_prompt:
            return tf.constant(0)
        return tf.math.count_nonzero(sentences.prefixes, axis=1, dtype=tf.int32)

    def _allowed(
        self, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences, vocab_size: int
    ) -> tf.Tensor:
        """Returns which tokens may come at `step`: [B, K, V], or a shape that broadcasts to it."""
        vocabulary = tf.range(vocab_size)
        shortest = self.min_length + self.uncounted(sentences)[..., None, None]
        allowed = (vocabulary != EOS_ID) | (step >= shortest)
        if self.no_repeat_ngram_size:
            allowed &= ~self._repeated(ids, step, vocab_size)
        if self.force_length:
            is_last = step == sentences.limits - 1  # [B]
            allowed &= (vocabulary == EOS_ID) == is_last[:, None, None]
        forced = _forced(step, sentences)[:, None, None]  # [B, 1, 1]
        return tf.where(forced == PAD_ID, allowed, vocabulary == forced)

    def _repeated(self, ids: tf.Tensor, step: tf.Tensor, vocab_size: int) -> tf.Tensor:
        """Returns which tokens [B, K, V] would complete an n-gram that has occurred before."""
        before = self.no_repeat_ngram_size - 1  # tokens of an n-gram before its last one
        starts = tf.maximum(tf.shape(ids)[2] - before, 0)  # possible n-grams
        repeated = tf.range(starts) + before < step  # those that have occurred: [starts]
        repeated = tf.broadcast_to(repeated, tf.concat([tf.shape(ids)[:2], [starts]], axis=0))
        for i in range(before):
            now = tf.gather(ids, tf.maximum(step - before + i, 0), axis=2)  # [B, K]
            repeated &= ids[:, :, i : i + starts] == now[..., None]
        places = tf.where(repeated)  # [N, 3]
        last = tf.gather_nd(ids, tf.add(places, [0, 0, before]))
        places = tf.concat([places[:, :2], tf.cast(last, tf.int64)[:, None]], axis=1)
        shape = tf.concat([tf.shape(ids, tf.int64)[:2], [vocab_size]], axis=0)
        return tf.scatter_nd(places, tf.ones_like(last), shape) > 0


def _forced(step: tf.Tensor, sentences: Sentences) -> tf.Tensor:
    """Returns the ids [B] of the prefixes at `step`, 0 after them."""
    prefixes = sentences.prefixes
    # One more column, for steps after all prefixes.
    padded = tf.pad(prefixes, [[0, 0], [0, 1]])
    return tf.gather(padded, tf.minimum(step, tf.shape(prefixes)[1]), axis=1)


NO_CONSTRAINTS = Constraints()
