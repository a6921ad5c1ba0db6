"""Lists of terms: which target forms a source asks for, and which words no output may contain."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from t2t_lite.errors import DataError, UsageError, quoted
from t2t_lite.terms.word_borders import first_word, is_border, occurrences
from t2t_lite.text.text_files import iterate_lines

TERMS_HELP = (
    "Terms: lines of a source term, a tab and its target term, or several forms with tabs "
    "between them. Wherever the source term stands, one of the forms appears in the output."
)
FORBID_HELP = "Words that must not appear in the output, one word or phrase per line."

# What an API takes for terms: the form or forms of each source term.
TermMapping = Mapping[str, str | Sequence[str]]


class Wanted(NamedTuple):
    """What a source asks for."""

    term: str  # the source term, as in the list
    forms: tuple[str, ...]  # one of them must appear in the output
    times: int  # how often


class TermUse(NamedTuple):
    """What an output made of it."""

    wanted: Wanted
    met: int  # how many times, at most `wanted.times`


@dataclasses.dataclass(frozen=True)
class TermList:
    """Terms and forbidden words.

    A source term matches whole words, the longest term first, and no word belongs to two. It
    matches as it is written, or with its first letter as a capital, which begins a sentence. Target
    forms appear exactly as they are written, forbidden words also not with a capital.

    Args:
        forms: the forms of each source term.
        forbidden: words or phrases.
    """

    forms: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    forbidden: tuple[str, ...] = ()

    @classmethod
    def read(cls, terms: str = "", forbidden: str = "") -> Self:
        """Reads the files of terms and of forbidden words; "": there is none.

        Raises:
            DataError: a line has no target term, or an empty one.
        """
        forms = _read_terms(terms) if terms else {}
        words = [_clean(line) for line in iterate_lines(forbidden)] if forbidden else []
        return cls(forms, tuple(dict.fromkeys(filter(None, words))))

    @classmethod
    def of(cls, terms: Any = None, forbid: Any = None) -> Self:
        """Checks what an API was given: a mapping of terms to a form or several, and words.

        Raises:
            UsageError: it is something else, or a text is empty.
        """
        if not isinstance(terms or {}, Mapping):
            raise UsageError(
                f'terms={quoted(terms)}: expected a mapping such as {{"file": "Datei"}}'
            )
        if isinstance(forbid, str) or not isinstance(forbid or (), Sequence):
            raise UsageError(
                f'forbid={quoted(forbid)}: expected a list of words such as ["Ordner"]'
            )
        forms = {}
        for term, given in (terms or {}).items():
            listed = [given] if isinstance(given, str) else given
            if not isinstance(listed, Sequence) or not listed:
                raise UsageError(f"terms: {quoted(term)} has {quoted(given)}: expected its forms")
            forms[_text(term, "terms")] = tuple(_text(form, "terms") for form in listed)
        return cls(forms, tuple(_text(word, "forbid") for word in forbid or ()))

    def __bool__(self) -> bool:
        return bool(self.forms or self.forbidden)

    def wanted(self, source: str) -> list[Wanted]:
        """Returns what a source asks for, in the order of its first occurrences."""
        counts = collections.Counter(term for _, term in self.places(source))
        return [Wanted(term, self.forms[term], count) for term, count in counts.items()]

    def places(self, source: str) -> Iterator[tuple[int, str]]:
        """Yields where each term stands in a source, and the term, in order."""
        place = 0
        while place < len(source):
            term = self._term_at(source, place) if is_border(source, place) else ""
            if term:
                yield place, term
            place += len(term) or 1

    def found_forbidden(self, output: str) -> set[str]:
        """Returns the spellings of forbidden words in an output."""
        return {word for word in self.spellings if word in output and occurs(word, output)}

    @functools.cached_property
    def spellings(self) -> Sequence[str]:
        """The forbidden words, as they are written and with a capital."""
        return [*dict.fromkeys(s for word in self.forbidden for s in (word, _capitalized(word)))]

    def _term_at(self, source: str, place: int) -> str:
        """Returns the longest term at a place of a source; "": there is none."""
        for term in self._by_first_word.get(first_word(source, place), ()):
            end = place + len(term)
            if source.startswith((term, _capitalized(term)), place) and is_border(source, end):
                return term
        return ""

    @functools.cached_property
    def _by_first_word(self) -> dict[str, list[str]]:
        """The terms by the word that they begin with, as it may be written; longest first."""
        found = collections.defaultdict(list)
        for term in sorted(self.forms, key=lambda term: (-len(term), term)):
            word = first_word(term)
            for spelling in dict.fromkeys((word, _capitalized(word))):
                found[spelling].append(term)
        return dict(found)


def occurs(word: str, text: str) -> bool:
    """Returns whether a word or phrase stands in a text, as a whole."""
    return any(True for _ in occurrences([word], text))


def uses(wanted: Iterable[Wanted], output: str) -> list[TermUse]:
    """Returns how many times an output meets what its source asks for.

    Source terms with the same forms share the occurrences: the first ones are met first.
    """
    left: dict[tuple[str, ...], int] = {}
    found = []
    for one in wanted:
        if one.forms not in left:
            left[one.forms] = sum(1 for _ in occurrences(one.forms, output))
        met = min(one.times, left[one.forms])
        left[one.forms] -= met
        found.append(TermUse(one, met))
    return found


def _read_terms(path: str) -> dict[str, tuple[str, ...]]:
    forms: dict[str, list[str]] = collections.defaultdict(list)
    for number, line in enumerate(iterate_lines(path), 1):
        if not line.strip():
            continue
        term, *targets = (_clean(column) for column in line.split("\t"))
        targets = [*filter(None, targets)]
        if not term or not targets:
            raise DataError(
                f"{path}, line {number}: expected a source term, a tab and a target term, got "
                f"{quoted(line)}"
            )
        forms[term] += targets
    return {term: tuple(dict.fromkeys(targets)) for term, targets in forms.items()}


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not _clean(value):
        raise UsageError(f"{name}: {quoted(value)}: expected a word or phrase")
    return _clean(value)


def _clean(text: str) -> str:
    return " ".join(text.split())


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
