"""Where words begin and end in a text, in all scripts."""

import heapq
from collections.abc import Iterator, Sequence

import regex

# What joins with its neighbours to a word: letters, marks, digits, underscores; but not those of
# scripts without spaces between words, of which every character may begin or end one.
_JOINED = regex.compile(
    r"(?:(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff])"
    r"[\p{L}\p{M}\p{N}\p{Pc}])++",
    regex.V0,
)
_PART = regex.compile(f"{_JOINED.pattern}|.", regex.V0 | regex.DOTALL)


def parts_of(text: str) -> list[str]:
    """Returns what stands between the borders of a text, in order; joined, it is the text."""
    return _PART.findall(text)


def is_border(text: str, place: int) -> bool:
    """Returns whether a word may begin or end at a place: 0 is before the first character."""
    if not 0 < place < len(text):
        return True
    return not _JOINED.fullmatch(text, place - 1, place + 1)


def occurrences(forms: Sequence[str], text: str) -> Iterator[tuple[int, str]]:
    """Yields the places where one of the forms stands as a whole word or words, and the form.

    No two overlap: the first one counts, and the longest of those that begin at the same place.
    """
    end = 0
    # The next place of each form, the longest first.
    found = [(at, -len(form), form) for form in forms if form and (at := _place(form, text)) >= 0]
    heapq.heapify(found)
    while found:
        place, _, form = found[0]
        if place >= end:
            yield place, form
            end = place + len(form)
        if (place := _place(form, text, end)) >= 0:
            heapq.heapreplace(found, (place, -len(form), form))
        else:
            heapq.heappop(found)


def _place(form: str, text: str, start: int = 0) -> int:
    """Returns the first place from `start` where a form stands as a whole; -1: there is none."""
    place = text.find(form, start)
    while place >= 0:
        if is_border(text, place):
            if is_border(text, place + len(form)):
                return place
            start = place + 1
        else:
            start = _next_border(text, place)
        place = text.find(form, start)
    return place


def _next_border(text: str, place: int) -> int:
    """Returns the end of the word that a place is within."""
    word = _JOINED.match(text, place)
    assert word is not None
    return word.end()
