"""What to train on the data that was just made: the rule that t2t-datagen prints.

docs/choosing.md has what was measured, and benchmarks/choosing.py repeats it. Where nothing is
known to be right, as for algorithmic tasks, mixtures and imported models, the rule is silent.
"""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.records import count_records
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.text.text_encoder import TextEncoder, VocabType


@dataclasses.dataclass(frozen=True)
class Choice:
    """A model to train.

    Attributes:
        hparams_set: a registered name.
        train_steps: updates, after which the learning rate of most sets is 0.
        subwords: size of the vocabulary; 0: that of the problem.
        model: a registered name.
    """

    hparams_set: str
    train_steps: int
    subwords: int = 0
    model: str = "transformer"


class Row(NamedTuple):
    """A row of the rule: the choice for at most so many examples."""

    most: float
    choice: Choice


# For pairs of texts that translate each other. The limits are near the geometric means of the sizes
# for which the sets are made: 5,000, 30,000, 150,000 and some 2,000,000 pairs.
PAIRS = (
    Row(12_000, Choice("transformer_pairs5k", 4_000, 8_000)),
    Row(70_000, Choice("transformer_multi30k_prenorm", 10_000, 8_000)),
    Row(500_000, Choice("transformer_pairs150k", 20_000, 8_000)),
    Row(math.inf, Choice("transformer_base", 100_000, 32_000)),
)
_FULL = 0.9  # Of its problem's size, which is not met exactly, at least so much.
_SAME = 2  # Vocabularies whose sizes differ by no more than this factor are equally good.

# For the trees of a small treebank.
TREES = Row(10_000, Choice("transformer_treebank2", 10_000))

# For texts with labels: T2T's suggestion for film reviews.
LABELS = Choice("transformer_tiny", 2_000, model="transformer_encoder")
# For texts with numbers.
NUMBERS = Choice("transformer_tiny", 2_000, model="transformer_regressor")

# For problems that have sets of their own; None: the set is that of a translator.
OF_PROBLEM: dict[str, Choice | None] = {
    "quality_tmpdir": None,
    "translate_ende_locale": Choice("transformer_quickstart3", 2_000),
    "translate_enfr_locale": Choice("transformer_quickstart3", 2_000),
    "translate_ende_locale2": Choice("transformer_quickstart2", 1_500),
    "translate_enfr_locale2": Choice("transformer_quickstart2", 1_500),
}

_TRANSLATIONS = ("bleu", "bleu_zh", "chrf")  # metrics of problems that translate
_SUBWORDS = (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM, VocabType.SUBWORD)
# The end of a problem's name that tells its vocabulary: text2text_tmpdir_bpe2k.
_OF_VOCABULARY = re.compile(r"(_bpe|_unigram)?(\d+k)?$")


class Advice(NamedTuple):
    """What to train on data that exists.

    Attributes:
        examples: how many the training split has.
        subwords: the size of the targets' vocabulary.
        choice: the model.
        is_other_size: whether the vocabulary should have another size, that of the choice.
        better: the name of a problem that reads the same text and has such a vocabulary; "": none.
    """

    examples: int
    subwords: int
    choice: Choice
    is_other_size: bool = False
    better: str = ""


def advise(problem: Problem, data_dir: str) -> Advice | None:
    """Returns what to train on the data of a problem; None where the rule is silent.

    Args:
        problem: a problem, perhaps in the form `_rev`, whose files exist.
        data_dir: their folder.
    """
    if not isinstance(problem, Text2TextProblem) or problem.encodes_samples or problem.writes_files:
        return None
    if problem.members != (problem,) or not problem.metrics:
        return None
    if not problem.has_split(DatasetSplit.TRAIN):
        return None
    examples = count_records(problem.existing_filepaths(data_dir, DatasetSplit.TRAIN))
    encoders = problem.get_feature_encoders(data_dir)
    choice = choose(problem, examples, encoders.values())
    if choice is None:
        return None
    subwords = encoders["targets"].vocab_size
    if not choice.subwords:
        return Advice(examples, subwords, choice)
    # A vocabulary may be smaller than its problem says: a small text has no more subwords.
    is_full = subwords > _FULL * problem.approx_vocab_size
    is_small = is_full and problem.approx_vocab_size * _SAME < choice.subwords
    is_large = min(problem.approx_vocab_size, subwords) > choice.subwords * _SAME
    is_other_size = is_small or is_large
    better = other_vocabulary(problem, choice.subwords) if is_other_size else ""
    return Advice(examples, subwords, choice, is_other_size, better)


def choose(
    problem: Text2TextProblem, examples: int, encoders: Iterable[TextEncoder]
) -> Choice | None:
    """Returns the model for a problem; None where the rule is silent.

    Args:
        problem: the problem.
        examples: how many the training split has.
        encoders: of its sides.
    """
    if problem.was_copy:
        return None
    if problem.base_name in OF_PROBLEM:
        return OF_PROBLEM[problem.base_name]
    encoders = tuple(encoders)
    if not problem.has_text_targets:
        choice = LABELS if problem.has_labels else NUMBERS
        return choice if any(map(_has_subwords, encoders)) else None
    if problem.metrics[0] == "bracketing_f1":
        return TREES.choice if examples <= TREES.most else None
    if problem.metrics[0] in _TRANSLATIONS and all(map(_has_subwords, encoders)):
        return for_pairs(examples)
    return None


def for_pairs(pairs: int) -> Choice:
    """Returns the model for so many pairs of texts that translate each other."""
    return next(row.choice for row in PAIRS if pairs <= row.most)


def other_vocabulary(problem: Text2TextProblem, subwords: int) -> str:
    """Returns the name of a problem that reads the same text with a vocabulary of another size.

    Names of such problems differ in their ends alone: `translate_ende_wmt8k` and
    `translate_ende_wmt32k`.

    Args:
        problem: the problem, perhaps in the form `_rev`.
        subwords: the size; one within a factor of 2 will do.

    Returns:
        The name, in the form of the problem; "" if no such problem is registered.
    """
    base = problem.base_name
    stem = _OF_VOCABULARY.sub("", base, count=1)
    names = [name for name in registry.list_problems() if _OF_VOCABULARY.sub("", name, 1) == stem]
    found = {
        name: other
        for name, other in zip(names, map(registry.problem, names), strict=True)
        if isinstance(other, Text2TextProblem)
        and other.vocab_type in _SUBWORDS
        and subwords <= other.approx_vocab_size * _SAME <= subwords * _SAME**2
    }

    def distance(name: str) -> tuple[bool, float]:
        """A vocabulary of the same type is nearer than any other, then the nearest size is."""
        ratio = found[name].approx_vocab_size / subwords
        return found[name].vocab_type != problem.vocab_type, abs(math.log(ratio))

    best = min(found, key=distance, default="")
    return best and best + problem.name.removeprefix(base)


def _has_subwords(encoder: TextEncoder) -> bool:
    from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
    from t2t_lite.text.subword_text_encoder import SubwordTextEncoder

    return isinstance(encoder, SentencePieceEncoder | SubwordTextEncoder)
