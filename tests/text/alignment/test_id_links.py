"""Alignments of words and of ids."""

import pytest

from support.pieces import PieceEncoder
from t2t_lite.text.alignment.id_links import aligned_ids, word_places
from t2t_lite.text.text_encoder import ByteTextEncoder


@pytest.mark.parametrize(
    ("encoder", "text", "places"),
    [
        (PieceEncoder(), "ab a-b b", [0, 0, 1, 1, 1, 2]),
        (ByteTextEncoder(), "é a", [0, 0, 1, 1]),
        (ByteTextEncoder(), "", []),
    ],
)
def test_every_id_has_the_place_of_its_word(encoder, text, places):
    assert word_places(encoder, encoder.encode(text)) == places


def test_the_ids_of_a_word_are_spread_over_those_that_it_is_linked_to():
    sources, targets = [0, 0, 1, 2], [0, 1, 1, 1, 2, 3]
    links = [(2, 0), (1, 1), (0, 1), (0, 2)]
    assert aligned_ids(links, sources, targets) == [4, 1, 2, 3, 1, 0]
