"""The sentence frames of the embedded data set: English, German and French, with blanks to fill.

`{kind:style}` is a blank of a kind in `_locale_slots.SLOTS`, shown in one of its styles. German
frames need the nominative, the accusative, or forms that equal them. The French frames have plain
spaces before high punctuation; `french_spaces` turns them into no-break spaces.

In the files, the three languages of a frame are three lines, and a line with # is a comment.
"""

import pathlib
import re
import string
from typing import NamedTuple


class Frame(NamedTuple):
    """One sentence in three languages, with the same blanks."""

    en: str
    de: str
    fr: str

    def kinds(self) -> list[str]:
        """Returns the kinds of its blanks, each once, in the order of the English text."""
        fields = string.Formatter().parse(self.en)
        return list(dict.fromkeys(kind for _, kind, _, _ in fields if kind))


def french_spaces(text: str) -> str:
    """Puts U+00A0 before colons and inside quotation marks, U+202F before ";", "!" and "?"."""
    return re.sub(" (?=[;!?])", "\u202f", re.sub("(?<=«) | (?=[:»])", "\u00a0", text))


def _read(name: str) -> tuple[Frame, ...]:
    text = pathlib.Path(__file__).with_name(name).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(
        Frame(en, de, french_spaces(fr)) for en, de, fr in zip(lines, lines, lines, strict=True)
    )


FRAMES = _read("locale_frames.txt")
FRAMES2 = (*FRAMES, *_read("locale_frames2.txt"))  # of the second edition

# Words that begin a sentence and become lower case inside one. German "Sie" and "Ihr" do not.
_OPENERS = {
    "en": "A Add In It Last No Only Our Please Take The Tomorrow Until We You Your",
    "de": "Bis Bitte Das Der Die Ein Es Geben Ich Im In Letzte Morgen Nehmen Nur Unsere Wir "
    "Zwischen",
    "fr": "Ajoutez Aucun Demain En Il Jusqu’au J’attends Je La Le Les L’appartement L’appel "
    "L’électricité L’entreprise L’examen L’hôtel Notre Nous Prenez Seuls Une Veuillez Vos Votre "
    "Vous À",
}
_LOWERED = {language: frozenset(words.split()) for language, words in _OPENERS.items()}

# Conjunctions that leave the order of words as it is, in German, too.
CONJUNCTIONS = (
    Frame(", and ", " und ", " et "),
    Frame(", but ", ", aber ", ", mais "),
    Frame(", because ", ", denn ", ", car "),
)


def is_clause(frame: Frame) -> bool:
    """Whether a conjunction may join the sentence to another: one statement, without a colon."""
    first = frame.en.split()[0]
    opens = first in _LOWERED["en"] or first == "I" or first.startswith("{name")
    words = "".join(literal for literal, *_ in string.Formatter().parse(frame.en))
    return opens and words.endswith(".") and not set(":;?(") & set(words)


CLAUSES = tuple(frame for frame in FRAMES2 if is_clause(frame))


def continued(text: str, language: str) -> str:
    """Returns a sentence as it stands after a conjunction."""
    first = text.split()[0].rstrip(",")
    return text[0].lower() + text[1:] if first in _LOWERED[language] else text
