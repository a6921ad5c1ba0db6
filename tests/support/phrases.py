"""A stand-in for a model: it says the five phrases of a text in another order, in capitals."""

from collections.abc import Sequence

import numpy as np

from t2t_lite.text.alignment.units import units_of
from t2t_lite.text.tags.placement import place
from t2t_lite.text.tags.segment import parse

PHRASES = ("please press", "the red key", "now or", "tomorrow at noon", "with care")


def capitals(source: str, kind: str) -> str:
    """Returns the translation of a text word by word, which is the same in capitals."""
    segment = parse(source, kind)
    words = [segment.text[unit.start : unit.end] for unit in units_of(segment.text)]
    text = segment.text.strip().upper()
    outputs = [text[unit.start : unit.end] for unit in units_of(text)]
    return place(segment, text, words, outputs, np.eye(len(words)))


def reordered(source: str, kind: str, order: Sequence[int]) -> str:
    """Returns the translation of `PHRASES`, which have markup, by a model that sees all exactly.

    Args:
        source: the phrases in their order.
        kind: of its markup.
        order: of the phrases in the translation.
    """
    segment = parse(source, kind)
    words = [segment.text[unit.start : unit.end] for unit in units_of(segment.text)]
    assert words == " ".join(PHRASES).split(), segment.text
    ends = np.cumsum([len(phrase.split()) for phrase in PHRASES])
    links = [
        word
        for number in order
        for word in range(ends[number] - len(PHRASES[number].split()), ends[number])
    ]
    outputs = [words[link].upper() for link in links]
    return place(segment, " ".join(outputs), words, outputs, np.eye(len(words))[links])
