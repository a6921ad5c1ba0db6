"""Gettext's .po files, edited in place: messages get the translations that they lack."""

import collections
import itertools
import re
from collections.abc import Container, Iterator, Mapping, Sequence

from t2t_lite.decoding.documents.document import ICU_MESSAGES, Report
from t2t_lite.decoding.documents.po_messages import Form, Message, messages
from t2t_lite.text.c_strings import read, written
from t2t_lite.text.charsets import Charset
from t2t_lite.text.plural_forms import forms_for_one
from t2t_lite.text.source_form import has_text
from t2t_lite.text.tags.formats import agreeing, format_of, format_of_file, stood_in
from t2t_lite.text.tags.kinds import PLACEHOLDERS
from t2t_lite.text.tags.tokens import has_icu_message

# Why messages are left.
_FUZZY, _READ_ONLY = "fuzzy", "read-only"
_CHANGED = "placeholders that the translation changed"
_CHARSET = re.compile(r"charset=([^\s\\;\"]+)")
_UNNAMED = "CHARSET"  # a template's charset
# A line without the white space around it.
_LINE = re.compile(r"\S(?:[^\t-\r\x85\u2028\u2029]*\S)?")

_Key = tuple[str, str]  # a text to translate, and the name of its format


class PoFile:
    """A file of messages, of which those without a translation get one; all else stays.

    A plural form gets the translation of the singular if, by the header's formula, it serves the
    number one alone, and else that of the plural.

    Args:
        contents: its bytes.
        fuzzy: mark the messages that get a translation as fuzzy, for review.

    Attributes:
        kind: placeholders; HTML's tags only if the user says so.
        report: of messages.

    Raises:
        DataError: it is not a .po file, or is not in the charset that its header names.
    """

    kind = PLACEHOLDERS

    def __init__(self, contents: bytes, fuzzy: bool = False) -> None:
        self._contents, self._fuzzy = contents, fuzzy
        marked = Charset.of(contents)
        bare = marked.decoded(contents) if marked.bom else contents.decode("latin-1")
        header = _header(bare).raw
        named = _CHARSET.search(header)
        self._is_unnamed = bool(named and named[1] == _UNNAMED)
        declared = named[1] if named and not self._is_unnamed else "utf-8"
        self._charset = Charset.of(contents, declared)
        self._text = self._charset.decoded(contents)
        self._newline = "\r\n" if "\r\n" in self._text else "\n"
        self._ones, fault = forms_for_one(header)
        self.report = Report()
        found = [*messages(self._text)]
        head = self._text[: _header(self._text).end]
        plurals = (message.texts.get("msgid_plural", "") for message in found)
        self._format = format_of_file(head, plurals)
        self._todo = [todo for message in found if (todo := self._to_do(message))]
        self._left = self.report.left
        if fault and any("msgid_plural" in message.texts for message, _ in self._todo):
            self.report.notes.append(fault)
        self._texts = {key: stood_in(*key) for _, keys in self._todo for key in keys.values()}

    @property
    def segments(self) -> list[str]:
        """What is translated: the lines of each text once."""
        lines = (line for text, _ in self._texts.values() for line in _LINE.findall(text))
        return [line for line in lines if has_text(line)]

    def translated(self, outputs: Sequence[str], doubtful: Container[int] | None = None) -> bytes:
        """Returns the file with the translations of its segments; see `Document.translated`."""
        left = iter(outputs)

        def output(line: re.Match[str]) -> str:
            return next(left) if has_text(line[0]) else line[0]

        targets = {
            key: agreeing(key[0], _LINE.sub(output, text), key[1], meant)
            for key, (text, meant) in self._texts.items()
        }
        places = itertools.count()
        doubted = {
            key
            for key, (text, _) in self._texts.items()
            for line in _LINE.findall(text)
            if has_text(line) and next(places) in (doubtful or ())
        }
        edits: list[tuple[int, int, str]] = []
        changed = 0
        for message, keys in self._todo:
            texts = {form: text for form, key in keys.items() if (text := targets[key]) is not None}
            if len(texts) == len(keys):
                edits += self._edits(message, texts, not doubted.isdisjoint(keys.values()))
            else:
                changed += 1
        self.report.translated = len(self._todo) - changed
        self.report.left = self._left + collections.Counter({_CHANGED: changed})
        if self._is_unnamed and not all(new.isascii() for *_, new in edits):
            place = self._text.index(f"={_UNNAMED}", _header(self._text).start) + 1
            edits = sorted([(place, place + len(_UNNAMED), "UTF-8"), *edits])
        return self._charset.edited(self._contents, self._text, edits)

    def _to_do(self, message: Message) -> tuple[Message, Mapping[int, _Key]] | None:
        """Returns a message and what its forms lack; None: it stays, which is counted."""
        charset, forms = self._charset.name, message.forms
        singular = read(message.texts["msgid"], charset)
        plural = read(message.texts.get("msgid_plural", ""), charset)
        if not singular:
            return None  # the header
        ones = [True]
        if "msgid_plural" in message.texts:
            ones = self._ones or [form == 0 for form in range(1 + max(forms))]
        lacking = [form for form in range(len(ones)) if form not in forms or not forms[form].raw]
        if not lacking and message.is_fuzzy:
            self.report.left[_FUZZY] += 1
        elif not lacking:
            self.report.kept += 1
        elif _READ_ONLY in message.flags:
            self.report.left[_READ_ONLY] += 1
        elif has_icu_message(singular) or has_icu_message(plural):
            self.report.left[ICU_MESSAGES] += 1
        else:
            self.report.translated += 1
            name = format_of(message.flags) or self._format
            return message, {n: (singular if ones[n] else plural, name) for n in lacking}
        return None

    def _edits(
        self, message: Message, texts: Mapping[int, str], is_doubtful: bool
    ) -> Iterator[tuple[int, int, str]]:
        """Yields what to write in place of which characters."""
        if (self._fuzzy or is_doubtful) and not message.is_fuzzy:
            comment = " fuzzy," if message.flags_at else f"#, fuzzy{self._newline}"
            place = message.flags_at or message.start
            yield place, place, comment
        place = 0
        for number, form in message.forms.items():
            if number in texts:
                yield form.start, form.end, written(texts[number], self._newline)
            elif place and number >= len(self._ones or message.forms) and not form.raw:
                yield place, form.end, ""  # one that the language does not have
            place = form.end
        for number, text in texts.items():
            if number not in message.forms:
                strings = written(text, self._newline)
                yield place, place, f"{self._newline}msgstr[{number}] {strings}"


def _header(text: str) -> Form:
    """Returns the header of a file; one without strings: there is none."""
    return next((message.forms[0] for message in messages(text) if message.is_header), Form())
