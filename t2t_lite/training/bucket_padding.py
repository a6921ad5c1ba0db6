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


def _pad(ids: tf.Tensor, multiple: int, limit: int) -> tf.Tensor:
    """Pads the last axis to a multiple, but not beyond the limit."""
    length = ids.shape[-1]
    missing = min(-length % multiple, limit - length)
    return tf.pad(ids, [[0, 0], [0, 0], [0, missing]]) if missing > 0 else ids
