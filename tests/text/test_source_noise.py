"""Noise in sources: each kind, its frequency, and that nothing else changes."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import open_vocabularies
from t2t_lite.errors import UsageError
from t2t_lite.text import philox
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.source_noise import SourceNoise
from t2t_lite.text.text_encoder import (
    EOS_ID,
    ByteTextEncoder,
    ClassLabelEncoder,
    TabEncoder,
    TokenTextEncoder,
)

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))
BYTES = ByteTextEncoder()


def noisy(noise, lines, seed=0, first=0):
    rows = [[*noise.encoder.encode(line), EOS_ID] for line in lines]
    ids, splits = (
        np.array([i for row in rows for i in row], np.int64),
        np.cumsum([0, *map(len, rows)]),
    )
    draw = functools.partial(philox.draw, (seed, 0), 2, np.arange(first, first + len(rows)))
    ids, splits = noise(ids, splits, draw)
    changed = [ids[a:b].tolist() for a, b in itertools.pairwise(splits)]
    assert all(row[-1] == EOS_ID for row in changed)
    return [noise.encoder.decode(row) for row in changed]


@pytest.mark.parametrize(
    ("rates", "numbers", "expected"),
    [
        ({"casing": 0.5}, (0.4, 0.4, 0), "hello, wide world!"),
        ({"casing": 0.5}, (0.4, 0.6, 0), "HELLO, WIDE WORLD!"),
        ({"casing": 0.5}, (0.5, 0.6, 0), "Hello, wide World!"),
        ({"punctuation": 0.5}, (0, 0, 0.4), "Hello, wide World"),
        ({"typos": 0.5}, (0, 0, 0, *(0.4, 0.3, 0.99), 0.5, 0, 0), "Helol, wide World!"),
        ({"typos": 0.5}, (0, 0, 0, *(0.4, 0.6, 0.0), 0.5, 0, 0), "HHello, wide World!"),
        ({"typos": 0.5}, (0, 0, 0, *(0.4, 0.7, 0.99), 0.4, 0.7, 0), "Hell, ide World!"),
    ],
)
def test_each_kind(rates, numbers, expected):
    padded = (*numbers, *[0.9] * (12 - len(numbers)))
    assert SourceNoise(BYTES, **rates).line("Hello, wide World!", padded) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rose by 5%.", "It rose by 5%"),
        ("See §", "See §"),
        ("Bring it (and pens)!", "Bring it (and pens)"),
        ("Wirklich ?!", "Wirklich"),
        ("你好。", "你好"),
        ("...", "..."),
    ],
)
def test_punctuation_that_ends_a_sentence_is_cut_and_nothing_else(text, expected):
    assert SourceNoise(BYTES, punctuation=1.0).line(text, [0.9, 0, 0] + [0.9] * 20) == expected


@pytest.mark.parametrize(
    ("rates", "share"),
    [({"casing": 0.2}, 0.2), ({"punctuation": 0.3}, 0.3), ({"typos": 0.1}, 1 - 0.9**3)],
)
def test_frequencies(rates, share):
    lines = ["Kleine Boote schwimmen."] * 4000
    changed = noisy(SourceNoise(BYTES, **rates), lines)
    found = sum(one != line for one, line in zip(changed, lines, strict=True)) / len(lines)
    error = (share * (1 - share) / len(lines)) ** 0.5
    assert found == pytest.approx(share, abs=5 * error)


@given(st.lists(LINES, max_size=5))
def test_any_text(lines):
    everything = SourceNoise(BYTES, casing=1.0, typos=1.0, punctuation=1.0)
    for line, changed in zip(lines, noisy(everything, lines), strict=True):
        assert bool(changed.strip()) == bool(line.strip())
    assert noisy(SourceNoise(BYTES), lines) == lines


def test_a_line_is_changed_the_same_in_any_batch():
    noise = SourceNoise(BYTES, casing=0.5, typos=0.5, punctuation=0.5)
    lines = [f"Line {i} has words." for i in range(20)]
    changed = noisy(noise, lines)
    assert noisy(noise, lines[7:9], first=7) == changed[7:9]
    assert noisy(noise, lines, seed=1) != changed


def test_whole_words_are_refused(tmp_path):
    (tmp_path / "vocab").write_text("hello\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"source_typo_noise=0\.1.*vocabulary of whole words"):
        SourceNoise(TokenTextEncoder(tmp_path / "vocab"), typos=0.1)

    write_encoder(tmp_path / "vocab.json", ["<pad>", "</s>", "<unk>", "hello"], 2)
    with pytest.raises(UsageError, match=r"source_typo_noise=0\.1.*vocabulary of whole words"):
        SourceNoise(ImportedEncoder(tmp_path / "vocab.json"), typos=0.1)


def test_a_line_with_unknown_pieces_keeps_them(tmp_path):
    open_vocabularies.write_opus(tmp_path)
    noise = SourceNoise(ImportedEncoder(tmp_path / "vocab.imported.source.json"), punctuation=1.0)
    lines = ["The cats see a tree.", "The cats see ☃ a tree."]
    assert noisy(noise, lines) == ["The cats see a tree", "The cats see  a tree."]


@pytest.mark.parametrize(
    ("encoder", "reason"),
    [(ClassLabelEncoder(["neg", "pos"]), "labels"), (TabEncoder(BYTES, "$"), "several texts")],
)
def test_what_is_not_one_text_is_refused(encoder, reason):
    with pytest.raises(UsageError, match=rf"source_casing_noise=0\.5.*{reason}.*set them to 0"):
        SourceNoise(encoder, casing=0.5)
