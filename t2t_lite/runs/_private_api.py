"""Keras's private interface that this package uses: present in Keras 3.15.

setup.cfg pins this range; check these names before raising it.
"""

# The attribute of an optimizer with `use_ema` under which checkpoints hold the moving averages,
# in the order of the weights.
MOVING_AVERAGES = "_model_variables_moving_average"
