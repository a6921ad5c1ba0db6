"""Lines that are longer than the model takes, in pieces that are not."""

import re
from collections.abc import Callable, Iterable

# What a break comes behind, the best first: a sentence, a clause, a word.
_BREAKS = (
    re.compile(r"""[.!?;]["'”’»)\]]*\s+|[。！？；｡]["'”’»）」』]*\s*"""),
    re.compile(r",\s+|[，、]\s*"),
    re.compile(r"\s+"),
)


# Characters behind which no space is written: Chinese and Japanese ones, full-width punctuation.
_NO_SPACE_BEHIND = re.compile(
    "[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff9f"
    "\U00020000-\U0003ffff]"
)


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halves a text until every piece fits.

    It is broken at the sentence end that is nearest to its middle; without one, at a comma; without
    one, at a space; at last anywhere.

    Args:
        text: no white space around it.
        fits: whether a piece is short enough; of one character nothing more is asked.

    Returns:
        The pieces in their order, without the white space between them.
    """
    if len(text) < 2 or fits(text):
        return [text]
    at = _nearest_break(text)
    halves = (text[:at].strip(), text[at:].strip())
    return [piece for half in halves if half for piece in split(half, fits)]


def join(outputs: Iterable[str]) -> str:
    """Joins the outputs of a text's pieces, by spaces where their language writes any."""
    joined = ""
    for output in filter(None, outputs):
        if joined and not _NO_SPACE_BEHIND.match(joined[-1]):
            joined += " "
        joined += output
    return joined


def _nearest_break(text: str) -> int:
    """Returns where to break a text of two characters or more, at least one on either side."""
    for pattern in _BREAKS:
        breaks = [match for match in pattern.finditer(text) if match.end() < len(text)]
        if breaks:
            return min(breaks, key=lambda match: abs(sum(match.span()) - len(text))).end()
    return len(text) // 2
