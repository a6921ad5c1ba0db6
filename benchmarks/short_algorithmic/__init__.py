"""A user's folder (`--t2t_usr_dir`): T2T's algorithmic problems, short enough to learn in minutes.

Training inputs have up to 10 symbols, T2T's up to 40. Evaluation and test inputs are as often in
each of the ranges up to 1, 1.5, 2 and 4 times that length.
"""

import itertools
import random

from t2t_lite import registry
from t2t_lite.problems import algorithmic

TRAIN_LENGTH = 10
MULTIPLES = (1, 1.5, 2, 4)  # upper ends of the ranges, in training lengths
RANGES = list(itertools.pairwise([0, *(round(times * TRAIN_LENGTH) for times in MULTIPLES)]))


class Short(algorithmic.AlgorithmicProblem):
    """Changes the lengths of a problem; inputs of a range are drawn as the problem draws them."""

    train_length = TRAIN_LENGTH
    dev_length = RANGES[-1][1]
    dev_size = 800

    def draw_inputs(self, draw: random.Random, max_length: int) -> list[int]:
        """Returns inputs for training, or longer than those of the range before."""
        if max_length == self.train_length:
            return super().draw_inputs(draw, max_length)
        below, longest = draw.choice(RANGES)
        while not below < len(symbols := super().draw_inputs(draw, longest)) <= longest:
            pass
        return symbols


@registry.register_problem
class ShortIdentityDecimal(Short, algorithmic.AlgorithmicIdentityDecimal40):
    """Copying decimal digits."""


@registry.register_problem
class ShortReverseDecimal(Short, algorithmic.AlgorithmicReverseDecimal40):
    """Reversing decimal digits."""


@registry.register_problem
class ShortShiftDecimal(Short, algorithmic.AlgorithmicShiftDecimal40):
    """Replacing each of ten symbols by another symbol of its own."""


@registry.register_problem
class ShortAdditionBinary(Short, algorithmic.AlgorithmicAdditionBinary40):
    """Adding binary numbers."""


@registry.register_problem
class ShortMultiplicationBinary(Short, algorithmic.AlgorithmicMultiplicationBinary40):
    """Multiplying binary numbers."""


@registry.register_problem
class ShortSort(Short, algorithmic.AlgorithmicSortProblem):
    """Sorting numbers."""


@registry.register_problem
class ShortReverseNlplike(Short, algorithmic.AlgorithmicReverseNlplike8k):
    """Reversing sequences like sentences, of 100 symbols: rarer ones need longer training."""

    num_symbols = 100
