"""What older releases of Keras lack, for the range that setup.cfg names."""

import keras
from keras import ops


def int16_halves(words: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the two halves of each int32 of `words` [..., 1] as int16 [..., 2], low half first.

    Keras has `ops.view`, which takes no time, since 3.12.
    """
    if hasattr(ops, "view"):
        return ops.view(words, "int16")
    high = ops.right_shift(words, 16)
    low = ops.right_shift(ops.left_shift(words, 16), 16)  # keeps the sign
    return ops.cast(ops.concatenate([low, high], axis=-1), "int16")
