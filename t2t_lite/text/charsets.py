"""How the text of a file is written in bytes, and edits that leave all other bytes as they are."""

import codecs
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from t2t_lite.errors import DataError, quoted

_BOMS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
# What other ways of writing have a meaning for is among these.
_ASCII = "".join(map(chr, range(32, 127))).replace("\\", "") + "\r\n\t \\n \\x41 \\u0041 +AGE- ~{"
# What browsers read in place of some charsets: https://encoding.spec.whatwg.org/#names-and-labels
_READ_AS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),
}


# Names that browsers know, and Python does not.
_BROWSERS_NAMES = {
    "gb_2312-80": "gb18030",
    "iso-8859-8-i": "iso8859-8",
    "windows-31j": "cp932",
    "windows-874": "cp874",
    "windows-949": "cp949",
    "x-euc-jp": "euc_jp",
    "x-gbk": "gb18030",
    "x-sjis": "cp932",
}


def _by_windows(error: UnicodeError) -> tuple[str, int]:
    """Reads what EUC-JP has of Windows' Shift_JIS: browsers know it, and Python does not."""
    if isinstance(error, UnicodeDecodeError) and error.encoding == "euc_jp":
        row, *cell = (byte - 0xA1 for byte in error.object[error.start : error.start + 2])
        if row in (12, *range(88, 92)) and cell and cell[0] in range(94):
            first = row // 2 + (0x81 if row < 62 else 0xC1)
            second = cell[0] + (0x9F if row % 2 else 0x40 + (cell[0] > 62))
            return bytes([first, second]).decode("cp932"), error.start + 2
    raise error


_BY_WINDOWS = "t2t_lite.by_windows"
codecs.register_error(_BY_WINDOWS, _by_windows)
_OF_EUC_JP = re.compile(rb"\x8f..|[\x8e\xa1-\xfe].|.", re.DOTALL)  # a character


class Charset(NamedTuple):
    """How a file's text is written in bytes.

    Attributes:
        name: Python's name of it.
        bom: the byte order mark with which the file begins; it is not part of the text.
    """

    name: str
    bom: bytes = b""

    @classmethod
    def of(cls, contents: bytes, declared: str = "utf-8") -> Self:
        """Returns the charset of a file: that of its byte order mark, or else what it declares.

        UTF-16 without such a mark is known by a tag at its start.

        Raises:
            DataError: what it declares is not known, or is not written as ASCII where that will do.
        """
        for name, bom in _BOMS.items():
            if contents.startswith(bom):
                return cls(name, bom)
            if name != "utf-8" and contents.startswith("<".encode(name)):
                return cls(name)
        try:
            name = codecs.lookup(declared).name
            extends_ascii = _ASCII.encode().decode(name) == _ASCII
        except (LookupError, ValueError):
            extends_ascii = False
        if not extends_ascii:
            raise DataError(
                f"charset {quoted(declared)}: expected one that extends ASCII, such as UTF-8; "
                "convert the file, and change what it declares"
            )
        return cls(name)

    def decoded(self, contents: bytes) -> str:
        """Returns the text of a file, without its byte order mark.

        Raises:
            DataError: it is not in this charset.
        """
        try:
            return contents.removeprefix(self.bom).decode(self.name, _BY_WINDOWS)
        except UnicodeError as error:
            raise DataError(
                f"not in {self.name.upper()} ({error}): convert it, with iconv for example, to the "
                "charset that it declares"
            ) from None

    def encoded(self, text: str, errors: str = "strict") -> bytes:
        """Returns a text in bytes, without a byte order mark.

        Args:
            text: any text.
            errors: "xmlcharrefreplace": write what the charset lacks as numeric references.

        Raises:
            DataError: the charset lacks a character.
        """
        try:
            return text.encode(self.name, errors)
        except UnicodeEncodeError as error:
            raise DataError(
                f"its charset, {self.name.upper()}, lacks {quoted(text[error.start])} of a "
                "translation: convert the file to UTF-8 first (with msgconv --to-code=UTF-8, if it "
                "is gettext's)"
            ) from None

    def edited(
        self,
        contents: bytes,
        text: str,
        edits: Sequence[tuple[int, int, str]],
        errors: str = "strict",
    ) -> bytes:
        """Returns a file with new text in some places; all other bytes are its own.

        Args:
            contents: the file.
            text: its text.
            edits: where in this each starts and ends, in ascending order, and what comes there.
            errors: as in `encoded`.

        Raises:
            DataError: as in `encoded` and `places`.
        """
        places = self.places(contents, text, [place for edit in edits for place in edit[:2]])
        new = [self.encoded(one, errors) for *_, one in edits]
        return spliced(contents, zip(places[::2], places[1::2], new, strict=True))

    def places(self, contents: bytes, text: str, offsets: Iterable[int]) -> list[int]:
        """Returns where in a file certain places of its text are.

        Args:
            contents: the file.
            text: its text.
            offsets: the places in this, in ascending order.

        Raises:
            DataError: the charset is one in which the same text can be written in several lengths.
        """
        if len(text) + len(self.bom) == len(contents):
            return [len(self.bom) + offset for offset in offsets]
        if self.name == "euc_jp":
            starts = [match.start() for match in _OF_EUC_JP.finditer(contents + b"\n")]
            return [starts[offset] for offset in offsets]
        around = itertools.pairwise([0, *offsets, len(text)])
        sizes = [len(text[start:end].encode(self.name)) for start, end in around]
        found = [*itertools.accumulate(sizes, initial=len(self.bom))]
        if found[-1] != len(contents):
            raise DataError(f"{self.name.upper()} has shifts: convert it to UTF-8, with iconv")
        return found[1:-1]


def spliced(contents: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Returns a file with new bytes in some places; all others are its own.

    Args:
        contents: the file.
        edits: where each starts and ends, in ascending order, and what comes there.
    """
    pieces, place = [], 0
    for start, end, new in edits:
        pieces += [contents[place:start], new]
        place = end
    return b"".join([*pieces, contents[place:]])


def read_by_browsers(label: str) -> str:
    """Returns the charset in which browsers read what a page declares; the label, if unknown."""
    try:
        name = codecs.lookup(_BROWSERS_NAMES.get(label.lower(), label)).name
    except (LookupError, ValueError):  # a NUL in it, say
        return label
    return _READ_AS.get(name, name)
