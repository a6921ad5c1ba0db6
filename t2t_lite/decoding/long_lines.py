"""Splits lines that are too long for the model, and joins the outputs of their pieces."""

import re
from collections.abc import Callable, Iterable

# Where to break, best first: after a sentence, a clause, a word.
_BREAKS = (
    re.compile(r"""[.!?;]["'”’»)\]]*\s+|[。！？；｡]["'”’»）」』]*\s*"""),
    re.compile(r",\s+|[，、]\s*"),
    re.compile(r"\s+"),
)

_OTHER_BREAKS = re.compile(r"\r\n?")

# Characters with no space after them: Chinese and Japanese ones, full-width punctuation.
_NO_SPACE_AFTER = re.compile(
    "[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff9f"
    "\U00020000-\U0003ffff]"
)


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halves a text until every piece fits.

    It is broken at the sentence end nearest to its middle; without one at a comma; without one at a
    space; failing that, in the middle.

    Args:
        text: without surrounding white space.
        fits: whether a piece is short enough; not called for single characters.

    Returns:
        The pieces in order, without the white space between them.
    """
    if len(text) < 2 or fits(text):
        return [text]
    at = _nearest_break(text)
    halves = (text[:at].strip(), text[at:].strip())
    return [piece for half in halves if half for piece in split(half, fits)]


def with_plain_breaks(text: str) -> str:
    r"""Writes every line break of a text, "\r\n" or "\r", as "\n"."""
    return _OTHER_BREAKS.sub("\n", text)


def join(outputs: Iterable[str]) -> str:
    """Joins the outputs of a text's pieces, with spaces if the language uses them."""
    joined = ""
    for output in filter(None, outputs):
        if joined and not _NO_SPACE_AFTER.match(joined[-1]):
            joined += " "
        joined += output
    return joined


def _nearest_break(text: str) -> int:
    """Returns where to break a text of at least two characters, leaving both sides non-empty."""
    for pattern in _BREAKS:
        breaks = [match for match in pattern.finditer(text) if match.end() < len(text)]
        if breaks:
            return min(breaks, key=lambda match: abs(sum(match.span()) - len(text))).end()
    return len(text) // 2
