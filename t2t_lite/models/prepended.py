"""Source and target as one sequence: T2T's `prepend_mode`.

The decoder reads the source, a separator with id 0, and the target. In training it predicts all of
them. Evaluation, scoring and search see the target's part alone, so that whatever uses the model
meets sources and targets as ever.
"""

import keras
from keras import ops


def joined(inputs: keras.KerasTensor, targets: keras.KerasTensor) -> keras.KerasTensor:
    """Returns each source [B, S], the separator and its target [B, T] in a row: [B, S + 1 + T].

    A source's padding moves to the end of its row.
    """
    length = ops.shape(inputs)[1]
    whole = ops.pad(
        ops.concatenate([inputs, ops.zeros_like(inputs[:, :1]), targets], axis=1),
        [[0, 0], [0, length]],
    )  # [B, S + 1 + T + S]
    start = target_start(inputs)[:, None]
    places = ops.arange(length + 1 + ops.shape(targets)[1])[None, :]
    padding = ops.where(places < start, 0, length + 1 - start)
    return ops.take_along_axis(whole, places + padding, axis=1)


def target_start(inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Returns where the targets of sources [B, S] start in `joined`, [B]."""
    return ops.cast(ops.count_nonzero(inputs, axis=1), "int32") + 1


def target_part(
    x: keras.KerasTensor, inputs: keras.KerasTensor, places: keras.KerasTensor
) -> keras.KerasTensor:
    """Returns what `x` [B, S + 1 + T, D], computed from `joined`, has at places of the targets.

    Args:
        x: one vector for each position.
        inputs: [B, S].
        places: [N], counted from the targets' start.

    Returns:
        [B, N, D].
    """
    places = target_start(inputs)[:, None] + places[None, :]  # [B, N]
    return ops.take_along_axis(x, places[..., None], axis=1)
