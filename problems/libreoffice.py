"""LibreOffice's help: documentation with inline tags, English and seven other languages.

The packages are Debian's, of one version, in `--tmp_dir`; for English and German:

    apt-get download libreoffice-help-en-us libreoffice-help-de

Licence: MPL-2.0; copyright LibreOffice contributors and Oracle.
"""

import hashlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.data.corpora import libreoffice_help
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import TranslateProblem
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType

# Metrics of targets in languages without spaces; others have BLEU.
_METRICS = {"zh": "bleu_zh", "ja": "chrf"}


def split_of(page: str) -> str:
    """Returns the split of a page: of 100, about 85 train, 3 dev, 4 test, and 8 unseen ones.

    The path decides, so that a page is in the same split in every language and version.
    """
    number = int(hashlib.sha256(page.encode("utf-8", "surrogateescape")).hexdigest()[:8], 16) % 100
    if number < 8:
        return DatasetSplit.UNSEEN
    if number < 12:
        return DatasetSplit.TEST
    return DatasetSplit.EVAL if number < 15 else DatasetSplit.TRAIN


class TranslateLibreoffice(TranslateProblem):
    """Base class: English, unless said otherwise, to `targets_language`.

    Tags and entities are as in the pages' HTML.

    Pages are dealt to the splits by their paths: `split_of`. The split `unseen`, 8 % of the pages,
    is for final tests: neither training nor its evaluation reads it.

    Attributes:
        has_tags: whether tags and entities are kept; else there is only text.
    """

    sources_language: ClassVar[str] = "en"
    targets_language: ClassVar[str]
    has_tags: ClassVar[bool] = True

    licence = "MPL-2.0"
    vocab_type = VocabType.SENTENCEPIECE_BPE  # one for both languages
    approx_vocab_size = 16_000

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        self._read: dict[str, list[libreoffice_help.HelpPair]] = {}  # by folder

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training, dev and test, and the pages left for final tests."""
        return [*three_splits(10), {"split": DatasetSplit.UNSEEN, "shards": 1}]

    @property
    def metrics(self) -> Sequence[str]:
        """BLEU; of characters where the targets are Chinese; chrF where they are Japanese."""
        has_source_language = self.was_reversed != self.was_copy
        targets = self.sources_language if has_source_language else self.targets_language
        return (_METRICS.get(targets, "bleu"),)

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the existing packages of both languages."""
        return libreoffice_help.existing_packages(tmp_dir, self.data_languages)

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the packages of both languages; UserError if one is missing."""
        return list(libreoffice_help.require_packages(tmp_dir, self.data_languages).values())

    @property
    def data_languages(self) -> tuple[str, str]:
        """The languages of the sources and of the targets."""
        return self.sources_language, self.targets_language

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the pairs of the pages of a split."""
        for pair in self._pairs(tmp_dir):
            if split_of(pair.page) == dataset_split:
                yield {"inputs": pair.source, "targets": pair.target}

    def _pairs(self, tmp_dir: str) -> Sequence[libreoffice_help.HelpPair]:
        """Returns the pairs of all splits, which are read once: they are in the same packages."""
        if tmp_dir not in self._read:
            form = libreoffice_help.tagged if self.has_tags else libreoffice_help.plain
            pairs = libreoffice_help.help_pairs(tmp_dir, self.data_languages, form, self.bad_input)
            self._read[tmp_dir] = list(pairs)
        return self._read[tmp_dir]


class TranslateLibreofficePlain(TranslateLibreoffice):
    """Base class: the same without tags, and with entities decoded."""

    has_tags = False


@registry.register_problem
class TranslateEndeLibreoffice(TranslateLibreoffice):
    """English-German, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "de"


@registry.register_problem
class TranslateEndeLibreofficePlain(TranslateLibreofficePlain):
    """English-German, without tags. Licence: MPL-2.0."""

    targets_language = "de"


@registry.register_problem
class TranslateEnfrLibreoffice(TranslateLibreoffice):
    """English-French, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "fr"


@registry.register_problem
class TranslateEnfrLibreofficePlain(TranslateLibreofficePlain):
    """English-French, without tags. Licence: MPL-2.0."""

    targets_language = "fr"


@registry.register_problem
class TranslateEnesLibreoffice(TranslateLibreoffice):
    """English-Spanish, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "es"


@registry.register_problem
class TranslateEnesLibreofficePlain(TranslateLibreofficePlain):
    """English-Spanish, without tags. Licence: MPL-2.0."""

    targets_language = "es"


@registry.register_problem
class TranslateEnitLibreoffice(TranslateLibreoffice):
    """English-Italian, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "it"


@registry.register_problem
class TranslateEnitLibreofficePlain(TranslateLibreofficePlain):
    """English-Italian, without tags. Licence: MPL-2.0."""

    targets_language = "it"


@registry.register_problem
class TranslateEncsLibreoffice(TranslateLibreoffice):
    """English-Czech, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "cs"


@registry.register_problem
class TranslateEncsLibreofficePlain(TranslateLibreofficePlain):
    """English-Czech, without tags. Licence: MPL-2.0."""

    targets_language = "cs"


@registry.register_problem
class TranslateEnjaLibreoffice(TranslateLibreoffice):
    """English-Japanese, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "ja"


@registry.register_problem
class TranslateEnjaLibreofficePlain(TranslateLibreofficePlain):
    """English-Japanese, without tags. Licence: MPL-2.0."""

    targets_language = "ja"


@registry.register_problem
class TranslateEnzhLibreoffice(TranslateLibreoffice):
    """English-Chinese, with tags; see `TranslateLibreoffice` for the splits. Licence: MPL-2.0."""

    targets_language = "zh"


@registry.register_problem
class TranslateEnzhLibreofficePlain(TranslateLibreofficePlain):
    """English-Chinese, without tags. Licence: MPL-2.0."""

    targets_language = "zh"


@registry.register_problem
class TranslateDefrLibreofficePlain(TranslateLibreofficePlain):
    """German-French, without tags. Licence: MPL-2.0."""

    sources_language = "de"
    targets_language = "fr"
