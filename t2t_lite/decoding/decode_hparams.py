"""How to search for an output: the fields of `--decode_hparams`, under T2T's names."""

import dataclasses
from typing import Self

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UsageError
from t2t_lite.hyperparameters import HParams


@dataclasses.dataclass
class DecodeHParams(HParams):
    """Search settings; they belong to a decoding run, not to the model."""

    noun = "decode hparam"

    beam_size: int = 4  # K: hypotheses kept per sentence; 1: greedy
    alpha: float = 0.6  # exponent of the length penalty ((5 + length) / 6)^alpha
    extra_length: int = 100  # subwords that an output may be longer than its source
    well_formed: bool = False  # search among well-formed trees alone (problems of treebanks)
    batch_size: int = 0  # sentences decoded together; 0: as many as a budget of subwords allows
    return_beams: bool = False  # write all K hypotheses, not the best alone
    write_beam_scores: bool = False  # write each hypothesis's score beside it
    max_input_size: int = -1  # subwords; longer sources are cut there; -1: the run's max_length

    @classmethod
    def of(cls, problem: Problem, changes: str = "") -> Self:
        """Returns the problem's defaults, changed by a string such as `"beam_size=8,alpha=1"`.

        Raises:
            UsageError: an unknown name, or a value that does not fit.
        """
        return cls().override(problem.decode_hparams).override(changes)

    def __post_init__(self) -> None:
        least = {
            "beam_size": 1,
            "alpha": 0,
            "extra_length": 0,
            "batch_size": 0,
            "max_input_size": -1,
        }
        for name, minimum in least.items():
            if (value := getattr(self, name)) < minimum:
                raise UsageError(f"{self.noun} {name!r}: {value} is less than {minimum}")
