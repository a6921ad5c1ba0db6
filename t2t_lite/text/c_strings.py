"""Strings as C and gettext write them: in quotes, with escapes."""

import re

_ESCAPE = re.compile(r"(?P<bytes>(?:\\x[0-9a-fA-F]+|\\[0-7]{1,3})+)|\\(?P<letter>.)")
_BYTE = re.compile(r"\\x([0-9a-fA-F]+)|\\([0-7]+)")
_LINES = re.compile(r"[^\n]*\n|[^\n]+|\A\Z")
_LETTERS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_ESCAPED = re.compile(r'[\a\b\f\n\r\t\v\\"]')
_TO_ESCAPED = str.maketrans(
    {character: f"\\{name}" for name, character in (_LETTERS | {"\\": "\\", '"': '"'}).items()}
)


def read(raw: str, charset: str) -> str:
    """Returns what is written between quotes; characters may be escaped as bytes of a charset."""
    if "\\" not in raw:
        return raw
    return _ESCAPE.sub(lambda match: _unescaped(match, charset), raw)


def written(text: str, newline: str) -> str:
    """Returns a text as strings in quotes: one, or an empty one and one for each line."""
    if not _ESCAPED.search(text):
        return f'"{text}"'
    lines = [line.translate(_TO_ESCAPED) for line in _LINES.findall(text)]
    return newline.join(f'"{line}"' for line in (lines if len(lines) == 1 else ["", *lines]))


def _unescaped(match: re.Match[str], charset: str) -> str:
    if letter := match["letter"]:
        return _LETTERS.get(letter, letter)
    pairs = _BYTE.findall(match["bytes"])
    codes = [
        int(hexadecimal[-2:], 16) if hexadecimal else int(octal, 8) & 0xFF
        for hexadecimal, octal in pairs
    ]
    return bytes(codes).decode(charset, "replace")
