"""Where words begin and end in a text, in all scripts."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

# Scripts without spaces between words, of which every character may begin or end one.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_WORD_CATEGORIES = ("L", "M", "N", "Pc")  # letters, marks, digits, underscores


def is_border(text: str, place: int) -> bool:
    """Returns whether a word may begin or end at a place: 0 is before the first character."""
    if not 0 < place < len(text):
        return True
    return not (_in_word(text[place - 1]) and _in_word(text[place]))


def first_word(text: str, place: int = 0) -> str:
    """Returns what stands between a place and the next border."""
    end = place + 1
    while not is_border(text, end):
        end += 1
    return text[place:end]


def occurrences(forms: Sequence[str], text: str) -> Iterator[tuple[int, str]]:
    """Yields the places where one of the forms stands as a whole word or words, and the form.

    No two overlap: the first one counts, and the longest of those that begin at the same place.
    """
    found = sorted(
        (place, -len(form), form) for form in forms for place in _places(form, text) if form
    )
    end = 0
    for place, _, form in found:
        if place >= end:
            yield place, form
            end = place + len(form)


def _places(form: str, text: str) -> Iterator[int]:
    place = text.find(form)
    while place >= 0:
        if is_border(text, place) and is_border(text, place + len(form)):
            yield place
        place = text.find(form, place + 1)


def _in_word(character: str) -> bool:
    """Whether a character joins with those beside it to a word."""
    if character.isascii():
        return character.isalnum() or character == "_"
    category = unicodedata.category(character)
    return category.startswith(_WORD_CATEGORIES) and not _UNSPACED.match(character)
