"""Options of data generation, common to all problems; does not import TensorFlow."""

import dataclasses

from t2t_lite.data.generation.cleaning import CleaningRules
from t2t_lite.data.generation.pair_scores import PairScores
from t2t_lite.data.problem import RANDOM_SEED
from t2t_lite.errors import UsageError
from t2t_lite.settings import Config, setting

# In place of a file of alignments.
MADE_HERE = "auto"

# The default folder of raw files, which is T2T's.
TMP_DIR = "/tmp/t2t_datagen"

SKIP_BAD_HELP = (
    "Skip and count unreadable input, such as lines that are not UTF-8, malformed trees and the "
    "rest of a truncated compressed file, instead of stopping with an error."
)


@dataclasses.dataclass(frozen=True)
class DatagenOptions(Config):
    """How data is generated."""

    random_seed: int = setting(
        RANDOM_SEED,
        "Decides the order of the examples. Python's and NumPy's random numbers are seeded with it "
        "before the vocabulary is built and before each split is read.",
        minimum=-(2**63),
        maximum=2**63 - 1,
        group="How",
    )
    num_workers: int = setting(
        0,
        "Processes that encode; 0 starts one per core. The files do not depend on it.",
        minimum=0,
    )
    clean: str = setting(
        "",
        "Rules for training pairs, separated by commas; pairs that break one are dropped and "
        "counted. empty: a side has no text. identical: both sides are the same. max_length=N: a "
        "side has more than N words. max_ratio=X: (longer side + 1) / (shorter side + 1) exceeds "
        "X, in words. script=A-B: most letters of the sources are not of script A, or of the "
        "targets not of script B (ISO 15924: Latn, Cyrl, Hani+Hira+Kana). min_score=X: the pair's "
        "score in --pair_scores is less than X. best_share=X: its score is not among the best, "
        "which are the share X of all pairs. duplicates: the pair "
        "came before. unit=char: lengths are in characters, for languages without spaces.",
        listed=True,
    )
    pair_scores: str = setting(
        "",
        "File of scores for --clean: a number for each training pair, in the order of the text, "
        "greater for better pairs, as t2t-score-pairs or another program writes it.",
        reads=True,
    )
    alignments: str = setting(
        "",
        "Alignments of the training pairs, which the hparam guided_alignment_weight teaches a "
        f"model: {MADE_HERE}, made here by IBM model 1 with a prior for the diagonal; or a file "
        "with a line of links such as 0-0 1-2 (source and target words between spaces, from 0) "
        "for each pair of the training text, as eflomal and fast_align write it.",
        path=True,
    )
    extend_vocab: str = setting(
        "",
        "SentencePiece vocabulary, a file or a run folder, with which that of the problem begins. "
        "It goes on with what it lacks of a vocabulary of approx_vocab_size ids for this text.",
        path=True,
    )
    max_cases: int = setting(
        0,
        "For a trial, write only the first N samples of each split, or N in all if the problem "
        "deals its samples over all splits. The vocabulary does not depend on it. 0 writes all.",
        minimum=0,
    )
    skip_bad: bool = setting(False, SKIP_BAD_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cleaning.reads_scores != bool(self.pair_scores):
            raise UsageError(
                "--pair_scores, and min_score or best_share in --clean, need each other: give both"
            )

    @property
    def makes_alignments(self) -> bool:
        """Whether no file of alignments is to be read."""
        return self.alignments in ("", MADE_HERE)

    @property
    def cleaning(self) -> CleaningRules:
        """Which training pairs are dropped."""
        return CleaningRules.parse(self.clean)

    def scores(self) -> PairScores | None:
        """Reads the scores of the training pairs; returns None if there are none.

        Raises:
            UserError: the file does not exist.
            DataError: a line of it is not a number.
        """
        return PairScores(self.pair_scores) if self.pair_scores else None
