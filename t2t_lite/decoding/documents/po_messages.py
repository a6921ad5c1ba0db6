"""The messages of a .po file, and where in its text they are."""

import dataclasses
import re
from collections.abc import Iterator

from t2t_lite.errors import DataError, quoted

_SPACE = r"[ \t\r\n\f\v]*+"
_STRING = r'"(?:[^"\\\n]++|\\[^\n])*+"'
_TOKEN = re.compile(
    rf"""{_SPACE}(?:
      (?P<comments>(?:\#[^\n]*+\n?{_SPACE})++)
    | (?:
        (?P<word>msgctxt|msgid_plural|msgid|msgstr|domain)
        (?:{_SPACE}\[{_SPACE}(?P<number>[0-9]){_SPACE}\])?
        {_SPACE}
      )?
      (?P<strings>{_STRING}(?:{_SPACE}{_STRING})*+)?
    )""",
    re.VERBOSE,
)
_FLAGS = re.compile(r"^[ \t\f\v]*\#([,=].*|\|)", re.MULTILINE)
_OBSOLETE = re.compile(r"^[ \t\f\v]*\#~", re.MULTILINE)
_FUZZY = re.compile(r"[,=\s]fuzzy(?![\w-])")
_STRINGS = re.compile(_STRING)
# What may stand before each keyword; "": nothing.
_BEFORE = {
    "domain": ("", "msgstr"),
    "msgctxt": ("", "domain", "msgstr"),
    "msgid": ("", "domain", "msgctxt", "msgstr"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid", "msgid_plural", "msgstr"),
}


@dataclasses.dataclass(slots=True)
class Form:
    """A translation: where in the text its strings start and end, and what is in their quotes."""

    start: int = 0
    end: int = 0
    raw: str = ""


@dataclasses.dataclass(slots=True)
class Message:
    """A message.

    Attributes:
        start: where a comment with flags can stand: before the old text, or the first keyword; -1:
            neither has come yet.
        flags: what its comments with flags say, such as `, fuzzy, c-format`.
        flags_at: where the first flag can stand, after `#,`; 0: no flag is there.
        texts: the strings after `msgctxt`, `msgid` and `msgid_plural`, with their escapes.
        forms: its translations, by number; of one without plural, number 0.
    """

    start: int = -1
    flags: str = ""
    flags_at: int = 0
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    forms: dict[int, Form] = dataclasses.field(default_factory=dict)

    @property
    def is_fuzzy(self) -> bool:
        """Whether somebody has yet to review it."""
        return bool(_FUZZY.search(self.flags))

    @property
    def is_header(self) -> bool:
        """Whether it is the header of the file."""
        return not self.texts["msgid"] and "msgctxt" not in self.texts

    def note(self, comments: str, start: int) -> None:
        """Notes comments above it, or within it."""
        begin = max((line.end() for line in _OBSOLETE.finditer(comments)), default=0)
        for match in _FLAGS.finditer(comments, begin):
            if match[1] == "|":
                if self.start < 0:
                    self.start = start + match.start(1) - 1
                continue
            self.flags += match[1]
            if match[1][0] == "," and not self.flags_at:
                self.flags_at = start + match.start(1) + 1


def messages(text: str) -> Iterator[Message]:
    """Yields the messages of a file in order, but for obsolete ones.

    Raises:
        DataError: it is not a .po file; the message names the line.
    """
    message, following = Message(), Message()
    word, form, lacks_string, place = "", Form(), False, 0
    for match in _TOKEN.finditer(text):
        comments, keyword, number, strings = match.groups()
        if match.start() != place:
            break
        if comments is not None:
            (following if message.forms else message).note(comments, match.start(1))
        elif keyword:
            is_plural = keyword == "msgstr" and "msgid_plural" in message.texts
            if lacks_string or word not in _BEFORE[keyword] or is_plural != (number is not None):
                break
            if word == "msgstr" and keyword != "msgstr":
                yield message
                message, following = following, Message()
            if message.start < 0:
                message.start = match.start(2)
            word, lacks_string = keyword, True
            if word == "msgstr":
                form = message.forms[int(number or 0)] = Form()
            else:
                message.texts[word] = ""
        elif strings is None or not word:
            break
        place = match.end()
        if strings is not None:
            lacks_string = False
            raw = strings[1:-1]
            if '"' in raw:
                raw = "".join([string[1:-1] for string in _STRINGS.findall(strings)])
            if word == "msgstr":
                form.start, form.end = form.start or match.start(4), place
                form.raw += raw
            else:
                message.texts[word] += raw
    rest = text[place:].lstrip()
    if rest or lacks_string or word not in ("", "domain", "msgstr"):
        line = text.count("\n", 0, len(text) - len(rest)) + 1
        got = quoted(rest.partition("\n")[0]) if rest else "the end"
        raise DataError(
            f"line {line}: expected a string in double quotes, msgid or msgstr, got {got}"
        )
    if message.forms:
        yield message
