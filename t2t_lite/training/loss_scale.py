"""Dynamic loss scaling: what keeps float16 gradients between underflow and overflow."""

import tensorflow as tf

# A step's loss starts at this many times its mean over tokens, ...
_START = 2.0**15
# ... is doubled after so many steps without overflow, and halved at every overflow.
_STEPS_TO_DOUBLE = 2000


class LossScale(tf.Module):
    """The factor of the loss in a float16 run (Micikevicius et al. 2018, section 3.2).

    Keras has an optimizer around others for it, which checks and scales gradients on each
    replica, where the training step here first adds them up.

    Args:
        tokens: the loss is a sum over about so many; the scale is that of their mean.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.lowest = 1.0 / tokens
        self.value = tf.Variable(_START / tokens, trainable=False, name="scale")
        self._steps = tf.Variable(0, trainable=False, name="steps_since_change")

    def update(self, finite: tf.Tensor) -> None:
        """Halves or doubles the scale, after a step whose gradient was `finite` or not."""
        steps = tf.where(finite, self._steps + 1, 0)
        double = tf.equal(steps, _STEPS_TO_DOUBLE)
        grown = tf.where(double, 2.0 * self.value, self.value)
        self.value.assign(tf.where(finite, grown, tf.maximum(self.value / 2.0, self.lowest)))
        self._steps.assign(tf.where(double, 0, steps))

    @property
    def at_its_lowest(self) -> bool:
        """Whether halving it again is of no use: no overflow, but something else is wrong."""
        return bool(self.value.numpy() <= self.lowest)
