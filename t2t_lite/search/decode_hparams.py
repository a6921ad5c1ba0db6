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
    alpha: float = 0.6  # exponent of the length penalty; 0: none; below: short outputs favoured
    length_penalty: str = "t2t"  # t2t: ((5 + length) / 6)^alpha; average: length^alpha
    coverage_penalty: float = 0.0  # GNMT's beta: against outputs that leave out source words
    min_length: int = 0  # subwords that an output has at least
    no_repeat_ngram_size: int = 0  # n: no n subwords come twice in an output; 0: they may
    sampling_method: str = "argmax"  # argmax: beam search; random: draw beam_size outputs
    sampling_temp: float = 1.0  # divides the logits before a draw
    sampling_keep_top_k: int = -1  # draw among so many of the likeliest subwords; -1: all
    sampling_keep_top_p: float = 1.0  # draw among the likeliest with so much probability together
    seed: int = 0  # of sampling; what a line becomes depends on this and its number alone
    extra_length: int = 100  # subwords that an output may be longer than its source
    well_formed: bool = False  # search among well-formed trees alone (problems of treebanks)
    batch_size: int = 0  # sentences decoded together; 0: as many as a budget of subwords allows
    return_beams: bool = False  # write all K hypotheses, not the best alone
    write_beam_scores: bool = False  # write each hypothesis's score beside it
    xla_compile: bool = False  # compile the steps by XLA, once for each size; sizes: powers of two
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
            "coverage_penalty": 0,
            "min_length": 0,
            "no_repeat_ngram_size": 0,
            "sampling_keep_top_k": -1,
            "seed": 0,
            "extra_length": 0,
            "batch_size": 0,
            "max_input_size": -1,
        }
        for name, minimum in least.items():
            if (value := getattr(self, name)) < minimum:
                raise UsageError(f"{self.noun} {name!r}: {value} is less than {minimum}")
        choices = {"length_penalty": ("t2t", "average"), "sampling_method": ("argmax", "random")}
        for name, values in choices.items():
            if (value := getattr(self, name)) not in values:
                expected = " or ".join(values)
                raise UsageError(f"{self.noun} {name!r}: {value!r}, expected {expected}")
        self._check_sampling()
        if self.coverage_penalty and (self.beam_size == 1 or self.sampling_method == "random"):
            raise self._useless("coverage_penalty", "beam search: beam_size above 1, no sampling")
        if self.well_formed and (self.min_length or self.no_repeat_ngram_size):
            raise UsageError(
                f"{self.noun} 'well_formed': trees cannot also obey min_length or "
                "no_repeat_ngram_size; leave them out"
            )
        if self.well_formed and self.xla_compile:
            raise UsageError(
                f"{self.noun} 'xla_compile': XLA would compile the search among trees anew for "
                "every number of words; leave it out, or set well_formed=false"
            )

    def _check_sampling(self) -> None:
        """Refuses what cannot be sampled by, and settings of sampling without sampling."""
        if self.sampling_temp <= 0:
            raise UsageError(
                f"{self.noun} 'sampling_temp': {self.sampling_temp} is not above 0; for the "
                "likeliest output set sampling_method=argmax"
            )
        if self.sampling_keep_top_k == 0:
            raise UsageError(f"{self.noun} 'sampling_keep_top_k': 0 keeps nothing; -1 keeps all")
        if not 0 < self.sampling_keep_top_p <= 1:
            raise UsageError(
                f"{self.noun} 'sampling_keep_top_p': {self.sampling_keep_top_p} is not above 0 "
                "and at most 1"
            )
        if self.sampling_method == "argmax":
            for name in ("sampling_temp", "sampling_keep_top_k", "sampling_keep_top_p"):
                if getattr(self, name) != getattr(type(self), name):
                    raise self._useless(name, "sampling: set sampling_method=random")

    def _useless(self, name: str, use: str) -> UsageError:
        return UsageError(f"{self.noun} {name!r}: {getattr(self, name)} counts only in {use}")
