"""Noise in a text that a model learns to undo."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.text import denoising
from t2t_lite.text.denoising import with_noise
from t2t_lite.text.source_form import has_text

WORDS = [f"w{number}" for number in range(2000)]


def test_a_tenth_of_the_words_is_dropped_and_the_others_move_three_places_at_most():
    noisy = with_noise(" ".join(WORDS)).split(" ")
    assert 160 < len(WORDS) - len(noisy) < 240
    assert len(set(noisy)) == len(noisy)
    kept = [word for word in WORDS if word in set(noisy)]
    moves = [noisy.index(word) - place for place, word in enumerate(kept)]
    assert {-3, -2, -1, 0, 1, 2, 3} == set(moves)


@given(st.text())
def test_words_are_neither_made_nor_lost_but_by_dropping(text):
    noisy = with_noise(text)
    before, after = (collections.Counter(t for t in x if not t.isspace()) for x in (text, noisy))
    assert after <= before
    assert has_text(noisy) == has_text(text)
    assert with_noise(text) == noisy


@pytest.mark.parametrize("text", ["", " ", "a", "mot", "\ud800 x"])
def test_hardly_any_text_stays_text(text):
    assert with_noise(text).strip() in (text.strip(), *text.split())


def test_of_a_text_that_is_seen_something_seen_remains():
    assert all(has_text(with_noise(f"{word} \u200e")) for word in WORDS[:100])


def test_characters_are_the_words_of_scripts_without_spaces(monkeypatch):
    monkeypatch.setattr(denoising, "_DROPPED", 0.0)
    text = "他们在公园里踢足球,然后回家吃饭"
    noisy = with_noise(text)
    assert noisy != text
    assert sorted(noisy) == sorted(text)
    noisy = with_noise("the cat plays football in 公园 and then goes home")
    assert "公" in noisy
    assert sorted(noisy.replace("公", " ").replace("园", " ").split()) == sorted(
        ["the", "cat", "plays", "football", "in", "and", "then", "goes", "home"]
    )


def test_texts_differ_in_their_noise():
    first = with_noise(" ".join(WORDS[:20]))
    assert [WORDS[:20].index(w) for w in first.split()] != [
        WORDS[20:40].index(w) for w in with_noise(" ".join(WORDS[20:40])).split()
    ]
