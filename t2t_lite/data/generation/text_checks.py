"""Checks of pairs of text for faults that raise no error, but spoil a model.

They look at a sample of the text, and need no knowledge of its languages: the frequent words of one
side tell it from the other.
"""

import collections
import math
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.data.corpora import archives
from t2t_lite.errors import UserError
from t2t_lite.text.text_files import iterate_lines

# How programs spell an empty cell of a table. Words of a language count only opposite a long text.
_MISSING = frozenset({"nan", "NaN", "NAN", "<NA>", "#N/A", "NaT"})
_MISSING_WORDS = frozenset({"None", "none", "NULL", "null", "NA", "N/A", "n/a", "undefined"})
_LONG = 20  # characters

# Scripts that are written without spaces: Thai to Tibetan, Burmese, Khmer, Chinese, Japanese.
_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"\w(?:\S*\w)?")
_FEWEST_WORDS = 3  # of a sentence, and a quarter of its characters in a script without spaces
_FEWEST_PAIRS = 24  # on which a profile of two languages is based
_FEW_PAIRS = 5  # that show whether sides share their words
_TOP_WORDS = 200
_LEAST_COUNT = 4  # of a word that says something about its side
_STRONGEST = 3.0  # most that a word says, in nats
_DECISIVE = 4.0  # nats for a pair's direction
_ROUNDS = 4
# Greatest overlap of the frequent words of two languages: English and German have 0.05 to 0.16, two
# halves of a text 0.7 to 0.9, or 0.38 and more if they have 24 lines each.
_TWO_LANGUAGES = 0.35
# Greatest share of its words that a source has in common with its translation, on average.
_TRANSLATED = 0.3


class Pair(NamedTuple):
    """A sample with its number, from 1."""

    number: int
    inputs: str
    targets: str

    def side(self, name: str) -> str:
        """Returns `inputs` or `targets`."""
        return self.inputs if name == "inputs" else self.targets


def missing_cell(text: str, opposite: str) -> bool:
    """Whether a text is what programs write for an empty cell of a table.

    Args:
        text: a side of a sample.
        opposite: its other side; "" if there is none.
    """
    if "\t" in text:  # several texts on a line
        return any(missing_cell(cell, opposite) for cell in text.split("\t"))
    return text in _MISSING or (text in _MISSING_WORDS and len(opposite) >= _LONG)


def is_sentence(text: str) -> bool:
    """Whether a text has some words that are not names, numbers or symbols."""
    if len(_UNSPACED.findall(text)) >= 4 * _FEWEST_WORDS:
        return True
    words = _WORD.findall(text)
    return sum(word.isalpha() and not word[0].isupper() for word in words) >= _FEWEST_WORDS


def words(text: str) -> list[str]:
    """Returns the words of a text, or its characters if its script has no spaces."""
    if _UNSPACED.search(text):
        return [character for character in text if character.isalpha()]
    return [word for word in _WORD.findall(text.lower()) if not word.isnumeric()]


class Directions:
    """Tells the source language from the target language by the frequent words of some pairs.

    Pairs whose sides are exchanged blur the two profiles; so those are turned around, and the
    profiles made again, until nothing changes.

    Args:
        pairs: most of them in the right direction.

    Attributes:
        have_two_languages: whether the sides differ as two languages do; if not, nothing else here
            means anything.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._weights: dict[str, float] = {}
        self._overlap = 1.0
        sides = [(words(pair.inputs), words(pair.targets)) for pair in pairs if is_contrast(pair)]
        turned = [False] * len(sides)
        for _ in range(_ROUNDS):
            self._set_profiles(sides, turned)
            before, turned = turned, [self._evidence(*pair) < 0 for pair in sides]
            if turned == before:
                break
        self.have_two_languages = len(sides) >= _FEWEST_PAIRS and self._overlap < _TWO_LANGUAGES
        if sum(turned) > len(turned) / 2:  # the more frequent direction is the right one
            self._weights = {word: -weight for word, weight in self._weights.items()}

    def _set_profiles(
        self, sides: Sequence[tuple[list[str], list[str]]], turned: Sequence[bool]
    ) -> None:
        counts: tuple[collections.Counter[str], ...] = collections.Counter(), collections.Counter()
        for pair, is_turned in zip(sides, turned, strict=True):
            for side, found in enumerate(pair):
                counts[side != is_turned].update(found)
        sources, targets = counts
        totals = [max(side.total(), 1) for side in counts]
        self._weights = {}
        for word in sources | targets:
            if sources[word] + targets[word] >= _LEAST_COUNT:
                weight = math.log(
                    (sources[word] + 0.5) / totals[0] / ((targets[word] + 0.5) / totals[1])
                )
                self._weights[word] = min(max(weight, -_STRONGEST), _STRONGEST)
        self._overlap = _overlap(*counts)

    def _evidence(self, source: Sequence[str], target: Sequence[str]) -> float:
        """Returns how much the words say for this direction, in nats."""
        weights = self._weights
        return sum(weights.get(word, 0) for word in source) - sum(
            weights.get(word, 0) for word in target
        )

    def exchanged(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Returns the pairs whose sides are exchanged."""
        if not self.have_two_languages:
            return []
        return [
            pair
            for pair in pairs
            if self._evidence(words(pair.inputs), words(pair.targets)) <= -_DECISIVE
        ]


def is_nfc(text: str) -> bool | None:
    """Returns whether a text is in Unicode's form NFC; None if it is so in NFD as well."""
    if not unicodedata.is_normalized("NFC", text):
        return False
    return None if unicodedata.is_normalized("NFD", text) else True


def is_contrast(pair: Pair) -> bool:
    """Whether both sides of a pair have text, and not the same."""
    return bool(pair.inputs and pair.targets) and pair.inputs.strip() != pair.targets.strip()


def are_translations(pairs: Sequence[Pair]) -> bool:
    """Whether sides that differ at all have few words in common: copies are faults then.

    Where texts are corrected or shortened, many stay the same.
    """
    shares = []
    for pair in filter(is_contrast, pairs):
        source, target = set(words(pair.inputs)), set(words(pair.targets))
        if source and target:
            shares.append(len(source & target) / min(len(source), len(target)))
    return len(shares) >= _FEW_PAIRS and sum(shares) / len(shares) < _TRANSLATED


def copies(pairs: Sequence[Pair]) -> tuple[list[Pair], int]:
    """Returns the sentences that are the same on both sides, and the number of all sentences.

    Pairs without a target, as of an unlabelled test split, are left out.
    """
    both = (pair for pair in pairs if pair.inputs and pair.targets)
    sentences = [pair for pair in both if is_sentence(pair.inputs) or is_sentence(pair.targets)]
    return [pair for pair in sentences if not is_contrast(pair)], len(sentences)


def _overlap(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Returns the Bhattacharyya coefficient of the frequent words of two texts."""
    profiles = []
    for counts in (one, other):
        frequent = dict(collections.Counter(counts).most_common(_TOP_WORDS))
        total = sum(frequent.values())
        profiles.append({word: count / total for word, count in frequent.items()})
    first, second = profiles
    return sum(math.sqrt(share * second.get(word, 0)) for word, share in first.items())


# ---- where a sample stands in the files that it is read from

# Lines of a file that may be the place.
_MOST_LINES = 1000


def find_place(paths: Iterable[pathlib.Path], source: str, target: str) -> str:
    """Returns the file and line of a pair of texts, or "" if no line has them as they are.

    Args:
        paths: files of lines, one of them for each side, or tables with tabs. Archives and other
            formats are searched in vain.
        source: the source; "" if there is none.
        target: the target.
    """
    sides = [side for side in (source.strip(), target.strip()) if side]
    by_side: list[dict[str, list[int]]] = [{} for _ in sides]
    for path in dict.fromkeys(str(path) for path in paths if not archives.is_archive(path.name)):
        try:
            for number, line in enumerate(iterate_lines(path), 1):
                cells = [line.strip(), *map(str.strip, line.split("\t"))]
                for side, places in zip(sides, by_side, strict=True):
                    if side in cells and len(places.setdefault(path, [])) < _MOST_LINES:
                        places[path].append(number)
        except (UserError, OSError):
            continue
    if not all(by_side):
        return ""
    first, last = by_side[0], by_side[-1]
    for path, numbers in first.items():
        for others in last.values():
            if common := sorted(set(numbers).intersection(others)):
                return f"{path}, line {common[0]:,}"
    return ""
