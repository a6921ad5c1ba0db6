"""The form in which models read text, so that texts that look equal are one text; and what is none.

The canonical composition (NFC) with one kind of space and without characters that nobody sees. What
changes how a text looks stays: joiners where UAX #31 sees an effect (rules A1, A2 and B) or marks
follow, those of emoji, and variation selectors after characters that have variants.
"""

import functools
import itertools
import re
import string
import unicodedata
from collections.abc import Iterator

import regex

_ZWNJ, _ZWJ, _CGJ = "\u200c\u200d\u034f"
ZERO_WIDTH_SPACE = "\u200b"
_VIRAMA = 9  # canonical combining class
_MOST_ROUNDS = 3
_ASCII_CONTROLS = "\x1c-\x1f"  # `str.isspace` is true of these separators
_VARIANTS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"

# Of these alone, nobody sees anything; and of `UNSEEN`, whatever stands beside them.
BLANK = regex.compile(r"[\s\p{Cc}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb\u2800]", regex.V1)
_SPACE = regex.compile(rf"[[\s{_ASCII_CONTROLS}]--[\n ]]", regex.V1)
UNSEEN = regex.compile(
    r"[[\p{Cc}[\p{Default_Ignorable_Code_Point}&&[\p{Cf}\p{Cn}]]\ufff9-\ufffb\u17b4\u17b5]"
    rf"--[\s{_ASCII_CONTROLS}\u180e{_ZWNJ}{_ZWJ}\U0001bca0-\U0001bca3\U000e0020-\U000e007f]]",
    regex.V1,
)
_BLANKS = regex.compile(f"{BLANK.pattern}*", regex.V1)
# Tags that belong to no flag; variation selectors and vowel separators after what has no variants.
_UNUSED = (
    regex.compile(
        r"(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)|[\U000e0020-\U000e007f]", regex.V1
    ),
    regex.compile(
        r"((?<=[[\p{S}\p{Han}\p{Emoji}\p{Myanmar}\p{Phags_Pa}\p{Manichaean}\u3001-\u303f"
        rf"\uff01-\uff60]--\p{{ASCII}}])[{_VARIANTS}]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
        r"|(?<=[\p{Mongolian}--[\u180b-\u180f]])(?:[\u180b-\u180d\u180f]\u180e?|\u180e))"
        rf"|[{_VARIANTS}\u180b-\u180f]",
        regex.V1,
    ),
)
# Of what is printable and composed, these alone may have to change: ignorable characters, and the
# blank pattern of Braille. In a list, `re` finds them faster than `regex` by their property.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
# Where a text begins with one of these, nothing else has to be looked at to know that it has text.
_SEEN_FIRST = frozenset(string.ascii_letters + string.digits + string.punctuation)
# What may have to change before a text is composed.
_SUSPECT = regex.compile(
    r"[[\s\p{Cc}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]--[\n ]]", regex.V1
)
_JOINER = regex.compile(f"[{_ZWNJ}{_ZWJ}{_CGJ}]")
_SEVERAL_JOINERS = regex.compile(f"(?<=[{_ZWNJ}{_ZWJ}])[{_ZWNJ}{_ZWJ}]+")
_TRANSPARENT = regex.compile(r"[\p{Joining_Type=T}\u200c\u200d]+", regex.V1)
_JOINS_NEXT = regex.compile(r"[\p{Joining_Type=D}\p{Joining_Type=L}]")
_JOINS_LAST = regex.compile(r"[\p{Joining_Type=D}\p{Joining_Type=R}]")
_INDIC_MARK = regex.compile(r"[\p{M}--\p{Indic_Syllabic_Category=Other}]", regex.V1)
_EMOJI = regex.compile(r"\p{Extended_Pictographic}")
_EMOJI_END = regex.compile(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\u20e3\U000e007f]")
_MANY_MARKS = regex.compile(r"[^\p{Canonical_Combining_Class=0}]{31,}")
_CLUSTER = regex.compile(r"\X")


def has_text(text: str) -> bool:
    """Returns whether a text has a character that is neither white space nor invisible."""
    return text[:1] in _SEEN_FIRST or not _BLANKS.fullmatch(text)


def source_form(text: str, kept: str = "") -> str:
    r"""Returns a text in the form in which models read it; "" for one without text.

    Line breaks ("\n") stay where they are, and no other character becomes one.

    Args:
        text: the text.
        kept: characters that stay, such as control characters that stand for something.
    """
    if is_plain(text):
        return text if text.strip() else ""
    if not has_text(text) and not any(map(text.__contains__, kept)):
        return ""
    *_, form = _stages(text, kept)
    return form


def read_words(text: str, kept: str = "") -> list[int]:
    """Returns the places of the words, as `str.split` finds them, that a text has in its form."""
    words = text.split()
    if is_plain(text):
        return [*range(len(words))]
    # Some characters that nobody sees stay, as long as others are seen.
    return [i for i, word in enumerate(words) if source_form(f"x {word}", kept) != "x "]


def places(text: str, kept: str = "") -> list[int]:
    """Returns where each place of a text is in its `source_form`; the last one is the end."""
    found = list(range(len(text) + 1))
    for before, after in itertools.pairwise(_stages(text, kept)):
        if before != after:
            moved = _composed_places(before) if _composed(before) == after else _left(before, after)
            found = [moved[place] for place in found]
    return found


def _stages(text: str, kept: str) -> Iterator[str]:
    """Yields a text, and what becomes of it step by step.

    Marks may change their order once a joiner between them is gone, and this what joiners are for.
    """
    yield text
    text = _composed(text)
    yield text
    for _ in range(_MOST_ROUNDS):
        seen = _seen(text, kept)
        yield seen
        before, text = text, _composed(seen)
        yield text
        if text == before:
            return


def is_plain(text: str) -> bool:
    """Whether a text, if it has more than spaces, surely is in its form, as all its parts are.

    For most texts, this is found quickly.
    """
    return text.isprintable() and (
        text.isascii() or (unicodedata.is_normalized("NFC", text) and not _IGNORABLE.search(text))
    )


def _composed(text: str) -> str:
    """Returns the canonical composition."""
    if unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", _MANY_MARKS.sub(_in_order, text))


def _in_order(marks: regex.Match[str]) -> str:
    """Returns marks in their canonical order, for which Python takes time quadratic in them."""
    single = "".join(unicodedata.normalize("NFD", mark) for mark in marks[0])
    return "".join(sorted(single, key=unicodedata.combining))


def _composed_places(text: str) -> list[int]:
    """Returns where each place of a text is in its composition.

    A place within what is composed is where that ends.
    """
    found: list[int] = []
    end = 0
    for cluster in _CLUSTER.findall(text):
        start, composed = end, _composed(cluster)
        end += len(composed)
        is_same = composed == cluster
        found += range(start, end) if is_same else [start, *[end] * (len(cluster) - 1)]
    return [*found, end]


def _left(text: str, seen: str) -> list[int]:
    """Returns where each place of a text is in what is `_seen` of it."""
    found = []
    place = 0
    for character in text:
        found.append(place)
        if place < len(seen) and seen[place] in (character, _SPACE.sub(" ", character)):
            place += 1
    return [*found, place]


def _seen(text: str, kept: str) -> str:
    """Returns a text with one kind of space and without what nobody sees, not composed."""
    if not _SUSPECT.search(text):
        return text
    text = _SPACE.sub(" ", text)
    text = UNSEEN.sub(lambda found: found[0] if found[0] in kept else "", text)
    for pattern in _UNUSED:
        text = pattern.sub(r"\1", text)
    if not _JOINER.search(text):
        return text
    return _TRANSPARENT.sub(_with_needed_joiners, _SEVERAL_JOINERS.sub("", text))


def _with_needed_joiners(run: regex.Match[str]) -> str:
    """Returns a run of marks and joiners, all that stand between two bases, as it is seen."""
    if not _JOINER.search(run[0]):
        return run[0]
    text, (start, end) = run.string, run.span()
    bases = text[start - 1 : start], text[end : end + 1]
    return "".join(
        character
        for place, character in enumerate(run[0], start)
        if not _JOINER.match(character) or _is_needed(text, place, *bases)
    )


def _is_needed(text: str, place: int, base_before: str, base_after: str) -> bool:
    """Whether a joiner changes how the characters beside it look."""
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if text[place] == _CGJ:  # keeps marks in their order
        return _last_class(before) > _class(after) > 0
    joins_next = bool(_JOINS_NEXT.match(base_before))
    joins_last = bool(_JOINS_LAST.match(base_after))
    if text[place] == _ZWNJ:
        return (
            (joins_next and joins_last)
            or (_class(before) == _VIRAMA and after.isalpha())
            or bool(before and _INDIC_MARK.match(after))
        )
    return (
        joins_next != joins_last
        or _VIRAMA in (_class(before), _class(after))
        or bool(before and _INDIC_MARK.match(after))
        or bool(_EMOJI_END.match(before) and _EMOJI.match(after))
    )


def _class(character: str) -> int:
    return unicodedata.combining(character) if character else 0


@functools.lru_cache
def _last_class(character: str) -> int:
    """Returns the combining class of the last mark in a character."""
    return _class(unicodedata.normalize("NFD", character)[-1:])
