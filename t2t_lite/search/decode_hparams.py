"""Search settings: the fields of `--decode_hparams`, under T2T's names."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.settings import HParams, meant_by, setting, to_assignments
from t2t_lite.text.languages import Languages

# Most subwords of a sequence for which nothing else sets a limit: memory grows with the square.
LONGEST = 4096

# What `alpha` is the exponent of, by the name of the length penalty; lengths may be tensors.
LENGTH_PENALTIES: dict[str, Callable[[Any], Any]] = {
    "t2t": lambda length: (5.0 + length) / 6.0,
    "average": lambda length: length,
}


def length_divisor(kind: str, alpha: float, length: Any) -> Any:
    """Returns what divides the log-probability of an output of a length, EOS included.

    Args:
        kind: of `LENGTH_PENALTIES`.
        alpha: its exponent.
        length: a number, or a tensor of float32.
    """
    return LENGTH_PENALTIES[kind](length) ** alpha


# When beam search ends, see search/stopping.py.
STOPPING_RULES = ("t2t", "never", "false", "true", "marian")


# How terms get into outputs: the search finds those that have them, or the source suggests them.
TERM_MODES = HARD_TERMS, SOFT_TERMS = "hard", "soft"

_BEAM_SEARCH = "beam search: beam_size above 1, no sampling"
# What changes how fast outputs are found, and in how much memory, but not which.
_OF_SPEED = {"batch_size", "xla_compile"}


class HasDefaults(Protocol):
    """A problem, or a run."""

    @property
    def decode_hparams(self) -> str:
        """Changes to the defaults of `DecodeHParams`."""


@dataclasses.dataclass
class DecodeHParams(HParams):
    """Search settings; they belong to a decoding run, not to the model."""

    noun = "decode hparam"

    beam_size: int = setting(4, "Hypotheses kept per sentence; 1 is greedy search.", minimum=1)
    alpha: float = setting(
        0.6,
        "Exponent of a beam's length penalty; below 0 favors short outputs.",
        minimum=-10,  # the penalty of LONGEST subwords is a float32
        maximum=10,
    )
    length_penalty: str = setting(
        "t2t",
        "t2t: ((5 + length) / 6)^alpha; average: length^alpha.",
        choices=tuple(LENGTH_PENALTIES),
    )
    stopping: str = setting(
        "t2t",
        "Rule that ends a beam: T2T's, transformers' early_stopping, or Marian's.",
        choices=STOPPING_RULES,
    )
    coverage_penalty: float = setting(
        0.0, "Weight of GNMT's penalty on outputs that omit source words.", minimum=0
    )
    min_length: int = setting(0, "Fewest subwords in an output.", minimum=0)
    no_repeat_ngram_size: int = setting(
        0, "Size of n-grams that may not repeat in an output; 0 permits repeats.", minimum=0
    )
    sampling_method: str = setting(
        "argmax", "argmax: search; random: draw beam_size outputs.", choices=("argmax", "random")
    )
    sampling_temp: float = setting(1.0, "Divides the logits before each draw.", above=0)
    sampling_keep_top_k: int = setting(
        -1, "Draw from this many most likely subwords; -1 draws from all.", minimum=1
    )
    sampling_keep_top_p: float = setting(
        1.0, "Draw from the most likely subwords with this total probability.", above=0, maximum=1
    )
    seed: int = setting(
        0, "Seed of sampling; with the line number, it alone decides the outputs.", minimum=0
    )
    replace_unk: bool = setting(
        False,
        "Replace unknown tokens by the source tokens that they attend to.",
    )
    extra_length: int = setting(
        100, "Subwords by which an output may exceed its source.", minimum=0
    )
    length_factor: int = setting(
        1,
        "An output may have this many times its source's subwords + extra_length.",
        minimum=0,
        maximum=1000,  # of LONGEST subwords, four million: memory ends before
    )
    force_decode_length: bool = setting(
        False,
        "Make every output exactly extra_length longer than its source.",
    )
    end_at_limit: bool = setting(
        False,
        "End an output that reaches its limit with EOS as its last subword.",
    )
    well_formed: bool = setting(False, "Search only among well-formed trees, for parsing.")
    batch_size: int = setting(
        0, "Sentences decoded together; 0 fits them to a budget of subwords.", minimum=0
    )
    return_beams: bool = setting(False, "Write all beam_size hypotheses instead of the best.")
    write_beam_scores: bool = setting(False, "Write each hypothesis's score beside it.")
    dtype: str = setting(
        "",
        "Type to compute and to store weights in; empty: that of training.",
        choices=("float32", "bfloat16", "float16"),
    )
    xla_compile: bool = setting(
        False, "Compile decoding steps with XLA, once for each size (a power of two)."
    )
    source_language: str = setting(
        "", "The source's language, if a model knows several; empty: its default."
    )
    target_language: str = setting(
        "", "The target's language, if a model knows several; empty: its default."
    )
    shortlist: str = setting(
        "", "File of t2t-shortlist: outputs consist of its words for each source."
    )
    term_mode: str = setting(
        HARD_TERMS,
        "hard: outputs have their terms; soft: sources suggest them to the model.",
        choices=TERM_MODES,
    )
    search: str = setting(
        "", "Registered constraints, penalty and sampler of your own, joined by +."
    )
    max_input_size: int = setting(
        -1, "Most subwords of a source; -1: max_length, else 4,096; 0: no limit.", minimum=-1
    )

    @property
    def languages(self) -> Languages:
        """The languages of source and target."""
        return Languages(self.source_language, self.target_language)

    @property
    def search_names(self) -> list[str]:
        """The parts that `search` names, each perhaps with a colon and a text."""
        return [name for name in self.search.split("+") if name]

    @property
    def signature(self) -> str:
        """What decides on outputs and differs from the defaults, as --decode_hparams has it."""
        defaults = type(self)().to_dict()
        changed = [name for name, value in self.to_dict().items() if value != defaults[name]]
        return to_assignments(self, [name for name in changed if name not in _OF_SPEED])

    def output_limit(self, size: Any) -> Any:
        """Returns the most ids of an output, EOS included, for a source of `size` ids."""
        return self.length_factor * size + self.extra_length

    def source_limit(self, max_lengths: Iterable[int]) -> int:
        """Returns the most ids of a source, EOS included; 0: there is no limit.

        Args:
            max_lengths: the hparam `max_length` of each model; 0: any length.
        """
        if self.max_input_size >= 0:
            return self.max_input_size
        return min(filter(None, max_lengths), default=LONGEST)

    @classmethod
    def of(cls, owner: HasDefaults, changes: str = "") -> Self:
        """Returns the defaults of a problem or run, changed by a string like `"beam_size=8"`.

        Raises:
            UsageError: a name is unknown, or a value is invalid.
        """
        hparams = cls().override(owner.decode_hparams).override(changes)
        # Imported models have a rule of their own, which another search may pass over.
        if meant_by(changes).get("stopping", cls.stopping) != cls.stopping and not hparams._ranks:
            raise hparams._useless("stopping", _BEAM_SEARCH)
        return hparams

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sampling()
        for name in self.search_names:
            registry.search_part(name.partition(":")[0])
        if self.coverage_penalty and not self._ranks:
            raise self._useless("coverage_penalty", _BEAM_SEARCH)
        if self.well_formed and (
            self.min_length
            or self.no_repeat_ngram_size
            or self.force_decode_length
            or self.end_at_limit
        ):
            raise UsageError(
                f"{self.noun} 'well_formed': trees cannot also obey min_length, "
                "no_repeat_ngram_size, force_decode_length or end_at_limit; leave them out"
            )
        if self.well_formed and self.length_factor != 1:
            raise UsageError(f"{self.noun} 'well_formed': trees need length_factor=1")
        if self.well_formed and self.shortlist:
            raise UsageError(f"{self.noun} 'well_formed': trees need no short list; leave it out")
        if self.force_decode_length and self.min_length:
            raise UsageError(
                f"{self.noun} 'force_decode_length': lengths are fixed; leave out min_length"
            )
        if self.well_formed and self.xla_compile:
            raise UsageError(
                f"{self.noun} 'xla_compile': XLA would recompile the search among trees for "
                "every number of words; leave it out, or set well_formed=false"
            )

    def require_one_output(self) -> None:
        """Raises UsageError if more is to be written of each output than its text."""
        for name in ("return_beams", "write_beam_scores"):
            if getattr(self, name):
                raise UsageError(
                    f"{self.noun} {name}=true: evaluations read the best output alone; leave it "
                    "out, or decode with t2t-decoder"
                )

    @property
    def _ranks(self) -> bool:
        """Whether the search ranks hypotheses, as a beam search does."""
        return self.beam_size > 1 and self.sampling_method == "argmax"

    def _check_sampling(self) -> None:
        """Refuses sampling settings without sampling."""
        if self.sampling_method == "argmax":
            for name in ("sampling_temp", "sampling_keep_top_k", "sampling_keep_top_p", "seed"):
                if getattr(self, name) != getattr(type(self), name):
                    raise self._useless(name, "sampling: set sampling_method=random")

    def _useless(self, name: str, use: str) -> UsageError:
        return UsageError(f"{self.noun} {name!r}: {getattr(self, name)} applies only to {use}")
