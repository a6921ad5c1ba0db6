"""Cleaning of training pairs by named rules, all off by default.

The rules are applied in the order of `RULES`, and a pair counts under the first one that it breaks:

    empty         one side has no text
    identical     both sides are the same text: a copy instead of a translation
    max_length=N  one side is longer than N
    max_ratio=X   (longer side + 1) / (shorter side + 1) exceeds X; the 1 is the end of the
                  sentence, and spares short pairs ("Danke" - "Thank you")
    script=A-B    more than half of the letters of the sources are not of script A, or of the
                  targets not of B: ISO 15924 codes (Latn, Cyrl, Arab), several with "+"
                  (Latn-Hani+Hira+Kana); digits and punctuation belong to every script
    min_score=X   the pair's score is less than X
    best_share=X  the pair's score is less than that of the best pairs, which are the share X of all
                  pairs of the text, whatever other rules drop
    duplicates    the same pair has been kept before

A language model's sample is one text: only `identical` and `max_ratio` do not apply to it. With
labels as targets, `max_ratio` is refused. Scores are those of a file (pair_scores.py).

Lengths are in words separated by white space or, with `unit=char`, in characters: for Chinese,
Japanese and Thai, which are written without spaces. Names follow OpusFilter and OpusCleaner.
"""

import array
import collections
import dataclasses
import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import regex

from t2t_lite.data.generation.pair_scores import PairScores
from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.text.sample import Sample
from t2t_lite.text.source_form import has_text

log = logging.getLogger(__name__)

_SCORE_RULES = ("min_score", "best_share")
RULES = ("empty", "identical", "max_length", "max_ratio", "script", *_SCORE_RULES, "duplicates")

_UNITS: Mapping[str, Callable[[str], int]] = {
    "word": lambda text: len(text.split()),
    "char": len,
}
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "max_length": int,
    "max_ratio": float,
    "script": str,
    "min_score": float,
    "best_share": float,
    "unit": str,
}


@dataclasses.dataclass(frozen=True)
class CleaningRules:
    """Which pairs to drop; the module's docstring defines each rule.

    Attributes:
        empty: drop pairs with an empty side.
        identical: drop pairs whose sides are the same.
        max_length: words or characters of the longest side to keep; None: any.
        max_ratio: greatest ratio of the lengths to keep, at least 1; None: any.
        script: script codes of sources and targets, such as "Latn-Cyrl"; None: any.
        min_score: least score to keep; None: any.
        best_share: share of the pairs to keep, those with the best scores; None: all.
        duplicates: drop a pair that occurred before.
        unit: the unit of lengths: "word" or "char".
    """

    empty: bool = False
    identical: bool = False
    max_length: int | None = None
    max_ratio: float | None = None
    script: str | None = None
    min_score: float | None = None
    best_share: float | None = None
    duplicates: bool = False
    unit: str = "word"

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise UsageError(f"cleaning rule max_length={self.max_length}: at least 1 is needed")
        if self.max_ratio is not None and not self.max_ratio >= 1:
            raise UsageError(f"cleaning rule max_ratio={self.max_ratio}: at least 1 is needed")
        if self.min_score is not None and math.isnan(self.min_score):
            raise UsageError("cleaning rule min_score=nan: a number is needed")
        if self.best_share is not None and not 0 < self.best_share <= 1:
            raise UsageError(
                f"cleaning rule best_share={self.best_share}: above 0 and at most 1 is needed"
            )
        if self.unit not in _UNITS:
            raise UsageError(f"cleaning rule unit={self.unit}: write word or char")
        if self.script is not None:
            _script_checks(self.script)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a flag such as `"identical,max_ratio=3,script=Latn-Latn,duplicates"`.

        Raises:
            UsageError: a rule is unknown, given twice, or has a wrong value.
        """
        rules: dict[str, Any] = {}
        names = [field.name for field in dataclasses.fields(cls)]
        for item in filter(None, map(str.strip, text.split(","))):
            name, equals, value = (part.strip() for part in item.partition("="))
            if name not in names:
                raise UsageError(
                    f"unknown cleaning rule {name!r}; known rules: {', '.join(names)}"
                    f"{did_you_mean(name, names)}"
                )
            if name in rules:
                raise UsageError(f"cleaning rule {name!r} is given twice in {text!r}")
            if bool(equals) != (name in _VALUES):
                form = f"{name}=VALUE" if name in _VALUES else name
                raise UsageError(f"cleaning rule {item!r}: write {form}")
            try:
                rules[name] = _VALUES[name](value) if equals else True
            except ValueError:
                kind = "whole number" if _VALUES[name] is int else "number"
                raise UsageError(f"cleaning rule {name}: {value!r} is not a {kind}") from None
        return cls(**rules)

    def __str__(self) -> str:
        """The rules in the syntax of `parse`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        chosen = {name: value for name, value in values.items() if value != defaults[name]}
        return ",".join(
            name if value is True else f"{name}={value}" for name, value in chosen.items()
        )

    @property
    def active(self) -> list[str]:
        """Names of the active rules, in the order in which they are applied."""
        # `0 in (False, None)` is true: min_score=0 is a rule.
        values = {name: getattr(self, name) for name in RULES}
        return [name for name, value in values.items() if value is not None and value is not False]

    @property
    def reads_scores(self) -> bool:
        """Whether a rule needs the scores of the pairs."""
        return any(name in _SCORE_RULES for name in self.active)


class Cleaner:
    """Applies the rules to a sequence of pairs, and counts.

    Args:
        rules: which pairs to drop.
        scores: those of the pairs, in their order; None if no rule reads them.
        sides: those whose lengths count.

    Attributes:
        dropped: number of pairs that broke each rule, in the order of the rules.
        kept: number of pairs that broke none.
    """

    def __init__(
        self,
        rules: CleaningRules,
        scores: PairScores | None = None,
        sides: Sequence[str] = ("inputs", "targets"),
    ) -> None:
        self.dropped = collections.Counter(dict.fromkeys(rules.active, 0))
        self.kept = 0
        self._rules = rules
        self._length = _UNITS[rules.unit]
        self._sides = sides
        self._script_checks = _script_checks(rules.script) if rules.script is not None else None
        self._seen = SeenPairs() if rules.duplicates else None
        self._scores = scores
        self._least: dict[str, float] = {}  # score to keep, by rule
        if scores is not None and rules.min_score is not None:
            self._least["min_score"] = rules.min_score
        if scores is not None and rules.best_share is not None:
            self._least["best_share"] = scores.least_of_best(rules.best_share)

    def keeps(self, sample: Sample) -> bool:
        """Returns whether the pair breaks no rule."""
        rule = self._broken_rule(sample)
        if rule is None:
            self.kept += 1
        else:
            self.dropped[rule] += 1
        return rule is None

    def _broken_rule(self, sample: Sample) -> str | None:
        rules, target = self._rules, sample["targets"]
        score = self._scores.of_next() if self._scores is not None else math.inf
        source = sample.get("inputs", target)  # a language model's sample has one side
        if rules.empty and not (has_text(source) and has_text(target)):
            return "empty"
        if rules.identical and "inputs" in sample and source.strip() == target.strip():
            return "identical"
        if rules.max_length is not None or rules.max_ratio is not None:
            lengths = [self._length(sample[side]) for side in self._sides if side in sample]
            shorter, longer = min(lengths), max(lengths)
            if rules.max_length is not None and longer > rules.max_length:
                return "max_length"
            if rules.max_ratio is not None and longer + 1 > rules.max_ratio * (shorter + 1):
                return "max_ratio"
        if self._script_checks is not None:
            is_wrong_source, is_wrong_target = self._script_checks
            if is_wrong_source(source) or is_wrong_target(target):
                return "script"
        for rule, least in self._least.items():
            if score < least:
                return rule
        if self._seen is not None and not self._seen.add(source, target):
            return "duplicates"
        return None

    def __str__(self) -> str:
        seen = self.kept + self.dropped.total()
        counts = ", ".join(f"{name} {count:,}" for name, count in self.dropped.items())
        return f"kept {self.kept:,} of {seen:,} pairs ({self.kept / seen:.1%}); dropped: {counts}"


def clean(
    samples: Iterable[Sample],
    rules: CleaningRules,
    name: str,
    scores: PairScores | None = None,
    *,
    sides: Sequence[str] = ("inputs", "targets"),
    is_whole: bool = True,
) -> Iterator[Sample]:
    """Yields the pairs that break no rule, in order; logs the number of the others.

    Args:
        samples: pairs of text.
        rules: which pairs to drop.
        name: the name of the data, for messages.
        scores: those of the pairs; None if no rule reads them.
        sides: as for `Cleaner`.
        is_whole: whether the pairs are all of the text, which must have no further scores.

    Raises:
        DataError: no pair is left.
    """
    if not rules.active:
        yield from samples
        return
    cleaner = Cleaner(rules, scores, sides)
    yield from filter(cleaner.keeps, samples)
    if scores is not None and is_whole:
        scores.require_end()
    if not cleaner.dropped.total() + cleaner.kept:
        return
    if not cleaner.kept:
        raise DataError(f"{name}: cleaning left nothing: {cleaner}; relax the rules of --clean")
    log.info("%s: cleaning %s", name, cleaner)


def _script_checks(text: str) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
    """Returns, for sources and targets, a test whether a text is in the wrong script."""
    source, dash, target = text.partition("-")
    if not dash:
        raise UsageError(
            f"cleaning rule script={text}: expected the codes of both sides, such as Latn-Cyrl"
        )
    return _script_check(source.split("+")), _script_check(target.split("+"))


def _script_check(codes: list[str]) -> Callable[[str], bool]:
    # Letters such as U+02BC (apostrophe) and U+30FC (long vowel) are of "Common" script.
    allowed = "".join(rf"\p{{Script={code}}}" for code in [*codes, "Common", "Inherited"])
    try:
        if not all(map(str.isalpha, codes)):  # regex accepts an empty name
            raise regex.error("no code")
        foreign = regex.compile(rf"[^\P{{L}}{allowed}]")  # letters that are none of these
    except regex.error:
        raise UsageError(
            f"cleaning rule script: {'+'.join(codes)!r} is not an ISO 15924 code that Unicode "
            "knows; examples: Latn, Cyrl, Grek, Arab, Hani, and several as Hani+Hira+Kana"
        ) from None
    takes_ascii = not foreign.search("a")

    def is_wrong(text: str) -> bool:
        if takes_ascii and text.isascii():
            return False
        wrong = len(foreign.findall(text))
        return wrong > 0 and 2 * wrong > sum(map(str.isalpha, text))

    return is_wrong


class SeenPairs:
    """The set of pairs seen so far, as 64-bit hashes in a table of limited size (open addressing).

    Different pairs with equal hashes count as duplicates: among the 41 million pairs of WMT's
    English-French, the probability of any such collision is 1 in 20,000. The table doubles as it
    fills, up to 512 MiB (768 while it grows to that), which hold 50 million pairs. After that no
    pair is added: repetitions of the stored pairs are still found, those of later pairs are not.

    Args:
        max_slots: a power of 2; three quarters of the table's slots, 8 bytes each, are used.
    """

    _FIRST_SLOTS = 2**10

    def __init__(self, max_slots: int = 2**26) -> None:
        self._max_slots = max_slots
        self._set_table(min(self._FIRST_SLOTS, max_slots))

    def add(self, source: str, target: str) -> bool:
        """Adds a pair; returns whether it is new."""
        # 0xFF does not occur in UTF-8, so that different pairs have different bytes.
        sides = (text.encode("utf-8", "surrogatepass") for text in (source, target))
        pair = b"\xff".join(sides)
        digest = hashlib.blake2b(pair, digest_size=8).digest()
        key = int.from_bytes(digest, "little") or 1  # 0 marks a free slot
        slot = self._slot(key)
        if self._table[slot]:
            return False
        if not self._room and len(self._table) < self._max_slots:
            self._grow()
            slot = self._slot(key)
        if self._room:
            self._table[slot] = key
            self._room -= 1
        return True

    def _slot(self, key: int) -> int:
        """Returns where `key` is, or the free slot where it belongs."""
        table, mask = self._table, self._mask
        slot = key & mask
        while (found := table[slot]) != key and found:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        keys = filter(None, self._table)
        self._set_table(2 * len(self._table))
        for key in keys:
            self._table[self._slot(key)] = key
            self._room -= 1

    def _set_table(self, slots: int) -> None:
        self._table = array.array("Q", [0]) * slots  # numpy's is slower for single numbers
        self._mask = slots - 1
        self._room = slots * 3 // 4
