"""T2T's cleaning of pairs whose sources are English (`datatypes_to_clean`).

A pair is kept if its source looks like whole sentences of prose. Where a full stop, question or
exclamation mark is followed by a capital on both sides equally often, the pair is cut there.
"""

import re
from collections.abc import Iterable, Iterator

__all__ = ["clean_en_xx_pairs"]

_DOUBLE = '["“”]'
# What a sentence must look like.
_WANTED = (
    re.compile(rf"^{_DOUBLE}?[A-Z]"),  # begins with a capital
    re.compile(r'\w[.?!]["”]?$'),  # ends as a sentence
)
# What it must not contain.
_UNWANTED = (
    re.compile(r"^\w+\.?( \w+)?: "),  # a label, as of a speaker
    re.compile(r"\d +\d"),  # numbers side by side
    re.compile(rf"^[^\"“”]*{_DOUBLE}[^\"“”]*$"),  # a single quotation mark
    re.compile(rf"^{_DOUBLE}.*{_DOUBLE}$"),  # nothing but a quotation
    re.compile(rf"({_DOUBLE}.*){{3,}}"),  # three quotation marks or more
    re.compile(r"(['‘’][^st].*){3,}"),  # three apostrophes that are not 's or 't
    re.compile(r"[\"“”'‘’]\s*[\"“”'‘’]"),  # marks side by side
    re.compile(r"\s[\"“”'‘’,:;]\s"),  # punctuation between spaces
    re.compile(r"©|^Copyright|^\(C\)"),
    re.compile(r"[(][^)]*$"),  # an open bracket
    re.compile(r"^[^(]*[)]"),  # a closing one without
    re.compile(r"^[A-Z]{2,}(\s+[A-Z]+)*\s+-"),  # the place of a news item
    re.compile(r"^[A-Z]+[a-z]*_"),  # an identifier
)
_ENGLISH_BREAK = re.compile(r"(?:(?<=\w[A-Z][.!?])|(?<=[0-9a-z][.!?])) (?=[A-Z])")
_OTHER_BREAK = re.compile(r"(?<=[^0-9][.!?]) (?=[A-Z])")


def clean_en_xx_pairs(en_xx_pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields the clean pairs, cut into sentences; T2T stops with an error where it cuts one."""
    for source, target in en_xx_pairs:
        if not _is_clean(source):
            continue
        sources, targets = _ENGLISH_BREAK.split(source), _OTHER_BREAK.split(target)
        if len(sources) == 1 == len(targets):
            yield source, target
        elif len(sources) == len(targets):
            kept = zip(sources, targets, strict=True)
            yield from ((one, other) for one, other in kept if _is_clean(one))


def _is_clean(sentence: str) -> bool:
    return all(pattern.search(sentence) for pattern in _WANTED) and not any(
        pattern.search(sentence) for pattern in _UNWANTED
    )
