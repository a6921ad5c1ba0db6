"""The arithmetic of `numbers.py`, apart from it, since metrics are listed without NumPy."""

from collections.abc import Sequence

import numpy as np

from t2t_lite.errors import DataError, quoted
from t2t_lite.metrics.base import Segment
from t2t_lite.text.number_encoder import parsed_numbers


def numbers_of(segments: Sequence[Segment]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of outputs and references, each [segments, tasks], float64.

    Raises:
        DataError: a segment is not numbers, or has more or fewer than others.
    """
    rows = []
    for number, segment in enumerate(segments, 1):
        for side, text in (("output", segment.output), ("reference", segment.reference)):
            try:
                rows.append(parsed_numbers(text))
            except DataError as error:
                raise DataError(f"{side} {number}: {error}") from error
            if not rows[-1] or len(rows[-1]) != len(rows[0]):
                raise DataError(
                    f"{side} {number}: expected as many numbers as output 1 has, "
                    f"{len(rows[0]) or 1}, got {quoted(text)}"
                )
    found = np.array(rows, np.float64)
    return found[::2], found[1::2]


def moments(outputs: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Returns the sums by which correlations are computed, for each segment.

    x and y are centred, because their means change no correlation, but would cost digits.

    Args:
        outputs: x, [N, M]: M numbers of each of N segments.
        references: y, [N, M].

    Returns:
        [N, 1 + 5M]: 1, and x, y, x², y² and xy of each of the M numbers.
    """
    x, y = (side - side.mean(axis=0) for side in (outputs, references))
    return np.concatenate([np.ones([len(x), 1]), x, y, x * x, y * y, x * y], axis=1)


def correlation(totals: Sequence[float]) -> float:
    """Returns Pearson's correlation for the sums of `moments`: the mean over tasks."""
    count = totals[0]
    x, y, xx, yy, xy = np.array(totals[1:]).reshape(5, -1) / count
    spread = np.sqrt(np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0))
    # Of equal numbers, rounding leaves a little, which does not count.
    has_spread = spread > 1e-12 * np.sqrt(xx * yy)
    return float(np.mean(np.where(has_spread, (xy - x * y) / np.where(spread, spread, 1), 0)))


def ranks(numbers: np.ndarray) -> np.ndarray:
    """Returns the ranks of the numbers [N, tasks] of each task, from 1.

    Equal numbers have the mean of their ranks.
    """
    return np.apply_along_axis(_ranks, 0, numbers)


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, group, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    return np.asarray(np.cumsum(sizes) - (sizes - 1) / 2)[group]
