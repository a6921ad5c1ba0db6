"""Alignments of words and of ids."""

import pytest

from support.growth import assert_grows_gently
from support.imported_runs import write_vocabulary
from support.pieces import PieceEncoder
from t2t_lite.text import imported_encoder
from t2t_lite.text.alignment.id_links import aligned_ids, places_in_text, word_places
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder, count_tokens
from t2t_lite.text.text_encoder import ByteTextEncoder


@pytest.mark.parametrize(
    ("encoder", "text", "places"),
    [
        (PieceEncoder(), "ab a-b b", [0, 0, 1, 1, 1, 2]),
        (ByteTextEncoder(), "é a", [0, 0, 1, 1]),
        (ByteTextEncoder(), "", []),
        (ByteTextEncoder(), "é" + " é" * 99, [0, 0, *(i for i in range(1, 100) for _ in "123")]),
        (ByteTextEncoder(), "é" * 99 + " a", [0] * 198 + [1] * 2),
    ],
)
def test_every_id_has_the_place_of_its_word(encoder, text, places):
    assert word_places(encoder, encoder.encode(text)) == places


@pytest.mark.parametrize("before", range(1, 7))
def test_a_long_word_of_characters_that_are_escaped_is_one_word(before):
    """Such as a name in another script in T2T's subwords, whose characters have six ids each."""
    encoder = SubwordTextEncoder.build_to_target_size(30, count_tokens(["the cats"]), 1, 1000)
    ids = encoder.encode("t" * before + " " + "д" * 40 + " the")
    assert word_places(encoder, ids)[-2] == 2  # the last id shows nothing


@pytest.mark.parametrize("text", ["a", "a "])
def test_lines_take_as_long_as_they_have_ids(text):
    encoder = ByteTextEncoder()

    def work(ids):
        places = word_places(encoder, ids)
        return aligned_ids([(place, place) for place in set(places)], places, places)

    assert_grows_gently(lambda n: encoder.encode(text * n), work, 400)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("w1 w2", [0, 0, 1]),  # the first id is that of the language
        (">>de<< w1 w2", [1, 1, 2]),
        (">>de<<w1 w2", [0, 0, 1]),
        ("w1 unknown w2", []),
    ],
)
def test_every_id_has_the_place_of_its_word_in_the_text(tmp_path, text, places):
    write_vocabulary(tmp_path, default="de", language_of=imported_encoder.TRANSLATION)
    encoder = ImportedEncoder(tmp_path / "vocab.imported.source.json")
    assert places_in_text(encoder, encoder.encode(text), text, is_source=True) == places


def test_the_ids_of_a_word_are_spread_over_those_that_it_is_linked_to():
    sources, targets = [0, 0, 1, 2], [0, 1, 1, 1, 2, 3]
    links = [(2, 0), (1, 1), (0, 1), (0, 2)]
    assert aligned_ids(links, sources, targets) == [4, 1, 2, 3, 1, 0]
