"""When the beam search for a sentence ends: T2T's rule, transformers', Marian's.

A rule sees one step of all sentences. Each sentence ends by itself, so that its outputs do not
depend on the batch.
"""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import tensorflow as tf

from t2t_lite.search.decode_hparams import STOPPING_RULES
from t2t_lite.search.parts import DEAD
from t2t_lite.search.penalties import Penalty


class Standing(NamedTuple):
    """Where the search for each sentence stands after a step.

    Attributes:
        length: [B], of the alive hypotheses.
        limits: [B], the greatest that it may become.
        best_alive: [B], the highest log-probability of an alive hypothesis; `DEAD`: there is none.
        finished: [B, K], the scores of the finished hypotheses, best first; `DEAD` if missing.
    """

    length: tf.Tensor
    limits: tf.Tensor
    best_alive: tf.Tensor
    finished: tf.Tensor

    @property
    def is_at_limit(self) -> tf.Tensor:
        """[B], whether the alive hypotheses may not become longer."""
        return self.length >= self.limits

    def attainable(self, penalty: Penalty, length: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
        """Returns the best score [B] that an alive hypothesis can reach.

        Args:
            penalty: scores it.
            length: [B], which it exceeds where it ends.
            limit: [B], its greatest length there.
        """
        return penalty.attainable(self.best_alive, length, limit)


class Stopping(abc.ABC):
    """A rule by which a search ends. In this base class, those count that end among the first K.

    Attributes:
        ends_at_limit: whether hypotheses that are alive at the limit count as if they had ended.
        shrinks: whether each hypothesis that ends leaves room for one less.
    """

    ends_at_limit: ClassVar[bool] = True
    shrinks: ClassVar[bool] = False

    def counts(self, finished: tf.Tensor, candidates: int) -> tf.Tensor:
        """Returns which candidates count if they end: broadcasts to [B, C].

        Args:
            finished: [B, K], the scores of the finished hypotheses before the step.
            candidates: C, of each sentence, best first.
        """
        room = tf.constant([finished.shape[1]])
        if self.shrinks:
            room -= tf.math.count_nonzero(finished > DEAD, axis=1, dtype=tf.int32)  # [B]
        return tf.range(candidates) < room[:, None]

    @abc.abstractmethod
    def done(self, standing: Standing, penalty: Penalty) -> tf.Tensor:
        """Returns which searches [B] end after a step."""


@dataclasses.dataclass(frozen=True)
class T2TStopping(Stopping):
    """T2T's rule: as soon as no alive hypothesis can reach what is to beat.

    If none has ended within the limit, the alive ones are the outputs, scored by their
    log-probability without a penalty.

    Args:
        early: whether the best finished hypothesis is to beat; the others are then the best found
            so far. False: the last of the K.
    """

    early: bool = True

    ends_at_limit: ClassVar[bool] = False

    def counts(self, finished: tf.Tensor, candidates: int) -> tf.Tensor:
        """All candidates count."""
        return tf.constant(True)

    def done(self, standing: Standing, penalty: Penalty) -> tf.Tensor:
        """See the class."""
        to_beat = standing.finished[:, 0 if self.early else -1]
        attainable = standing.attainable(penalty, standing.length, standing.limits)
        return (to_beat > attainable) | standing.is_at_limit


class NeverEarly(Stopping):
    """As transformers' `early_stopping="never"`: as soon as none of the K can be beaten."""

    def done(self, standing: Standing, penalty: Penalty) -> tf.Tensor:
        """See the class."""
        attainable = standing.attainable(penalty, standing.length, standing.limits)
        return (standing.finished[:, -1] > attainable) | standing.is_at_limit


class Heuristic(Stopping):
    """As transformers' `early_stopping=False`: as if the alive hypotheses ended here."""

    def done(self, standing: Standing, penalty: Penalty) -> tf.Tensor:
        """See the class."""
        attainable = standing.attainable(penalty, standing.length - 1, standing.length)
        return (standing.finished[:, -1] > attainable) | standing.is_at_limit


class WhenFull(Heuristic):
    """As transformers' `early_stopping=True`: as soon as K have ended."""

    def done(self, standing: Standing, penalty: Penalty) -> tf.Tensor:
        """See the class."""
        return super().done(standing, penalty) | (standing.finished[:, -1] > DEAD)


class Shrinking(Stopping):
    """As Marian: each hypothesis that ends leaves room for one less, until none is alive."""

    shrinks: ClassVar[bool] = True

    def done(self, standing: Standing, penalty: Penalty) -> tf.Tensor:
        """See the class."""
        return (standing.best_alive <= DEAD) | standing.is_at_limit


# Each rule by its name in the decode hparam `stopping`.
_RULES = (T2TStopping, NeverEarly, Heuristic, WhenFull, Shrinking)
RULES: dict[str, type[Stopping]] = dict(zip(STOPPING_RULES, _RULES, strict=True))


def stopping_named(name: str, early: bool) -> Stopping:
    """Returns the rule of a name.

    Args:
        name: of `RULES`.
        early: for T2T's rule.
    """
    rule = RULES[name]
    return rule(early) if rule is T2TStopping else rule()
