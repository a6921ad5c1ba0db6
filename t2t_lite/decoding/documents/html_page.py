"""HTML pages: the text of each block is a segment with its inline tags; all else stays."""

import codecs
import itertools
import re
from collections.abc import Container, Sequence

from t2t_lite.decoding.documents.document import ICU_MESSAGES, Report
from t2t_lite.text.charsets import Charset, read_by_browsers
from t2t_lite.text.tags.blocks import cut
from t2t_lite.text.tags.kinds import HTML, XML
from t2t_lite.text.tags.tokens import FROM_LINE, Token, TokenKind, has_icu_message, tokens_of

_XML_DECLARATION = re.compile(rb"<\?xml(?=\s)[^>]*?(?:\sencoding\s*=\s*[\"']([\w:.-]+)[^>]*)?\?>")
# What site generators read, in YAML or TOML, before a page.
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n(?:.*\n)*?\1[ \t]*\r?(?:\n|\Z)")
_META_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';>]+)", re.IGNORECASE)


class HtmlPage:
    """A page, of which the text of blocks is translated.

    Args:
        contents: its bytes.
        is_xml: whether it is XHTML though it has no XML declaration.

    Attributes:
        kind: HTML, or XML for XHTML.
        segments: as in `Document`.
        report: of blocks.

    Raises:
        DataError: it is not in the charset that it declares.
    """

    def __init__(self, contents: bytes, is_xml: bool = False) -> None:
        self._contents = contents
        declaration = _XML_DECLARATION.match(contents.removeprefix(codecs.BOM_UTF8))
        self.kind = XML if is_xml or declaration else HTML
        self._charset = Charset.of(contents, _declared(contents, declaration))
        self._text = self._charset.decoded(contents)
        matter = _FRONT_MATTER.match(self._text)
        start = matter.end() if matter else 0
        pieces = cut(self._text[start:], self.kind)
        ends = (start + end for end in itertools.accumulate(len(piece.raw) for piece in pieces))
        self.report = Report()
        self._places: list[int] = []  # where segments start and end in the text
        self.segments: list[str] = []
        for piece, end in zip(pieces, ends, strict=True):
            if messages := sum(map(_is_icu_message, piece.tokens)):
                self.report.left[ICU_MESSAGES] += 1 if piece.is_text else messages
            if messages or not piece.is_text:
                continue
            self._places += [end - len(piece.raw), end]
            self.segments.append(piece.line)
        self.report.translated = len(self.segments)

    def translated(self, outputs: Sequence[str], doubtful: Container[int] | None = None) -> bytes:
        """Returns the page with the translations of its segments."""
        new = zip(self._places[::2], self._places[1::2], outputs, strict=True)
        edits = [(start, end, output.translate(FROM_LINE)) for start, end, output in new]
        return self._charset.edited(self._contents, self._text, edits, "xmlcharrefreplace")


def _is_icu_message(token: Token) -> bool:
    return token.kind is TokenKind.PROTECTED and has_icu_message(token.raw)


def _declared(contents: bytes, declaration: re.Match[bytes] | None) -> str:
    """Returns the charset in which a page is, by what it declares."""
    if declaration:
        return declaration[1].decode() if declaration[1] else "utf-8"
    tokens = tokens_of(contents.decode("latin-1"), HTML)
    labels = (_named(token) for token in tokens if token.name == "meta")
    return read_by_browsers(next(filter(None, labels), "utf-8"))


def _named(meta: Token) -> str:
    """Returns the charset that a `meta` tag declares; "": none, whatever its text is about."""
    given = meta.attributes()
    is_type = given.get("http-equiv", "").lower() == "content-type"
    match = _META_CHARSET.search(given.get("content", "")) if is_type else None
    return given.get("charset", "").strip() or (match[1] if match else "")
