"""T2T's algorithmic problems: the base class, and the registered ones to derive from.

Those of arithmetic are left out: their symbols here include a separator, which T2T forgets.
"""

import inspect
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_lite.problems import algorithmic as native
from t2t_lite.t2t import generator_utils
from t2t_lite.t2t.adapter import needs
from t2t_lite.t2t.hparam import HParams
from t2t_lite.t2t.modalities import ModalityType
from t2t_lite.t2t.problem import Problem, SpaceID
from t2t_lite.t2t.text_encoder import EOS_ID, NUM_RESERVED_TOKENS

__all__ = [
    "AlgorithmicIdentityBinary40",
    "AlgorithmicIdentityDecimal40",
    "AlgorithmicProblem",
    "AlgorithmicReverseBinary40",
    "AlgorithmicReverseDecimal40",
    "AlgorithmicReverseNlplike8k",
    "AlgorithmicReverseNlplike32k",
    "AlgorithmicShiftDecimal40",
    "AlgorithmicSortProblem",
]


class AlgorithmicProblem(Problem):
    """Sequences of symbols from `generator`."""

    train_length = 40
    dev_length = 400
    train_size = 100_000
    dev_size = 10_000
    num_shards = 10

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        raise needs(self, "num_symbols")

    def generator(
        self, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterable[dict[str, Sequence[int]]]:
        """Yields cases: symbols from 0 of inputs and targets."""
        raise needs(self, "generator(nbr_symbols, max_length, nbr_cases)")

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Writes training and evaluation files."""
        del tmp_dir, task_id
        generator_utils.generate_dataset_and_shuffle(
            self._cases(self.train_length, self.train_size),
            self.training_filepaths(data_dir, self.num_shards, shuffled=True),
            self._cases(self.dev_length, self.dev_size),
            self.dev_filepaths(data_dir, 1, shuffled=True),
            shuffle=False,
        )

    def _cases(self, length: int, number: int) -> Iterator[dict[str, list[int]]]:
        for case in self.generator(self.num_symbols, length, number):
            yield {
                side: [*(symbol + NUM_RESERVED_TOKENS for symbol in symbols), EOS_ID]
                for side, symbols in case.items()
            }

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets the vocabulary sizes, and the kinds of symbols."""
        del model_hparams
        sides = ("inputs", "targets")
        defaults.modality = dict.fromkeys(sides, ModalityType.SYMBOL)
        defaults.vocab_size = dict.fromkeys(sides, self.num_symbols + NUM_RESERVED_TOKENS)
        defaults.input_space_id = SpaceID.DIGIT_0
        defaults.target_space_id = SpaceID.DIGIT_1


def _to_derive_from(problem: type[native.AlgorithmicProblem]) -> Any:
    """Returns T2T's class for a registered problem."""

    def generator(
        self: AlgorithmicProblem, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[dict[str, list[int]]]:
        ours = type(problem.__name__, (problem,), {"num_symbols": nbr_symbols})()
        draw = random.Random(random.random())  # the global numbers are seeded for each problem
        for _ in range(nbr_cases):
            inputs = ours.draw_inputs(draw, max_length)
            yield {"inputs": inputs, "targets": ours.solve(inputs)}

    # The properties depend on each other alone, so that they work in the other class, too.
    settings = ("dev_length", "num_symbols", "train_length")
    members = {name: inspect.getattr_static(problem, name) for name in settings}
    members |= {"__doc__": problem.__doc__, "__module__": __name__, "generator": generator}
    return type(problem.__name__, (AlgorithmicProblem,), members)


AlgorithmicIdentityBinary40 = _to_derive_from(native.AlgorithmicIdentityBinary40)
AlgorithmicIdentityDecimal40 = _to_derive_from(native.AlgorithmicIdentityDecimal40)
AlgorithmicReverseBinary40 = _to_derive_from(native.AlgorithmicReverseBinary40)
AlgorithmicReverseDecimal40 = _to_derive_from(native.AlgorithmicReverseDecimal40)
AlgorithmicReverseNlplike8k = _to_derive_from(native.AlgorithmicReverseNlplike8k)
AlgorithmicReverseNlplike32k = _to_derive_from(native.AlgorithmicReverseNlplike32k)
AlgorithmicShiftDecimal40 = _to_derive_from(native.AlgorithmicShiftDecimal40)
AlgorithmicSortProblem = _to_derive_from(native.AlgorithmicSortProblem)
