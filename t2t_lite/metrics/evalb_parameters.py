"""What EVALB's .prm files set: which words, brackets and labels count."""

import collections
import dataclasses
import functools
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, did_you_mean, quoted
from t2t_lite.text.text_files import iterate_lines

log = logging.getLogger("t2t_lite.metrics")

# The keywords of a .prm file and the fields that they set, by the type of their values.
_NUMBERS = {"MAX_ERROR": "max_error", "CUTOFF_LEN": "cutoff_length", "LABELED": "labeled"}
_LABELS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_FIELDS = {"DEBUG": "debug"} | _NUMBERS | _LABELS | _PAIRS


@dataclasses.dataclass(frozen=True)
class EvalbParameters:
    """The settings of EVALB's .prm files; the defaults are EVALB's own.

    Attributes:
        max_error: sentences with errors after which EVALB stops.
        cutoff_length: longest sentence, in words, that counts in the second summary.
        labeled: whether brackets must agree in label as well as in span.
        delete_labels: tags whose words, and phrase labels whose brackets, are left out.
        delete_labels_for_length: tags whose words do not count towards a sentence's length.
        quote_labels: tags that parsers confuse on quotation marks and apostrophes. If only one of
            the two trees leaves such a mark out, it is kept in both.
        equal_labels: pairs of labels or tags that count as the same, in either order.
        equal_words: pairs of words that count as the same, in either order.
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
    def read(cls, path: str | os.PathLike[str]) -> "EvalbParameters":
        """Reads a .prm file: a keyword and its values per line; `#` begins a comment line.

        Raises:
            DataError: a line is not a setting; EVALB ignores such lines.
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
        """For each label, the other labels that count as the same."""
        equals: dict[str, set[str]] = collections.defaultdict(set)
        for one, other in self.equal_labels:
            equals[one].add(other)
            equals[other].add(one)
        return dict(equals)

    def equals(self, label: str) -> set[str]:
        """Returns all labels that count as the same as this one, itself included."""
        return {label, *self._equals.get(label, ())}

    def same_label(self, one: str, other: str) -> bool:
        """Whether two labels or tags count as the same."""
        return one == other or not self.equal_labels.isdisjoint([(one, other), (other, one)])

    def same_word(self, one: str, other: str) -> bool:
        """Whether two words count as the same."""
        return one == other or not self.equal_words.isdisjoint([(one, other), (other, one)])


# EVALB's COLLINS.prm, the settings of published results on the Wall Street Journal.
COLLINS = EvalbParameters(
    delete_labels=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    delete_labels_for_length=frozenset(["-NONE-"]),
    equal_labels=frozenset([("ADVP", "PRT")]),
)


def _value(keyword: str, values: Sequence[str]) -> int | str | tuple[str, ...]:
    """Returns the value that a line of a .prm file sets, or adds to a set."""
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
