"""The embedded data set: sentences generated from CLDR with Babel, without a download.

Frames of everyday software, shop, travel and e-mail sentences are filled with dates, times,
numbers, prices, measures, languages, countries and cities, formatted by CLDR for each locale.
Each English sentence has one translation; the German and the French set have the same English side.

The second edition has more frames, and half of its sentences are two, side by side or joined by a
conjunction.
"""

import functools
import hashlib
import itertools
import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from t2t_lite import registry
from t2t_lite.data import text_problems
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    from t2t_lite.problems._locale_frames import Frame

log = logging.getLogger(__name__)

BABEL_VERSION = "2.18.0"
SPLIT_SIZES = {DatasetSplit.TRAIN: 30_000, DatasetSplit.EVAL: 1_000, DatasetSplit.TEST: 1_000}
_LOCALES = {"en": "en_US", "de": "de_DE", "fr": "fr_FR"}
# Digests of all pairs, in the order of the splits, as generated with that Babel version, by
# language and edition.
SHA256 = {
    ("de", 1): "2f17183bfa71c0efa760caa058d9f9251163b8011f08f2aa8907593ad2bf4cdd",
    ("fr", 1): "dcec1cbdd39f01c548fef0b0c476d14db79c5c281a78c0e26485548da41e3ead",
    ("de", 2): "7f23e6036c6dc0323814f2ab2b77f6fb80ed52e562d95953192a08518e7c313b",
    ("fr", 2): "c4361aefd3001f8b1eecde0145400a4a3ddd8675c36572c58fd94f7f76fc9580",
}
_SEED = 1

Pair = tuple[str, str]


def _pairs(language: str, edition: int) -> Iterator[Pair]:
    """Yields endless English sentences and their translations; no English sentence is repeated."""
    rng = random.Random(_SEED)
    draw = {1: _one_sentence, 2: _one_or_two}[edition]
    seen = set()
    while True:
        english, translation = draw(rng, language)
        if english not in seen:
            seen.add(english)
            yield english, translation


def _one_sentence(rng: random.Random, language: str) -> Pair:
    """Draws a sentence of the first edition."""
    from t2t_lite.problems._locale_frames import FRAMES

    return _filled(rng, language, FRAMES)


def _one_or_two(rng: random.Random, language: str) -> Pair:
    """Draws a sentence of the second edition: one, two, or two clauses with a conjunction."""
    from t2t_lite.problems import _locale_frames as frames

    if rng.random() < 0.5:
        return _filled(rng, language, frames.FRAMES2)
    if rng.random() < 0.5:
        first, second = (_filled(rng, language, frames.FRAMES2) for _ in range(2))
        return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"
    conjunction = rng.choice(frames.CONJUNCTIONS)
    joining = (conjunction.en, getattr(conjunction, language))
    first, second = (_filled(rng, language, frames.CLAUSES) for _ in range(2))
    english, translation = (
        before.removesuffix(".") + word + frames.continued(after, side)
        for side, before, word, after in zip(("en", language), first, joining, second, strict=True)
    )
    return english, translation


def _filled(rng: random.Random, language: str, frames: "Sequence[Frame]") -> Pair:
    """Draws one of the frames, and fills it."""
    from t2t_lite.problems import _locale_slots

    frame = rng.choice(frames)
    values = _locale_slots.draw(frame.kinds(), rng)
    return (
        _locale_slots.fill(frame.en, values, _locale("en")),
        _locale_slots.fill(getattr(frame, language), values, _locale(language)),
    )


@functools.cache
def _locale(language: str) -> Any:
    """Returns Babel's `Locale`."""
    from babel import Locale

    return Locale.parse(_LOCALES[language])


@functools.cache
def corpus(language: str, edition: int = 1) -> dict[str, list[Pair]]:
    """Generates the data set, which depends only on the Babel version.

    Args:
        language: language of the translations, "de" or "fr".
        edition: 1, or 2 for more frames and sentences of two clauses.

    Returns:
        The pairs of English sentence and translation of each `DatasetSplit`; no English sentence
        occurs twice.

    Raises:
        UserError: Babel is not installed.
    """
    try:
        import babel
    except ModuleNotFoundError as error:
        raise UserError(
            "the embedded data set is generated with Babel, which is not installed; "
            "install it with pip install '.[demo]'"
        ) from error
    pairs = list(itertools.islice(_pairs(language, edition), sum(SPLIT_SIZES.values())))
    # Frames with few fillings are exhausted early; shuffling spreads them over all splits.
    random.Random(_SEED).shuffle(pairs)
    if sha256(pairs) != SHA256[language, edition]:
        log.warning(
            "the embedded data set en-%s, edition %s, differs from the recorded one (Babel %s "
            "here, %s there); scores on it are not comparable",
            language,
            edition,
            babel.__version__,
            BABEL_VERSION,
        )
    remaining = iter(pairs)
    return {split: list(itertools.islice(remaining, n)) for split, n in SPLIT_SIZES.items()}


def sha256(pairs: Iterable[Pair]) -> str:
    """Returns the hexadecimal digest of the pairs as lines "English<tab>translation"."""
    lines = "".join(f"{english}\t{translation}\n" for english, translation in pairs)
    return hashlib.sha256(lines.encode()).hexdigest()


class _LocaleProblem(text_problems.TranslateProblem):
    """Base class of both language pairs and editions."""

    language: ClassVar[str]
    edition: ClassVar[int] = 1
    licence = "Unicode-3.0"  # CLDR's
    # 30,000 sentences for training, 1,000 for evaluation and 1,000 for testing.
    dataset_splits = three_splits(10)
    # Preserves CLDR's no-break spaces.
    vocab_type = text_problems.VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 2_000  # enough to make most words of the frames and most names one subword

    def generate_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[text_problems.Sample]:
        """Yields the generated pairs of a split, without reading or writing files."""
        for english, translation in corpus(self.language, self.edition)[dataset_split]:
            yield {"inputs": english, "targets": translation}


@registry.register_problem
class TranslateEndeLocale(_LocaleProblem):
    """Generated sentences, English to German."""

    language = "de"


@registry.register_problem
class TranslateEnfrLocale(_LocaleProblem):
    """Generated sentences, English to French."""

    language = "fr"


@registry.register_problem
class TranslateEndeLocale2(TranslateEndeLocale):
    """Generated sentences, English to German: more frames, and two clauses or sentences in one."""

    edition = 2
    approx_vocab_size = 3_000  # as for the first edition, with more words


@registry.register_problem
class TranslateEnfrLocale2(TranslateEnfrLocale):
    """Generated sentences, English to French: more frames, and two clauses or sentences in one."""

    edition = 2
    approx_vocab_size = 3_000  # as for the first edition, with more words
