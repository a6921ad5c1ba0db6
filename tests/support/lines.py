"""Lines to learn vocabularies from, and odd ones that must come back."""

from hypothesis import strategies as st

TEXT = [
    "A small boat lies in the harbour, and a small boy sits in the boat.",
    "The boys row the boats out of the harbour; the harbour is small.",
    "Ein kleines Boot liegt im Hafen, und ein kleiner Junge sitzt im Boot.",
    "Kleine Boote im Hafen, 100 % klein!",
]
ODD_LINES = [
    *("", " ", "  a  b  ", "\t", "a\tb\r", "\0", "a\0b", "\x01\x7f", "\x85", "a\u2028b", "\ufeff"),
    *("▁", "▂", "▁ ▁", "▂a", "▂b", "▂▂ab▁", "a▁b c", "▅", "\u2047", " \u2047 ", "\ufffd"),
    *("<unk>", "</s><pad>", "<0x41>", "e\u0301 é ﬁ ２", "\U0010ffff", "👩\u200d🚀", "你好"),
]
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))
