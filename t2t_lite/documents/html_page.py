"""HTML pages: the text of each block is a segment with its inline tags; all else stays."""

from collections.abc import Sequence

from t2t_lite.documents.document import Parts, Report, collapsed
from t2t_lite.markup.kinds import HTML
from t2t_lite.markup.segment import is_translated
from t2t_lite.markup.tokens import Token, TokenKind, tokens_of
from t2t_lite.text.charsets import Charset
from t2t_lite.text.source_form import has_text

# Elements within a sentence: phrasing content of the HTML standard, and of earlier ones.
_INLINE = frozenset(
    {"a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn"}
    | {"em", "font", "i", "img", "ins", "kbd", "mark", "q", "rp", "rt", "ruby", "s", "samp"}
    | {"small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
)
# Their contents are not text, or white space matters in them.
_UNTRANSLATED_BLOCKS = frozenset(
    ["pre", "svg", "math", "textarea", "template", "noscript", "object", "iframe"]
)

_TEXT = (TokenKind.TEXT, TokenKind.ENTITY)


class HtmlPage:
    """A page.

    Args:
        contents: its bytes, in UTF-8.

    Attributes:
        markup: HTML.
        segments: as in `Document`.

    Raises:
        DataError: it is not UTF-8.
    """

    markup = HTML

    def __init__(self, contents: bytes, is_xml: bool = False) -> None:
        self._parts = Parts()
        self._run: list[Token] = []
        self._untranslated: list[str] = []  # open elements, from the first that stays
        for token in tokens_of(Charset("utf-8").decoded(contents), HTML):
            self._add(token)
        self._end_run()

    @property
    def report(self) -> Report:
        """What becomes of the segments."""
        return Report(len(self.segments))

    @property
    def segments(self) -> list[str]:
        """What is translated."""
        return self._parts.segments

    def translated(self, outputs: Sequence[str]) -> bytes:
        """Returns the page with the translations of its segments."""
        return self._parts.joined(outputs).encode()

    def _add(self, token: Token) -> None:
        is_tag = token.kind in (TokenKind.OPEN, TokenKind.CLOSE, TokenKind.VOID)
        if self._untranslated:
            self._parts.keep(token.raw)
            self._follow(token)
        elif is_tag and token.name not in _INLINE:
            self._end_run()
            self._parts.keep(token.raw)
            if token.kind is TokenKind.OPEN and not _is_block_translated(token):
                self._untranslated.append(token.name)
        else:
            self._run.append(token)

    def _follow(self, token: Token) -> None:
        """Notes where the element that stays as it is ends."""
        if token.kind is TokenKind.OPEN and token.name == self._untranslated[0]:
            self._untranslated.append(token.name)
        elif token.kind is TokenKind.CLOSE and token.name == self._untranslated[0]:
            self._untranslated.pop()

    def _end_run(self) -> None:
        """Adds the tokens of a block as one segment; those without text around it stay."""
        run, self._run = self._run, []
        are_texts = [token.kind in _TEXT and has_text(token.text) for token in run]
        if not any(are_texts):
            self._parts.keep("".join(token.raw for token in run))
            return
        first, last = _without_empty_ends(run, are_texts)
        self._parts.keep("".join(token.raw for token in run[:first]))
        self._parts.translate("".join(map(collapsed, run[first:last])))
        self._parts.keep("".join(token.raw for token in run[last:]))


def _is_block_translated(token: Token) -> bool:
    """Whether what is in a block is translated."""
    return token.name not in _UNTRANSLATED_BLOCKS and is_translated(token)


def _without_empty_ends(run: Sequence[Token], are_texts: Sequence[bool]) -> tuple[int, int]:
    """Returns the part of a run without what neither has text nor belongs to an element that has.

    Only white space, comments, breaks and pictures are left out: other tags may surround the text.
    """
    loose = [
        not text and (token.kind in (TokenKind.TEXT, TokenKind.HIDDEN, TokenKind.VOID))
        for token, text in zip(run, are_texts, strict=True)
    ]
    first, last = 0, len(run)
    while loose[first]:
        first += 1
    while loose[last - 1]:
        last -= 1
    return first, last
