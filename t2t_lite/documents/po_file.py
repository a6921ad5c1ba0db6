"""Gettext's .po files: messages without a translation get one, with their plural forms."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from t2t_lite import extras
from t2t_lite.documents.document import Parts
from t2t_lite.errors import DataError, quoted
from t2t_lite.markup.kinds import PLACEHOLDERS

if TYPE_CHECKING:
    import polib

_LINES = re.compile(r"([\n\r\t]+)")
_COUNT = re.compile(r"nplurals\s*=\s*([1-9])\s*(?:;|$)")  # no language has more than six


class PoFile:
    """A file of messages; its header, comments, contexts and existing translations stay.

    Of a message with plural forms, the first form is the translation of the singular, and the
    others are that of the plural.

    Args:
        contents: its bytes.

    Attributes:
        markup: placeholders; HTML's tags only if the user says so.
        segments: the lines of the messages, as in `Document`.

    Raises:
        UserError: polib is not installed.
        DataError: a line has half a string.
        OSError: the file is malformed; the message names the line.
    """

    markup = PLACEHOLDERS

    def __init__(self, contents: bytes) -> None:
        extras.require(extras.DOCUMENTS, "reading .po files")
        import polib

        text = contents.decode()
        _require_strings(text)
        self._file = polib.pofile(text, wrapwidth=0)
        self._parts = [(text, _parts(text)) for text in self._untranslated_texts()]

    @property
    def segments(self) -> list[str]:
        """What is translated."""
        return [segment for _, parts in self._parts for segment in parts.segments]

    def translated(self, outputs: Sequence[str]) -> bytes:
        """Returns the file with the translations of its segments."""
        left, texts = iter(outputs), {}
        for text, parts in self._parts:
            texts[text] = parts.joined([*itertools.islice(left, len(parts.segments))])
        for entry in self._entries():
            if not entry.msgid_plural:
                entry.msgstr = texts[entry.msgid]
                continue
            entry.msgstr_plural = {
                form: texts[entry.msgid_plural if form else entry.msgid]
                for form in self._forms() or entry.msgstr_plural or range(2)
            }
        written = str(self._file).rstrip("\n") + "\n"
        if not self._file.header:  # polib writes a line for its comment nevertheless
            written = written.removeprefix("#\n")
        return written.encode()

    def _entries(self) -> "Iterator[polib.POEntry]":
        return (e for e in self._file if not (e.obsolete or e.translated()) and e.msgid)

    def _untranslated_texts(self) -> list[str]:
        texts = (text for e in self._entries() for text in (e.msgid, e.msgid_plural) if text)
        return [*dict.fromkeys(texts)]

    def _forms(self) -> range:
        """Returns the numbers of the plural forms; none: the header of a template is silent."""
        count = _COUNT.search(self._file.metadata.get("Plural-Forms", ""))
        return range(int(count[1]) if count else 0)


def _require_strings(text: str) -> None:
    """Raises DataError for half a string, a message with which polib would drop unsaid."""
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        if line.startswith(("msg", '"')) and not line.endswith('"'):
            raise DataError(
                f"line {number}: expected a string in double quotes, got {quoted(line)}"
            )


def _parts(text: str) -> Parts:
    """Returns the lines of a message, each of which is a segment."""
    parts = Parts()
    for line in _LINES.split(text):
        parts.translate(line)
    return parts
