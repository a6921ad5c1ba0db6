"""The embedded data set: sentences generated from CLDR with Babel, without a download.

Frames of everyday software, shop, travel and e-mail sentences are filled with dates, times,
numbers, prices, measures, languages, countries and cities, formatted by CLDR for each locale.
Each English sentence has one translation; the German and the French set have the same English side.
"""

import functools
import hashlib
import itertools
import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.data import text_problems
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.errors import UserError

log = logging.getLogger(__name__)

BABEL_VERSION = "2.18.0"
SPLIT_SIZES = {DatasetSplit.TRAIN: 30_000, DatasetSplit.EVAL: 1_000, DatasetSplit.TEST: 1_000}
_LOCALES = {"en": "en_US", "de": "de_DE", "fr": "fr_FR"}
# Digests of all pairs, in the order of the splits, as generated with that Babel version.
SHA256 = {
    "de": "2f17183bfa71c0efa760caa058d9f9251163b8011f08f2aa8907593ad2bf4cdd",
    "fr": "dcec1cbdd39f01c548fef0b0c476d14db79c5c281a78c0e26485548da41e3ead",
}
_SEED = 1

Pair = tuple[str, str]


def _pairs(language: str) -> Iterator[Pair]:
    """Yields endless English sentences and their translations; no English sentence is repeated."""
    from babel import Locale

    from t2t_lite.problems import _locale_slots
    from t2t_lite.problems._locale_frames import FRAMES

    rng = random.Random(_SEED)
    source, target = Locale.parse(_LOCALES["en"]), Locale.parse(_LOCALES[language])
    seen = set()
    while True:
        frame = rng.choice(FRAMES)
        values = _locale_slots.draw(frame.kinds(), rng)
        english = _locale_slots.fill(frame.en, values, source)
        if english not in seen:
            seen.add(english)
            yield english, _locale_slots.fill(getattr(frame, language), values, target)


@functools.cache
def corpus(language: str) -> dict[str, list[Pair]]:
    """Generates the data set, which depends only on the Babel version.

    Args:
        language: language of the translations, "de" or "fr".

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
            "install it with pip install 't2t_lite[demo]'"
        ) from error
    pairs = list(itertools.islice(_pairs(language), sum(SPLIT_SIZES.values())))
    # Frames with few fillings are exhausted early; shuffling spreads them over all splits.
    random.Random(_SEED).shuffle(pairs)
    if sha256(pairs) != SHA256[language]:
        log.warning(
            "the embedded data set en-%s differs from the recorded one (Babel %s here, %s there); "
            "scores on it are not comparable",
            language,
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
    """Base class of both language pairs."""

    language: ClassVar[str]

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """30,000 sentences for training, 1,000 for evaluation and 1,000 for testing."""
        return three_splits(10)

    @property
    def vocab_type(self) -> str:
        """SentencePiece BPE, which preserves CLDR's no-break spaces."""
        return text_problems.VocabType.SENTENCEPIECE_BPE

    @property
    def approx_vocab_size(self) -> int:
        """Enough to make most words of the frames and most names one subword."""
        return 2_000

    def generate_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[text_problems.Sample]:
        """Yields the generated pairs of a split, without reading or writing files.

        Raises:
            UserError: Babel is not installed.
        """
        for english, translation in corpus(self.language)[dataset_split]:
            yield {"inputs": english, "targets": translation}


@registry.register_problem
class TranslateEndeLocale(_LocaleProblem):
    """Generated sentences, English to German."""

    language = "de"


@registry.register_problem
class TranslateEnfrLocale(_LocaleProblem):
    """Generated sentences, English to French."""

    language = "fr"
