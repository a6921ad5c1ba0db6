"""Bracketing scores of parse trees, computed as by EVALB (Sekine and Collins 1997).

A sentence is one line of EVALB's files: usually one tree, or none if the parser failed.

Differences from EVALB: F1 without any brackets is 0, not nan; adjacent quotation marks (see
`EvalbParameters.quote_labels`) are not counted twice; malformed trees and settings are errors.
"""

import collections
import dataclasses
import enum
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_lite.errors import DataError
from t2t_lite.metrics.bracket_matching import Bracket, count_crossing, count_matched
from t2t_lite.metrics.evalb_parameters import COLLINS, EvalbParameters
from t2t_lite.text.trees import Tree, parse_tree

Sentence = Sequence[Tree]

_QUOTES = {"'", '"', "/"}
_FUNCTION_TAG = re.compile("[-=]")
_UNLABELLED = re.compile(r"\((?=\s*[()])", re.ASCII)


class Status(enum.IntEnum):
    """The outcome of scoring a sentence, with EVALB's numbers."""

    VALID = 0
    ERROR = 1  # the two trees have different words
    SKIPPED = 2  # the test tree has no words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts over one or more sentences.

    Attributes:
        matched: brackets that both trees have.
        gold_brackets: brackets of the gold trees.
        test_brackets: brackets of the test trees.
        crossing: test brackets that overlap a gold bracket without nesting.
        words: words that are not left out.
        correct_tags: words with the correct tag.
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
        """Share of the test brackets that are correct, in percent."""
        return _percent(self.matched, self.test_brackets)

    @property
    def tagging_accuracy(self) -> float:
        """Share of the words with the correct tag, in percent."""
        return _percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceScore(Counts):
    """The counts of one sentence, all 0 unless it is valid.

    Attributes:
        length: words of the gold tree, without `delete_labels_for_length`.
        status: whether the sentence could be scored.
        error: EVALB's error message; empty unless the status is ERROR.
    """

    length: int
    status: Status = Status.VALID
    error: str = ""

    @property
    def complete(self) -> bool:
        """Whether both trees have the same brackets."""
        return self.matched == self.gold_brackets == self.test_brackets


@dataclasses.dataclass(frozen=True, kw_only=True)
class BracketingScore(Counts):
    """The counts of all valid sentences, and averages over them.

    Attributes:
        sentences: number of sentences, valid or not.
        errors: sentences whose trees have different words.
        skipped: sentences without a test tree.
        complete_match: percentage of sentences whose trees have the same brackets.
        average_crossing: crossing brackets per sentence.
        no_crossing: percentage of sentences without crossing brackets.
        two_or_less_crossing: percentage of sentences with at most two.
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
        """Number of sentences that were scored."""
        return self.sentences - self.errors - self.skipped

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall in percent; 0 if EVALB would divide 0 by 0."""
        return 2 * self.precision * self.recall / (self.precision + self.recall or 1)


def bracketing_f1(
    gold: Iterable[Sentence],
    test: Iterable[Sentence],
    parameters: EvalbParameters = COLLINS,
    *,
    skip_invalid: bool = True,
) -> BracketingScore:
    """Scores test trees against gold trees, in the same order.

    Args:
        gold: the gold trees.
        test: the trees to score.
        parameters: EVALB's settings.
        skip_invalid: whether to leave invalid sentences out, as EVALB does; otherwise their gold
            brackets count as missed.

    Raises:
        DataError: there are no trees, or the numbers of trees differ.
    """
    gold, test = list(gold), list(test)
    if len(gold) != len(test):
        raise DataError(f"bracketing F1: {len(test)} trees to score but {len(gold)} gold trees")
    if not gold:
        raise DataError("bracketing F1: there are no trees to score")
    pairs = zip(gold, test, strict=True)
    scores = [score_sentence(right, guess, parameters) for right, guess in pairs]
    if not skip_invalid:
        scores = [
            score if score.status is Status.VALID else _nothing_found(right, parameters)
            for score, right in zip(scores, gold, strict=True)
        ]
    return summarize(scores)


def score_sentence(gold: Sentence, test: Sentence, parameters: EvalbParameters) -> SentenceScore:
    """Scores one sentence.

    Labels are cut at the first `-` or `=`, brackets without words are left out, and each gold
    bracket matches at most one test bracket.
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
        matched=count_matched(
            right.brackets, guess.brackets, parameters.equals if parameters.labeled else None
        ),
        gold_brackets=len(right.brackets),
        test_brackets=len(guess.brackets),
        crossing=count_crossing(right.brackets, guess.brackets, len(right.words)),
        words=len(right.words),
        correct_tags=sum(parameters.same_label(one, other) for one, other in tags),
    )


def summarize(scores: Sequence[SentenceScore]) -> BracketingScore:
    """Combines the scores of sentences."""
    valid = [score for score in scores if score.status is Status.VALID]
    names = [field.name for field in dataclasses.fields(Counts)]
    totals = {name: sum(getattr(score, name) for score in valid) for name in names}
    return BracketingScore(
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

    Brackets without a label, such as the `(())` of a failed parse, get the label `-`. It scores as
    an empty label, because labels end at a hyphen.

    Raises:
        DataError: brackets do not pair, or a word is not alone in its bracket.
    """
    # `parse_tree` expects one tree with words, so the line becomes part of one.
    whole = parse_tree(f"(- (- word) {_UNLABELLED.sub('(-', line)})")
    return [child for child in whole.children[1:] if isinstance(child, Tree)]


class _Quote(NamedTuple):
    position: int  # number of counted words before it
    deleted: bool


@dataclasses.dataclass(frozen=True)
class _Reading:
    """A sentence without the words and brackets that are left out."""

    length: int
    words: list[str]
    tags: list[str]
    brackets: list[Bracket]  # by start, outer before inner
    quotes: list[_Quote]


def _read(sentence: Sentence, parameters: EvalbParameters, keep: Iterable[int] = ()) -> _Reading:
    """Lists a sentence's words and brackets; `keep`: indices of quotes to keep."""
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


def _counts(bracket: Bracket, parameters: EvalbParameters) -> bool:
    return bracket.start < bracket.end and parameters.delete_labels.isdisjoint(
        parameters.equals(bracket.label)
    )


def _quotes_to_keep(right: Sequence[_Quote], guess: Sequence[_Quote]) -> tuple[set[int], set[int]]:
    """Returns for each side the indices of the quotes that only that side leaves out."""
    deleted: dict[int, collections.deque[int]] = collections.defaultdict(collections.deque)
    kept = {quote.position for quote in right if not quote.deleted}
    for number, quote in enumerate(right):
        if quote.deleted:
            deleted[quote.position].append(number)
    in_right: set[int] = set()
    in_guess: set[int] = set()
    for number, quote in enumerate(guess):
        # Each quote that is kept moves the words after it on its own side by one.
        position = quote.position + len(in_guess) - len(in_right)
        if quote.deleted and position in kept:
            in_guess.add(number)
        elif not quote.deleted and deleted.get(position):
            in_right.add(deleted[position].popleft())
    return in_right, in_guess


def _nothing_found(right: Sentence, parameters: EvalbParameters) -> SentenceScore:
    whole = score_sentence(right, right, parameters)
    return dataclasses.replace(
        whole, status=Status.VALID, matched=0, test_brackets=0, correct_tags=0
    )


def _difference(right: Sequence[str], guess: Sequence[str], parameters: EvalbParameters) -> str:
    """Returns EVALB's message on how the words differ; empty if they do not."""
    if len(right) != len(guess):
        return f"Length unmatch ({len(right)}|{len(guess)})"
    for one, other in zip(right, guess, strict=True):
        if not parameters.same_word(one, other):
            return f"Words unmatch ({one}|{other})"
    return ""


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
