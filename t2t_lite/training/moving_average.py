"""The moving average of the weights (hparam `ema_decay`), which Keras's optimizer computes.

Training continues with the weights themselves. Evaluation and `RunFolder.restore_weights`, and thus
all decoding, use the average.
"""

import contextlib
from collections.abc import Iterator

import keras

from t2t_lite.models.seq2seq import Seq2Seq


@contextlib.contextmanager
def averaged_weights(model: Seq2Seq, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Gives a model its averaged weights within the block, if the optimizer has them.

    Afterwards its own weights are restored exactly.
    """
    if not optimizer.use_ema:
        yield
        return
    own = [variable.numpy() for variable in model.trainable_variables]
    try:
        optimizer.finalize_variable_values(model.trainable_variables)
        yield
    finally:
        for variable, value in zip(model.trainable_variables, own, strict=True):
            variable.assign(value)
