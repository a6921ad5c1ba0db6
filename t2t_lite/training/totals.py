"""The sums that training computes between two log lines, and the record that they become."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import tensorflow as tf


class Totals(NamedTuple):
    """Sums over the tokens of some batches, without those of skipped steps; float64 scalars."""

    loss: tf.Tensor  # nats, smoothed as in training
    tokens: tf.Tensor  # target tokens, padding not counted
    source_tokens: tf.Tensor  # source tokens, padding not counted
    cells: tf.Tensor  # ids of sources and targets, padding counted
    sentences: tf.Tensor
    gradient_norm: tf.Tensor  # global norm before clipping, summed over steps
    steps: tf.Tensor
    skipped: tf.Tensor  # steps whose gradient was not finite
    flops: tf.Tensor  # operations of forward and backward pass; 0 if the model does not tell

    @classmethod
    def of_step(
        cls,
        features: Mapping[str, tf.Tensor],
        loss: tf.Tensor,
        tokens: tf.Tensor,
        norm: tf.Tensor,
        finite: tf.Tensor,
        flops: tf.Tensor,
    ) -> Self:
        """Returns the totals of one step.

        Args:
            features: the batch, `inputs` [W, B, S] and `targets` [W, B, T].
            loss: sum over the target tokens.
            tokens: their number.
            norm: of the gradient.
            finite: whether it is finite; a skipped step must not make the means NaN.
            flops: operations, which a skipped step has, too.
        """
        inputs, targets = features["inputs"], features["targets"]
        counted = tf.where(finite, 1.0, 0.0)

        def of_counted(value: tf.Tensor) -> tf.Tensor:
            return tf.where(finite, value, tf.zeros_like(value))

        return cls(
            loss=of_counted(loss),
            tokens=of_counted(tokens),
            source_tokens=of_counted(tf.math.count_nonzero(inputs)),
            cells=of_counted(tf.size(inputs) + tf.size(targets)),
            sentences=of_counted(tf.math.count_nonzero(targets[..., 0])),
            gradient_norm=of_counted(norm),
            steps=counted,
            skipped=1.0 - counted,
            flops=flops,
        )


class Window:
    """The totals since the last log line.

    They are in the checkpoint, so that a resumed run writes the same lines as an uninterrupted one.

    Args:
        auxiliary: names of the auxiliary losses.
    """

    def __init__(self, auxiliary: Sequence[str]) -> None:
        self._names = auxiliary
        self.sums = tf.Variable(tf.zeros(len(Totals._fields), tf.float64), name="window")
        zeros = tf.zeros(len(auxiliary), tf.float64)
        self._auxiliary = tf.Variable(zeros, name="auxiliary_window")

    @property
    def state(self) -> dict[str, tf.Variable | tf.Module]:
        """The variables that a checkpoint must contain, by name."""
        state: dict[str, tf.Variable | tf.Module] = {"window": self.sums}
        return state | ({"auxiliary_window": self._auxiliary} if self._names else {})

    def add(self, totals: Totals, auxiliary: Sequence[tf.Tensor], finite: tf.Tensor) -> None:
        """Adds a step's totals and, if its gradient was finite, its auxiliary losses."""
        self.sums.assign_add(tf.stack([tf.cast(value, tf.float64) for value in totals]))
        if self._names:
            losses = tf.cast(tf.stack(auxiliary), tf.float64)
            self._auxiliary.assign_add(tf.where(finite, losses, 0.0))

    def take(self) -> Totals:
        """Returns the totals as floats, and resets them."""
        sums = Totals(*map(float, self.sums.numpy()))
        self.sums.assign(tf.zeros_like(self.sums))
        return sums

    def take_auxiliary(self) -> dict[str, float]:
        """Returns the auxiliary losses by name, summed over steps, and resets them."""
        sums = dict(zip(self._names, self._auxiliary.numpy().tolist(), strict=True))
        self._auxiliary.assign(tf.zeros_like(self._auxiliary))
        return sums
