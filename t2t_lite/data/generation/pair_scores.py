"""The scores of training pairs: a number for each pair of the text, greater for better pairs.

`t2t-score-pairs` writes such files, and so may any other program. Rules of `--clean` read them.
"""

import array
import math
from collections.abc import Iterator

import numpy as np

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.text_files import iterate_lines, not_of_training


class PairScores:
    """The scores in a file, which are handed out once, in their order.

    Args:
        path: a file of lines, a number in each.

    Raises:
        UserError: the file does not exist.
        DataError: a line is not a number, or there is none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._scores = array.array("d", _numbers(path))
        if not self._scores:
            raise DataError(f"{path} has no scores")
        self._taken = 0

    def of_next(self) -> float:
        """Returns the score of the next pair.

        Raises:
            DataError: there is none left.
        """
        if self._taken == len(self._scores):
            raise not_of_training(self._path, "fewer", "score")
        self._taken += 1
        return self._scores[self._taken - 1]

    def require_end(self) -> None:
        """Raises DataError if a score is left once the text has been read."""
        if self._taken < len(self._scores):
            raise not_of_training(self._path, "more", "score")

    def least_of_best(self, share: float) -> float:
        """Returns the least score of the best pairs, which are this share of all: above 0, to 1."""
        count = max(1, round(share * len(self._scores)))
        place = len(self._scores) - count
        return float(np.partition(np.asarray(self._scores), place)[place])


def _numbers(path: str) -> Iterator[float]:
    for number, line in enumerate(iterate_lines(path), 1):
        try:
            score = math.nan if "_" in line else float(line)  # Python's 1_000
        except ValueError:
            score = math.nan
        if math.isnan(score):
            raise DataError(f"{path}, line {number}: expected a number, got {quoted(line)}")
        yield score
