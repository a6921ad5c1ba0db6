"""T2T's base class of algorithmic problems."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_lite.tensor2tensor_api import generator_utils
from t2t_lite.tensor2tensor_api.adapter import needs
from t2t_lite.tensor2tensor_api.hparam import HParams
from t2t_lite.tensor2tensor_api.modalities import ModalityType
from t2t_lite.tensor2tensor_api.problem import Problem, SpaceID
from t2t_lite.tensor2tensor_api.text_encoder import EOS_ID, NUM_RESERVED_TOKENS

__all__ = ["AlgorithmicProblem"]


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
