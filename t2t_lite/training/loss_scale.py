"""Dynamic loss scaling, which keeps float16 gradients between underflow and overflow."""

import tensorflow as tf

# The initial scale of the mean loss over tokens.
_START = 2.0**15
# The scale is doubled after this many steps without overflow, and halved at every overflow.
_STEPS_TO_DOUBLE = 2000


class LossScale(tf.Module):
    """The factor of the loss in a float16 run (Micikevicius et al. 2018, section 3.2).

    Keras's `LossScaleOptimizer` checks and scales gradients on each replica, whereas the training
    step here adds them up first.

    Args:
        tokens: approximate number of tokens that the loss is a sum over; the scale is that of
            their mean.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.lowest = 1.0 / tokens
        self.value = tf.Variable(_START / tokens, trainable=False, name="scale")
        self._steps = tf.Variable(0, trainable=False, name="steps_since_change")

    def update(self, finite: tf.Tensor) -> None:
        """Adjusts the scale after a step; `finite` says whether its gradient was finite."""
        steps = tf.where(finite, self._steps + 1, 0)
        double = tf.equal(steps, _STEPS_TO_DOUBLE)
        grown = tf.where(double, 2.0 * self.value, self.value)
        self.value.assign(tf.where(finite, grown, tf.maximum(self.value / 2.0, self.lowest)))
        self._steps.assign(tf.where(double, 0, steps))

    @property
    def at_its_lowest(self) -> bool:
        """Whether the scale can fall no further, so that overflow is not the cause."""
        return bool(self.value.numpy() <= self.lowest)
