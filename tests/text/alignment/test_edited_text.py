"""Texts with edits, and their alignments: all characters keep their links."""

from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.text.alignment.edited_text import Edit, EditedText, MovedTokens, moved_alignment

LETTERS = st.text("abcdé ", max_size=12)


@st.composite
def texts_with_edits(draw):
    text = draw(LETTERS)
    borders = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = list(zip(borders[::2], borders[1::2], strict=False))
    return text, [Edit(*span, draw(st.text("XYZ", min_size=1, max_size=3))) for span in spans]


@given(texts_with_edits())
def test_edits_replace_their_spans(example):
    text, edits = example
    expected, done = "", 0
    for start, end, new in edits:
        expected += text[done:start] + new
        done = end
    assert EditedText(text, edits[::-1]).text == expected + text[done:]


def aligned(before, edits, alignment):
    """The new alignment of a source whose target, of one id for each character, stays."""
    text = EditedText(before, edits)
    moved = text.moved_tokens([*before], [*text.text])
    same = {i: i for i in range(len(alignment) - 1)}
    target = MovedTokens(same, same)
    sizes = len(text.text) + 1, len(alignment)
    return text.text, moved_alignment(alignment, moved, target, *sizes)


@given(texts_with_edits())
def test_ids_are_aligned_to_the_same_characters(example):
    before, edits = example
    eos = len(before) + 1
    text, found = aligned(before, edits, [*range(1, eos + 1)])
    assert found[-1] == len(text) + 1
    for old, place in enumerate(found[:-1]):
        edit = next((e for e in edits if e.start <= old < e.end), None)
        if before[old].isspace():
            if edit is None and old + 2 < eos and not before[old + 1].isspace():
                assert place == found[old + 1]
        elif edit is None:
            assert text[place - 1] == before[old]
        else:
            assert text[place - 1] in edit.text or before[edit.start].isspace()


def test_words_after_an_insertion_move():
    text, found = aligned("ab c", [Edit(2, 2, "XY")], [4, 1, 2, 5, 5])
    assert (text, found) == ("abXY c", [6, 1, 2, 7, 7])


def test_both_sides_may_have_other_ids():
    source = EditedText("one two", [Edit(4, 7, "#")])
    target = EditedText("zwei eins", [Edit(0, 4, "#")])
    moved = (
        source.moved_tokens(["one", " t", "wo"], ["on", "e", " ", "#"]),
        target.moved_tokens(["zw", "ei", " eins"], ["#", " ", "ein", "s"]),
    )
    # By words: zwei to two, eins to one; a space belongs to the word that follows.
    assert moved_alignment([2, 3, 1, 4], *moved, 5, 5) == [4, 1, 1, 1, 5]
