"""What a model is trained on: the ids of a batch, by name."""

import tensorflow as tf

from t2t_lite.text.sample import ALIGNMENT

Features = dict[str, tf.Tensor]


def features_spec(*parts: int, is_guided: bool = False) -> dict[str, tf.TensorSpec]:
    """Returns the signature of a function of `inputs` and `targets` [*parts, B, L].

    Args:
        *parts: leading dimensions.
        is_guided: whether there is also an `alignment` [*parts, B, T].
    """
    spec = tf.TensorSpec([*parts, None, None], tf.int32)
    names = ("inputs", "targets", *([ALIGNMENT] if is_guided else []))
    return dict.fromkeys(names, spec)


def batch_of_ones(parts: int, sentences: int, length: int, is_guided: bool) -> Features:
    """Returns a batch without padding, [parts, sentences, length], to try a step on.

    Args:
        parts: W.
        sentences: of each part.
        length: ids of each side.
        is_guided: as in `features_spec`.
    """
    ids = tf.ones((parts, sentences, length), tf.int32)
    return dict.fromkeys(features_spec(is_guided=is_guided), ids)
