"""The automaton finds the terms that the text of an output has."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.pieces import PieceEncoder
from t2t_lite.terms.spelling import Speller
from t2t_lite.terms.term_automaton import batched, kinds, term_tables
from t2t_lite.terms.term_list import Wanted
from t2t_lite.terms.word_borders import occurrences
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder

SPELLER = Speller(PieceEncoder())
WORDS = st.text("ab", min_size=1, max_size=3)
FORMS = st.lists(WORDS, min_size=1, max_size=2).map(" ".join)
IDS = st.lists(st.integers(2, SPELLER.vocab_size - 1), max_size=10)


def read(tables, ids, kinds_of):
    """Returns how often each term was completed, and whether a forbidden word was."""
    columns = {int(i): column for column, i in enumerate(tables.ids)}
    node, met, is_forbidden = 0, np.zeros(len(tables.needed), int), False
    for i in [*ids, EOS_ID]:
        column = columns.get(i, kinds_of[i])
        if tables.begins[column] or tables.ends[node]:
            met += tables.completes[node]
            is_forbidden |= bool(tables.is_forbidden[node])
        node = tables.following[node, column]
    return met, is_forbidden


@given(st.lists(WORDS, min_size=1, max_size=3, unique=True), FORMS, IDS)
def test_it_finds_what_the_text_has(words, forbidden, ids):
    wanted = [Wanted(word, (word,), 1) for word in words]
    tables = term_tables(wanted, [forbidden], SPELLER)
    met, is_forbidden = read(tables, ids, kinds(SPELLER.borders))
    text = PieceEncoder().decode(ids)
    assert met.tolist() == [len([*occurrences([word], text)]) for word in words]
    assert is_forbidden == any(occurrences([forbidden], text))


@given(st.lists(st.lists(FORMS, min_size=1, max_size=3, unique=True), max_size=3), IDS)
def test_what_is_left_shrinks_to_zero(groups, ids):
    wanted = [Wanted(str(number), tuple(forms), 1) for number, forms in enumerate(groups)]
    tables = term_tables(wanted, [], SPELLER)
    assert ((tables.left >= 0) & (tables.left <= tables.cost)).all()
    columns = {int(i): column for column, i in enumerate(tables.ids)}
    node = 0
    for i in ids:
        column = columns.get(i, kinds(SPELLER.borders)[i])
        is_border = tables.begins[column] or tables.ends[node]
        completed = tables.completes[node] & is_border
        assert not (completed & (tables.left[node] > 0)).any()
        node = tables.following[node, column]


def test_texts_that_the_vocabulary_cannot_spell_are_left_out():
    tables = term_tables([Wanted("x", ("x", "xy"), 1), Wanted("a", ("ab",), 2)], ["z"], SPELLER)
    assert tables.needed.tolist() == [2]
    assert tables.cost.tolist() == [2]
    assert term_tables([Wanted("x", ("x",), 1)], ["z"], SPELLER).is_empty


def test_a_batch_has_the_tables_of_its_sentences():
    one = term_tables([Wanted("a", ("ab a",), 1)], [], SPELLER)
    two = term_tables([Wanted("a", ("b",), 1), Wanted("b", ("a",), 3)], ["ab"], SPELLER)
    both = batched([one, two])
    for row, tables in enumerate([one, two]):
        for part, own in zip(both, tables, strict=True):
            assert (part[row][tuple(slice(size) for size in own.shape)] == own).all()
    assert both.needed.tolist() == [[1, 0], [1, 3]]


def test_spellings_suit_their_surroundings():
    encoder = PieceEncoder()
    assert {tuple(encoder.encode("ab")), tuple(encoder.encode("-ab")[1:])} == {
        *SPELLER.spellings("ab")
    }
    assert Speller(ByteTextEncoder()).spellings("é") == [tuple(ByteTextEncoder().encode("é"))]


def test_borders_of_bytes():
    borders, ids = Speller(ByteTextEncoder()).borders, ByteTextEncoder().encode("a -")
    assert borders.begins[ids].tolist() == [False, True, True]
    assert borders.ends[ids].tolist() == [False, True, True]
