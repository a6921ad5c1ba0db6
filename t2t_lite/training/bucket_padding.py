"""Few shapes of batches: TensorFlow keeps kernels, or with XLA a program, for each of them."""

import logging

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.hparams.basic import BasicHParams

log = logging.getLogger(__name__)


class BucketShapes:
    """Pads batches to a few lengths.

    These are the multiples of the hparam `length_multiple` up to the maximum length of the bucket;
    with `xla_compile` that length alone, because XLA compiles the step anew for each shape.

    Args:
        hparams: define the buckets.
    """

    def __init__(self, hparams: BasicHParams) -> None:
        self._hparams = hparams
        self._scheme = BatchingScheme.from_hparams(hparams, training=True)
        self._compiled: set[tuple[int, ...]] = set()

    def pad(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns `inputs` [W, B, S] and `targets` [W, B, T] padded with 0.

        Logs every shape that XLA has to compile.
        """
        longest = max(ids.shape[-1] for ids in features.values())
        limit = self._scheme.longest[self._scheme.bucket(longest)]
        multiple = limit if self._hparams.xla_compile else self._hparams.length_multiple
        padded = {name: _pad(ids, multiple, limit) for name, ids in features.items()}
        if self._hparams.xla_compile:
            self._log(tuple(padded["targets"].shape))  # a language model has no inputs
        return padded

    def _log(self, shape: tuple[int, ...]) -> None:
        if shape not in self._compiled:
            self._compiled.add(shape)
            log.info(
                "XLA compiles the step for batches of %d × %d × %d subwords (%d of at most %d)",
                *shape,
                len(self._compiled),
                len(self._scheme.longest),
            )


def real_tokens(
    hparams: BasicHParams, hidden: tf.Tensor, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Selects the tokens whose logits are needed: `hidden` [N, D] and `targets` [N].

    Logits are the largest array of a step: except with XLA, they are not computed for padding.

    Args:
        hparams: say whether to use XLA, and define the padding.
        hidden: [B, T, D].
        targets: [B, T].
    """
    if hparams.xla_compile:  # sizes must not depend on values
        return tf.reshape(hidden, [-1, hidden.shape[-1]]), tf.reshape(targets, [-1])
    present = tf.not_equal(targets, 0)
    hidden = tf.boolean_mask(hidden, present)  # [N, D]
    targets = tf.boolean_mask(targets, present)  # [N]
    missing = -tf.shape(targets)[0] % _token_multiple(hparams)
    return tf.pad(hidden, [[0, missing], [0, 0]]), tf.pad(targets, [[0, missing]])


def _token_multiple(hparams: BasicHParams) -> int:
    """Returns what the number of target tokens in the softmax is padded to a multiple of.

    Their number is a size of products, and nearly every batch has another. Multiples of 1/64 of a
    full batch leave at most 64 sizes.
    """
    return max(1, hparams.batch_size // 64) if hparams.length_multiple > 1 else 1


def _pad(ids: tf.Tensor, multiple: int, limit: int) -> tf.Tensor:
    """Pads the last axis to a multiple, but not beyond the limit."""
    length = ids.shape[-1]
    missing = min(-length % multiple, limit - length)
    return tf.pad(ids, [[0, 0], [0, 0], [0, missing]]) if missing > 0 else ids
