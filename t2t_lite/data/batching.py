"""T2T's batching scheme: sentences of similar length, as many as fit into `batch_size`.

An example of length L (the longer of source and target, with EOS) belongs to the bucket
`bisect_right(boundaries, L)`; each bucket has its own number of sentences per batch.
"""

import bisect
import dataclasses
import math

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams

# T2T's "no limit" on the length of an example, in subwords.
UNLIMITED = 10**9


@dataclasses.dataclass(frozen=True)
class BatchingScheme:
    """Which sentences share a batch, and how many.

    Attributes:
        boundaries: subwords, ascending; bucket i holds lengths below `boundaries[i]`, the last
            bucket all greater lengths.
        batch_sizes: sentences per batch and replica, for each bucket.
        min_length: subwords; examples whose longer side is shorter are dropped.
        max_length: subwords; examples whose longer side is longer are dropped.
    """

    boundaries: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    min_length: int
    max_length: int

    @classmethod
    def from_hparams(cls, hparams: BasicHParams, training: bool) -> "BatchingScheme":
        """Builds the scheme that `hparams` describe.

        Evaluation keeps examples of every length unless `eval_drop_long_sequences` is set. Its
        buckets then continue up to `batch_size`, so that long sentences stay within the same
        budget (in T2T they share the bucket of `max_length` and may exhaust memory).

        Raises:
            UsageError: the hparams contradict each other.
        """
        drop = training or hparams.eval_drop_long_sequences
        return batching_scheme(
            hparams.batch_size,
            max_length=hparams.max_length if drop else 0,
            min_length_bucket=hparams.min_length_bucket,
            length_bucket_step=hparams.length_bucket_step,
            min_length=hparams.min_length if drop else 0,
            drop_long_sequences=drop,
        )

    def bucket(self, length: int) -> int:
        """Returns the number of the bucket that holds examples of `length` subwords."""
        return bisect.bisect_right(self.boundaries, length)

    @property
    def longest(self) -> tuple[int, ...]:
        """Length of the longest example of each bucket, in subwords."""
        return (*(boundary - 1 for boundary in self.boundaries), self.max_length)

    @property
    def worst_bucket(self) -> tuple[int, int]:
        """The (sentences, subwords) of the largest batch: if it fits into memory, all do.

        Only a scheme that drops long sequences has a largest batch.
        """
        return self.largest_batch(self.max_length)

    def largest_batch(self, longest: int, multiple: int = 1) -> tuple[int, int]:
        """Returns the (sentences, subwords) of the largest batch of examples of limited length.

        Args:
            longest: subwords of the longest example.
            multiple: of which lengths are multiples, within their bucket.
        """
        last = self.bucket(longest)
        padded = math.ceil(longest / multiple) * multiple
        return max(
            (
                (size, min(length, padded))
                for size, length in zip(
                    self.batch_sizes[: last + 1], self.longest[: last + 1], strict=True
                )
            ),
            key=lambda shape: (shape[0] * shape[1], shape[1]),
        )


def batching_scheme(
    batch_size: int,
    max_length: int,
    min_length_bucket: int,
    length_bucket_step: float,
    min_length: int = 0,
    drop_long_sequences: bool = True,
) -> BatchingScheme:
    """Computes T2T's scheme (`data_reader.batching_scheme`).

    Each bucket gets `batch_size // (its upper boundary)` sentences, rounded down to a divisor of
    a window size that has many divisors. A batch has at most `batch_size` cells per side, except
    for a single sentence that is longer than that.

    Args:
        batch_size: subwords per batch and replica, of the longer side with padding.
        max_length: subwords of the longest example; 0: `batch_size`.
        min_length_bucket: the first boundary, in subwords.
        length_bucket_step: ratio of each boundary to the previous one.
        min_length: subwords of the shortest example.
        drop_long_sequences: whether examples longer than `max_length` are dropped; otherwise
            they share the last bucket.

    Raises:
        UsageError: a size is not positive, or `min_length` exceeds `max_length`.
    """
    for name, value in (("batch_size", batch_size), ("min_length_bucket", min_length_bucket)):
        if value < 1:
            raise UsageError(f"hparam {name}={value}: at least 1 subword is needed")
    max_length = max_length or batch_size
    if max_length < min_length:
        raise UsageError(f"hparams min_length={min_length} exceeds max_length={max_length}")
    boundaries = []
    boundary = min_length_bucket
    while boundary < max_length:
        boundaries.append(boundary)
        boundary = max(boundary + 1, int(boundary * length_bucket_step))
    fitting = [max(1, batch_size // length) for length in [*boundaries, max_length]]
    window = _most_divisible(3 * max(fitting))
    divisors = [d for d in range(1, window + 1) if window % d == 0]
    return BatchingScheme(
        boundaries=tuple(boundaries),
        batch_sizes=tuple(divisors[bisect.bisect_right(divisors, n) - 1] for n in fitting),
        min_length=min_length,
        max_length=max_length if drop_long_sequences else UNLIMITED,
    )


def batch_parts(hparams: BasicHParams, replicas: int) -> int:
    """Returns W, the number of parts of `batch_size` subwords in the batch of one update.

    W is replicas × accumulation steps; the steps are `optimizer_multistep_accumulate_steps`, or
    as many as all replicas together need to reach `effective_batch_size`.

    Raises:
        UsageError: the hparams set both, or set `effective_batch_size` for an optimizer that
            gives all parts the same weight.
    """
    effective = hparams.effective_batch_size
    if not effective:
        return replicas * hparams.accumulate_steps
    if hparams.accumulate_steps > 1 or hparams.parts_weigh_equally:
        raise UsageError(
            f"hparam effective_batch_size={effective} sets the accumulation itself: set "
            "optimizer_multistep_accumulate_steps=0 and optimizer=adam"
        )
    return replicas * math.ceil(effective / (hparams.batch_size * replicas))


def _most_divisible(limit: int) -> int:
    """Returns the smallest of the numbers up to `limit` that have the most divisors.

    These are the highly composite numbers, OEIS A002182.
    """
    counts = [0] * (limit + 1)
    for divisor in range(1, limit + 1):
        for multiple in range(divisor, limit + 1, divisor):
            counts[multiple] += 1
    return max(range(1, limit + 1), key=counts.__getitem__)
