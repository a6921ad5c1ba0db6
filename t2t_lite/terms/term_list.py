"""Lists of terms: which target forms a source asks for, and which words no output may contain."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from t2t_lite.errors import DataError, UsageError, quoted, surrogate_in
from t2t_lite.terms.word_borders import occurrences, parts_of
from t2t_lite.text.source_form import source_form
from t2t_lite.text.text_files import iterate_lines

TERMS_HELP = (
    "Terms: lines of a source term, a tab and its target term, or several forms with tabs "
    "between them. Wherever the source term stands, one of the forms appears in the output."
)
FORBID_HELP = "Words that must not appear in the output, one word or phrase per line."

# What tables for a search cost grows with the characters of the forms that a source asks for.
LONGEST = 200  # of a term, a form or a forbidden word
MOST_WANTED = 10_000  # of all forms that a source asks for
MOST_FORBIDDEN = 4_000  # of all words, where a search minds all

_KEPT = 256  # sources for which it is known what they ask for

# What an API takes for terms: the form or forms of each source term.
TermMapping = Mapping[str, str | Sequence[str]]


class Wanted(NamedTuple):
    """What a source asks for."""

    term: str  # the source term, as in the list
    forms: tuple[str, ...]  # one of them must appear in the output
    times: int  # how often


class TooLongError(UsageError):
    """A term, a form or a forbidden word has more than `LONGEST` characters."""


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
            DataError: a line has no target term, an empty one, or one that is too long.
        """
        return cls(read_forms(terms) if terms else {}, read_words(forbidden) if forbidden else ())

    @classmethod
    def of(cls, terms: Any = None, forbid: Any = None) -> Self:
        """Checks what an API was given: a mapping of terms to a form or several, and words.

        Raises:
            UsageError: it is something else, or a text is empty, too long or no valid Unicode.
        """
        return cls(checked_forms(terms, "terms"), checked_words(forbid, "forbid"))

    def __bool__(self) -> bool:
        return bool(self.forms or self.forbidden)

    @functools.cached_property
    def of_source_form(self) -> "TermList":
        """The same for sources in `source_form`: their terms have this form, too."""
        forms: dict[str, tuple[str, ...]] = {}
        for term, targets in self.forms.items():
            form = source_form(term).strip() or term
            forms[form] = tuple(dict.fromkeys([*forms.get(form, ()), *targets]))
        return dataclasses.replace(self, forms=forms) if forms != self.forms else self

    def wanted(self, source: str) -> Sequence[Wanted]:
        """Returns what a source asks for, in the order of its first occurrences."""
        return self._wanted_of(source)

    @functools.cached_property
    def _wanted_of(self) -> Callable[[str], Sequence[Wanted]]:
        """What some sources ask for: the search and what shows its outputs ask again."""

        def wanted(source: str) -> Sequence[Wanted]:
            counts = collections.Counter(term for _, term in self.places(source))
            return [Wanted(term, self.forms[term], count) for term, count in counts.items()]

        return functools.lru_cache(_KEPT)(wanted)

    def size(self, source: str) -> int:
        """Returns the characters of all forms that a source asks for."""
        return sum(len(form) for one in self.wanted(source) for form in one.forms)

    def places(self, source: str) -> Iterator[tuple[int, str]]:
        """Yields where each term stands in a source, and the term, in order."""
        parts = parts_of(source) if self.forms else []
        place = at = 0  # in characters, and in parts
        while at < len(parts):
            term, count = self._term_at(parts, at)
            if count:
                yield place, term
            place += sum(map(len, parts[at : at + (count or 1)]))
            at += count or 1

    def found_forbidden(self, output: str) -> set[str]:
        """Returns the spellings of forbidden words in an output."""
        return {word for word in self.spellings if word in output and occurs(word, output)}

    @functools.cached_property
    def spellings(self) -> Sequence[str]:
        """The forbidden words, as they are written and with a capital."""
        return [*dict.fromkeys(s for word in self.forbidden for s in (word, _capitalized(word)))]

    def _term_at(self, parts: Sequence[str], at: int) -> tuple[str, int]:
        """Returns the longest term that begins with a part, and of how many parts; 0: none."""
        found, node = ("", 0), self._beginnings
        for end in range(at, len(parts)):
            if parts[end] not in node.following:
                break
            node = node.following[parts[end]]
            if node.term:
                found = node.term, end + 1 - at
        return found

    @functools.cached_property
    def _beginnings(self) -> "_Beginning":
        """The empty beginning of all terms."""
        root = _Beginning("", {})
        for spell in (str, _capitalized):  # a term as it is written comes before others' capitals
            for term in self.forms:
                node = root
                for part in parts_of(spell(term)):
                    node = node.following.setdefault(part, _Beginning("", {}))
                node.term = node.term or term
        return root


@dataclasses.dataclass(slots=True)
class _Beginning:
    """The beginning of some terms.

    Attributes:
        term: the term that ends here; "": none.
        following: the beginnings that are longer, by their last part (see `parts_of`).
    """

    term: str
    following: dict[str, "_Beginning"]


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


def checked_forms(terms: Any, name: str) -> dict[str, tuple[str, ...]]:
    """Returns the forms of each term of a mapping; `name` is the argument's, for errors.

    Raises:
        UsageError: as in `TermList.of`.
    """
    if not isinstance(terms or {}, Mapping):
        raise UsageError(f'{name}={quoted(terms)}: expected a mapping such as {{"file": "Datei"}}')
    forms = {}
    for term, given in (terms or {}).items():
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, Sequence) or not listed:
            raise UsageError(f"{name}: {quoted(term)} has {quoted(given)}: expected its forms")
        forms[_text(term, name)] = tuple(_text(form, name) for form in listed)
    return forms


def checked_words(words: Any, name: str) -> tuple[str, ...]:
    """Returns the words of a list; `name` is the argument's, for errors.

    Raises:
        UsageError: as in `TermList.of`.
    """
    if isinstance(words, str) or not isinstance(words or (), Sequence):
        raise UsageError(f'{name}={quoted(words)}: expected a list of words such as ["Ordner"]')
    return tuple(_text(word, name) for word in words or ())


def read_words(path: str) -> tuple[str, ...]:
    """Returns the words of a file, each once; errors as in `TermList.read`."""
    words = {_read(line, path, number): None for number, line in enumerate(iterate_lines(path), 1)}
    return tuple(filter(None, words))


def read_forms(path: str) -> dict[str, tuple[str, ...]]:
    """Returns the forms of each term of a file; errors as in `TermList.read`."""
    forms: dict[str, list[str]] = collections.defaultdict(list)
    for number, line in enumerate(iterate_lines(path), 1):
        if not line.strip():
            continue
        term, *targets = (_read(column, path, number) for column in line.split("\t"))
        targets = [*filter(None, targets)]
        if not term or not targets:
            raise DataError(
                f"{path}, line {number}: expected a source term, a tab and a target term, got "
                f"{quoted(line)}"
            )
        forms[term] += targets
    return {term: tuple(dict.fromkeys(targets)) for term, targets in forms.items()}


def _read(text: str, path: str, number: int) -> str:
    try:
        return _short(_clean(text))
    except TooLongError as error:
        raise DataError(f"{path}, line {number}: {error}") from None


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not (text := _clean(value)):
        raise UsageError(f"{name}: {quoted(value)}: expected a word or phrase")
    if fault := surrogate_in(text):
        raise UsageError(f"{name}: {quoted(value)} holds {fault}")
    return _short(text)


def _short(text: str) -> str:
    if len(text) > LONGEST:
        raise TooLongError(
            f"a term or word has {len(text)} characters: at most {LONGEST} are allowed: "
            f"{quoted(text)}"
        )
    return text


def _clean(text: str) -> str:
    return " ".join(text.split())


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
