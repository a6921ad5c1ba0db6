"""One shape for all batches of a bucket, so that XLA compiles a step at most once per bucket."""

import logging

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.hparams.basic import BasicHParams

log = logging.getLogger(__name__)


class BucketShapes:
    """Pads batches to the maximum length of their bucket.

    Args:
        hparams: define the buckets.
    """

    def __init__(self, hparams: BasicHParams) -> None:
        self._scheme = BatchingScheme.from_hparams(hparams, training=True)
        self._seen: set[tuple[int, ...]] = set()

    def pad(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns `inputs` and `targets`, both [W, B, L], padded with 0; logs every new shape."""
        longest = max(ids.shape[-1] for ids in features.values())
        limit = self._scheme.longest[self._scheme.bucket(longest)]
        padded = {
            name: tf.pad(ids, [[0, 0], [0, 0], [0, max(limit - ids.shape[-1], 0)]])
            for name, ids in features.items()
        }
        shape = tuple(padded["inputs"].shape)
        if shape not in self._seen:
            self._seen.add(shape)
            log.info(
                "XLA compiles the step for batches of %d × %d × %d subwords (%d of at most %d)",
                *shape,
                len(self._seen),
                len(self._scheme.longest),
            )
        return padded
