"""Bracketing scores of parse trees, counted as EVALB counts them (Sekine and Collins 1997).

A sentence is what one line of EVALB's files holds: usually one tree, none where a parser failed.

Differences from EVALB: an F1 without any brackets is 0, not nan; of the quotation marks that
`Parameters.quote_labels` is about, one that stands beside another is not counted twice; malformed
trees and settings are errors.
"""

import collections
import dataclasses
import enum
import functools
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.errors import DataError, did_you_mean, quoted
from t2t_lite.evaluation.brackets import Bracket, crossing, matched
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.text.trees import Tree, parse_tree

log = logging.getLogger("t2t_lite.evaluation")

Sentence = Sequence[Tree]

# The keywords of a .prm file, by the kind of their values: the field that each one fills.
_NUMBERS = {"MAX_ERROR": "max_error", "CUTOFF_LEN": "cutoff_length", "LABELED": "labeled"}
_LABELS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_FIELDS = {"DEBUG": "debug"} | _NUMBERS | _LABELS | _PAIRS

_QUOTES = {"'", '"', "/"}
_FUNCTION_TAG = re.compile("[-=]")
_UNLABELLED = re.compile(r"\((?=\s*[()])", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """What EVALB's .prm files set; the defaults are those that EVALB has without one.

    Attributes:
        max_error: sentences that may be wrong before EVALB stops.
        cutoff_length: words up to which a sentence counts in the second summary.
        labeled: whether a bracket must agree in label, not in span alone.
        delete_labels: as a tag: leave the word out; as a phrase label: leave the bracket out.
        delete_labels_for_length: tags whose words do not count in a sentence's length.
        quote_labels: tags that parsers confuse on quotation marks and apostrophes. Where only one
            of the two trees leaves such a mark out, it is kept in both.
        equal_labels: pairs of labels or tags that count as the same, in either order.
        equal_words: likewise of words.
    """

    max_error: int = 10
    cutoff_length: int = 40
    labeled: bool = True
    delete_labels: frozenset[str] = frozenset()
    delete_labels_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: frozenset[tuple[str, str]] = frozenset()
    equal_words: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Parameters":
        """Reads a .prm file: a keyword and its values a line; `#` begins a line of comment.

        Raises:
            DataError: a line that is no setting; names file and line. EVALB passes over these.
        """
        fields: dict[str, Any] = {}
        sets: dict[str, set[Any]] = collections.defaultdict(set)
        for number, line in enumerate(iterate_lines(path), 1):
            if line.startswith("#") or not line.strip():
                continue
            keyword, *values = line.split()
            try:
                value = _value(keyword, values)
            except DataError as error:
                raise DataError(f"{os.fspath(path)}, line {number}: {error}") from None
            if isinstance(value, int):
                fields[_FIELDS[keyword]] = value
            else:
                sets[_FIELDS[keyword]].add(value)
        fields |= {name: frozenset(values) for name, values in sets.items()}
        if fields.pop("debug", 0):
            log.warning("%s: DEBUG has no effect: EVALB's dump of brackets is not printed", path)
        return cls(**fields)

    @functools.cached_property
    def _equals(self) -> Mapping[str, set[str]]:
        """The labels that count as the same as another one, by that."""
        equals: dict[str, set[str]] = collections.defaultdict(set)
        for one, other in self.equal_labels:
            equals[one].add(other)
            equals[other].add(one)
        return dict(equals)

    def equals(self, label: str) -> set[str]:
        """Returns all labels that count as the same as this one, it included."""
        return {label, *self._equals.get(label, ())}

    def same_label(self, one: str, other: str) -> bool:
        """Whether two labels or tags count as the same."""
        return one == other or not self.equal_labels.isdisjoint([(one, other), (other, one)])

    def same_word(self, one: str, other: str) -> bool:
        """Whether two words count as the same."""
        return one == other or not self.equal_words.isdisjoint([(one, other), (other, one)])


# EVALB's COLLINS.prm: the setting of published results on the Wall Street Journal.
COLLINS = Parameters(
    delete_labels=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    delete_labels_for_length=frozenset(["-NONE-"]),
    equal_labels=frozenset([("ADVP", "PRT")]),
)


class Status(enum.IntEnum):
    """What became of a sentence; the numbers are EVALB's."""

    VALID = 0
    ERROR = 1  # the two sides have different words
    SKIPPED = 2  # the test side has no words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """What is counted in one sentence or in many.

    Attributes:
        matched: brackets of either side that the other has too.
        gold_brackets: brackets of the right trees.
        test_brackets: brackets of the trees that are scored.
        crossing: test brackets that overlap a gold bracket without nesting.
        words: words that are not left out.
        correct_tags: how many of these have the right tag.
    """

    matched: int = 0
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """Share of the gold brackets that were found, in percent."""
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Share of the test brackets that are right, in percent."""
        return _percent(self.matched, self.test_brackets)

    @property
    def tagging_accuracy(self) -> float:
        """Share of the words with the right tag, in percent."""
        return _percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceScore(Counts):
    """One sentence's counts, all 0 unless it is valid.

    Attributes:
        length: words of the gold side, by `delete_labels_for_length`.
        status: whether it could be scored.
        error: what is wrong, in EVALB's words; empty unless the status is ERROR.
    """

    length: int
    status: Status = Status.VALID
    error: str = ""

    @property
    def complete(self) -> bool:
        """Whether both sides have the same brackets."""
        return self.matched == self.gold_brackets == self.test_brackets


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary(Counts):
    """The counts of many sentences, and averages over the valid ones.

    Attributes:
        sentences: all, valid or not.
        errors: how many of them have different words.
        skipped: how many have no test tree.
        complete_match: percentage with the same brackets on both sides.
        average_crossing: crossing brackets a sentence.
        no_crossing: percentage without crossing brackets.
        two_or_less_crossing: percentage with at most two.
    """

    sentences: int
    errors: int
    skipped: int
    complete_match: float
    average_crossing: float
    no_crossing: float
    two_or_less_crossing: float

    @property
    def valid(self) -> int:
        """How many sentences were scored."""
        return self.sentences - self.errors - self.skipped

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall in percent; 0 where EVALB divides 0 by 0."""
        return 2 * self.precision * self.recall / (self.precision + self.recall or 1)


def bracketing_f1(
    gold: Iterable[Sentence],
    test: Iterable[Sentence],
    parameters: Parameters = COLLINS,
    *,
    leave_out: bool = True,
) -> Summary:
    """Scores sentences against the right ones, in the same order.

    Args:
        gold: the right trees.
        test: the trees to score.
        parameters: what counts.
        leave_out: whether sentences that are not valid stay out of the counts, as in EVALB; else
            they count as valid ones of which nothing was found.

    Raises:
        DataError: no sentences, or not as many of one as of the other.
    """
    gold, test = list(gold), list(test)
    if len(gold) != len(test):
        raise DataError(f"bracketing F1: {len(test)} trees to score but {len(gold)} right ones")
    if not gold:
        raise DataError("bracketing F1: there are no trees to score")
    pairs = zip(gold, test, strict=True)
    scores = [score_sentence(right, guess, parameters) for right, guess in pairs]
    if not leave_out:
        scores = [
            score if score.status is Status.VALID else _nothing_found(right, parameters)
            for score, right in zip(scores, gold, strict=True)
        ]
    return summarize(scores)


def score_sentence(gold: Sentence, test: Sentence, parameters: Parameters) -> SentenceScore:
    """Scores one sentence.

    Labels lose what follows their first `-` or `=`, brackets without a word are left out, and each
    gold bracket is matched with at most one test bracket, which counts once.
    """
    right, guess = _read(gold, parameters), _read(test, parameters)
    length = right.length
    if not guess.words:
        return SentenceScore(length=length, status=Status.SKIPPED)
    if len(right.words) != len(guess.words):
        in_right, in_guess = _quotes_to_keep(right.quotes, guess.quotes)
        right, guess = _read(gold, parameters, in_right), _read(test, parameters, in_guess)
    error = _difference(right.words, guess.words, parameters)
    if error:
        return SentenceScore(length=length, status=Status.ERROR, error=error)
    tags = zip(right.tags, guess.tags, strict=True)
    return SentenceScore(
        length=length,
        matched=matched(
            right.brackets, guess.brackets, parameters.equals if parameters.labeled else None
        ),
        gold_brackets=len(right.brackets),
        test_brackets=len(guess.brackets),
        crossing=crossing(right.brackets, guess.brackets, len(right.words)),
        words=len(right.words),
        correct_tags=sum(parameters.same_label(one, other) for one, other in tags),
    )


def summarize(scores: Sequence[SentenceScore]) -> Summary:
    """Adds up the scores of sentences."""
    valid = [score for score in scores if score.status is Status.VALID]
    names = [field.name for field in dataclasses.fields(Counts)]
    totals = {name: sum(getattr(score, name) for score in valid) for name in names}
    return Summary(
        **totals,
        sentences=len(scores),
        errors=sum(score.status is Status.ERROR for score in scores),
        skipped=sum(score.status is Status.SKIPPED for score in scores),
        complete_match=_percent(sum(score.complete for score in valid), len(valid)),
        average_crossing=totals["crossing"] / (len(valid) or 1),
        no_crossing=_percent(sum(score.crossing == 0 for score in valid), len(valid)),
        two_or_less_crossing=_percent(sum(score.crossing <= 2 for score in valid), len(valid)),
    )


def parse_sentence(line: str) -> Sentence:
    """Reads a line as EVALB does: any number of brackets side by side, with or without words.

    Brackets without a label, of which parsers write `(())` where they fail, get the label `-`: the
    scores, for which labels end at a hyphen, take it for none.

    Raises:
        DataError: brackets that do not pair, or a word that is not alone in its bracket.
    """
    # `parse_tree` wants one tree that has words: the line becomes part of one.
    whole = parse_tree(f"(- (- word) {_UNLABELLED.sub('(-', line)})")
    return [child for child in whole.children[1:] if isinstance(child, Tree)]


class _Quote(NamedTuple):
    position: int  # number of words, not left out, before it
    deleted: bool


@dataclasses.dataclass(frozen=True)
class _Reading:
    """A sentence as it is counted: without the words and brackets that are left out."""

    length: int
    words: list[str]
    tags: list[str]
    brackets: list[Bracket]  # by their beginnings, outer before inner
    quotes: list[_Quote]


def _read(sentence: Sentence, parameters: Parameters, keep: Iterable[int] = ()) -> _Reading:
    """Lists a sentence's words and brackets; `keep` numbers quotes that are not left out."""
    words: list[str] = []
    tags: list[str] = []
    quotes: list[_Quote] = []
    brackets: list[Bracket] = []
    unfinished: list[int] = []  # indices into brackets
    length = 0
    for node, begins in (step for tree in sentence for step in tree.walk()):
        if node.word is not None:
            length += node.label not in parameters.delete_labels_for_length
            deleted = node.label in parameters.delete_labels
            is_quote = node.label in parameters.quote_labels and node.word in _QUOTES
            if not deleted or (is_quote and len(quotes) in keep):
                words.append(node.word)
                tags.append(node.label)
            if is_quote:
                quotes.append(_Quote(len(words) - (not deleted), deleted))
        elif begins:
            unfinished.append(len(brackets))
            brackets.append(Bracket(_FUNCTION_TAG.split(node.label)[0], len(words), 0))
        else:
            index = unfinished.pop()
            brackets[index] = brackets[index]._replace(end=len(words))
    return _Reading(length, words, tags, [b for b in brackets if _counts(b, parameters)], quotes)


def _counts(bracket: Bracket, parameters: Parameters) -> bool:
    return bracket.start < bracket.end and parameters.delete_labels.isdisjoint(
        parameters.equals(bracket.label)
    )


def _quotes_to_keep(right: Sequence[_Quote], guess: Sequence[_Quote]) -> tuple[set[int], set[int]]:
    """Returns the numbers of the quotes that only their own side leaves out, for each side."""
    deleted: dict[int, collections.deque[int]] = collections.defaultdict(collections.deque)
    kept = {quote.position for quote in right if not quote.deleted}
    for number, quote in enumerate(right):
        if quote.deleted:
            deleted[quote.position].append(number)
    in_right: set[int] = set()
    in_guess: set[int] = set()
    for number, quote in enumerate(guess):
        # A quote that is kept after all moves what follows it, on its own side, by one word.
        position = quote.position + len(in_guess) - len(in_right)
        if quote.deleted and position in kept:
            in_guess.add(number)
        elif not quote.deleted and deleted.get(position):
            in_right.add(deleted[position].popleft())
    return in_right, in_guess


def _nothing_found(right: Sentence, parameters: Parameters) -> SentenceScore:
    whole = score_sentence(right, right, parameters)
    return dataclasses.replace(
        whole, status=Status.VALID, matched=0, test_brackets=0, correct_tags=0
    )


def _difference(right: Sequence[str], guess: Sequence[str], parameters: Parameters) -> str:
    """Returns how the words differ, in EVALB's words; empty if they do not."""
    if len(right) != len(guess):
        return f"Length unmatch ({len(right)}|{len(guess)})"
    for one, other in zip(right, guess, strict=True):
        if not parameters.same_word(one, other):
            return f"Words unmatch ({one}|{other})"
    return ""


def _value(keyword: str, values: Sequence[str]) -> int | str | tuple[str, ...]:
    """Returns what one line of a .prm file sets, or adds to a set."""
    if keyword not in _FIELDS:
        raise DataError(f"unknown keyword {quoted(keyword)}{did_you_mean(keyword, _FIELDS)}")
    wanted = 2 if keyword in _PAIRS else 1
    if len(values) != wanted:
        raise DataError(f"{keyword} takes {wanted} value{'s'[: wanted - 1]}, got {len(values)}")
    if keyword in _PAIRS:
        return tuple(values)
    if keyword in _LABELS:
        return values[0]
    if not re.fullmatch("[0-9]{1,9}", values[0]):
        raise DataError(f"{keyword} takes a whole number, got {quoted(values[0])}")
    return bool(int(values[0])) if keyword == "LABELED" else int(values[0])


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
