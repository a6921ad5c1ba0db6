"""Pairs with suggested terms and with placeholders: how many, where, and in any vocabulary."""

import functools
import re

import numpy as np
import pytest

from t2t_lite.data.augmentation import MarkupAugmentation, Pair, TermAugmentation
from t2t_lite.errors import UsageError
from t2t_lite.text import philox, sentencepiece_training
from t2t_lite.text.alignment.units import token_of_characters, units_of
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.marks import PLACEHOLDERS, SUGGESTION
from t2t_lite.text.multilingual_encoder import MultilingualEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder, count_tokens
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder, TokenTextEncoder

WORDS = [
    "small",
    "boats",
    "lie",
    "in",
    "harbours",
    "and",
    "seven",
    "children",
    "sing",
    "Zürich",
]
KINDS = ("bytes", "bpe", "unigram", "subwords")


def texts_of(number):
    """A source, and a target of its words in the opposite order and in upper case."""
    words = [*WORDS[number % 7 : number % 7 + 4], str(number)]
    return " ".join(words) + ".", "¿" + " ".join(words[::-1]).upper() + "!"


LINES = [text for number in range(300) for text in texts_of(number)]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabularies")
    made = {
        "bytes": ByteTextEncoder(),
        "subwords": SubwordTextEncoder.build_from_token_counts(count_tokens(LINES), 1),
    }
    for kind in ("bpe", "unigram"):
        sentencepiece_training.train(kind, folder / kind, LINES, 420)
        made[kind] = SentencePieceEncoder(folder / kind)
    return made


def word_of_ids(encoder, text, ids):
    """The place of the word of each id."""
    owner = token_of_characters(text, [encoder.decode([i]) for i in ids])
    found = {}
    for place, (start, end) in enumerate(units_of(text)):
        for token in owner[start:end]:
            found.setdefault(token, place)
    return [found.get(token, -1) for token in range(len(ids))]


def pair_of(encoder, number):
    """A pair, in which each id is aligned to the first of those of the word that it means."""
    source, target = texts_of(number)
    sources, targets = encoder.encode(source), encoder.encode(target)
    source_words = word_of_ids(encoder, source, sources)
    eos = len(sources) + 1
    alignment = []
    for word in word_of_ids(encoder, target, targets):
        meant = 5 - word  # word 0 is "¿", and 6 "!"
        alignment.append(source_words.index(meant) + 1 if 1 <= word <= 5 else eos)
    return Pair([*sources, EOS_ID], [*targets, EOS_ID], [*alignment, eos])


def augmented(kind, encoder, pairs, share=1.0, first=0, epoch=0):
    encoders = {"inputs": encoder, "targets": encoder}
    numbers = np.arange(first, first + len(pairs))
    draw = functools.partial(philox.draw, (7, epoch), 3, numbers)
    return kind(encoders, share)(pairs, draw)


def shown(encoder, pair):
    return encoder.decode(pair.source[:-1]), encoder.decode(pair.target[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_suggestions_are_the_words_that_the_target_has(encoders, kind):
    encoder = encoders[kind]
    pairs = [pair_of(encoder, number) for number in range(100)]
    found = augmented(TermAugmentation, encoder, pairs)
    counts = set()
    for number, (before, after) in enumerate(zip(pairs, found, strict=True)):
        source, target = texts_of(number)
        marked, kept = shown(encoder, after)
        assert after.target == before.target
        assert (SUGGESTION.sub("", marked), kept) == (source, target)
        suggested = re.findall("([^\x02\x03]*)\x02 ([^\x03]*)\x03", marked)
        for words, form in suggested:
            size = len(form.split())
            assert " ".join(words.split()[-size:][::-1]).upper() == form
        counts.add(len(suggested))
    assert counts == {1, 2, 3}


@pytest.mark.parametrize("kind", KINDS)
def test_placeholders_stand_for_the_same_word_on_both_sides(encoders, kind):
    encoder = encoders[kind]
    pairs = [pair_of(encoder, number) for number in range(100)]
    seen = set()
    for number, after in enumerate(augmented(MarkupAugmentation, encoder, pairs)):
        texts = texts_of(number)
        marked = shown(encoder, after)
        words = [re.findall(r"[\x10-\x17]|\w+", text) for text in marked]
        plain = [re.findall(r"\w+", text) for text in texts]
        marks = [[(i, w) for i, w in enumerate(side) if w in PLACEHOLDERS] for side in words]
        assert {(4 - i, mark) for i, mark in marks[1]} == {*marks[0]}
        assert len({mark for _, mark in marks[0]}) == len(marks[0]) in (1, 2, 3)
        for side, own in zip(words, plain, strict=True):
            assert all(a in (b, *PLACEHOLDERS) for a, b in zip(side, own, strict=True))
        seen |= {mark for _, mark in marks[0]}
    assert seen == {*PLACEHOLDERS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("augmentation", [TermAugmentation, MarkupAugmentation])
def test_words_stay_aligned_to_their_words(encoders, kind, augmentation):
    encoder = encoders[kind]
    pairs = [pair_of(encoder, number) for number in range(40)]
    for after in augmented(augmentation, encoder, pairs):
        source, target = shown(encoder, after)
        assert len(after.alignment) == len(after.target)
        eos = len(after.source)
        assert after.alignment[-1] == eos
        words = [[text[slice(*unit)] for unit in units_of(text)] for text in (source, target)]
        sources = word_of_ids(encoder, source, after.source[:-1])
        targets = word_of_ids(encoder, target, after.target[:-1])
        for word, place in zip(targets, after.alignment[:-1], strict=True):
            if word < 0 or words[1][word] in "¿!":
                continue
            assert words[0][sources[place - 1]].upper() == words[1][word]


@pytest.mark.integration
@pytest.mark.parametrize("augmentation", [TermAugmentation, MarkupAugmentation])
def test_the_share_is_drawn_and_anew_in_every_epoch(encoders, augmentation):
    encoder = encoders["bpe"]
    pairs = [pair_of(encoder, number % 300) for number in range(1200)]
    found = [augmented(augmentation, encoder, pairs, 0.3, epoch=epoch) for epoch in (0, 1)]
    changed = [np.array([a != b for a, b in zip(one, pairs, strict=True)]) for one in found]
    for one in changed:  # by chance, 5.3 standard deviations
        assert abs(one.mean() - 0.3) < 0.07
    assert 0.04 < (changed[0] & changed[1]).mean() < 0.16
    assert augmented(augmentation, encoder, pairs, 0.0) == pairs


@pytest.mark.parametrize("augmentation", [TermAugmentation, MarkupAugmentation])
def test_an_example_is_the_same_in_any_batch(encoders, augmentation):
    encoder = encoders["bpe"]
    pairs = [pair_of(encoder, number) for number in range(30)]
    whole = augmented(augmentation, encoder, pairs, 0.5)
    parts = [augmented(augmentation, encoder, pairs[i : i + 7], 0.5, i) for i in range(0, 30, 7)]
    assert [pair for part in parts for pair in part] == whole
    assert augmented(augmentation, encoder, pairs, 0.5) == whole


def test_without_an_alignment_equal_words_alone_give_way(encoders):
    encoder = encoders["bpe"]
    pairs = [pair_of(encoder, number)._replace(alignment=[]) for number in range(30)]
    for number, after in enumerate(augmented(MarkupAugmentation, encoder, pairs)):
        source, target = shown(encoder, after)
        (mark,) = {*source} & {*PLACEHOLDERS}
        restored = (text.replace(mark, str(number)) for text in (source, target))
        assert tuple(restored) == texts_of(number)
        assert after.alignment == []
    assert augmented(TermAugmentation, encoder, pairs) == pairs


def test_pairs_without_words_stay(encoders):
    encoder = encoders["bpe"]
    pairs = [Pair([EOS_ID], [EOS_ID], [1]), Pair([*encoder.encode("..."), EOS_ID], [EOS_ID], [])]
    for augmentation in (TermAugmentation, MarkupAugmentation):
        assert augmented(augmentation, encoder, pairs) == pairs


def test_pairs_with_unknown_pieces_stay(encoders, tmp_path):
    own = encoders["bpe"]
    pieces = [piece for piece in own.tokens if piece != "<0xE2>"]  # the first byte of ☃
    write_encoder(tmp_path / "vocab.json", pieces, 2, model=own.model)
    encoder = ImportedEncoder(tmp_path / "vocab.json")
    texts = [("7 boats", "BOATS 7"), ("7 ☃ boats", "BOATS 7"), ("7 boats", "BOATS ☃ 7")]
    pairs = [Pair(*([*encoder.encode(x), EOS_ID] for x in text), []) for text in texts]
    changed, *others = augmented(MarkupAugmentation, encoder, pairs)
    assert changed != pairs[0]
    assert others == pairs[1:]


def test_vocabularies_of_words_are_refused(tmp_path):
    (tmp_path / "tokens").write_text("a\nb\n")
    tokens, subwords = TokenTextEncoder(tmp_path / "tokens"), ByteTextEncoder()
    with pytest.raises(UsageError, match=r"term_augmentation=0\.5: .*inputs.*term_augmentation=0"):
        TermAugmentation({"inputs": tokens, "targets": subwords}, 0.5)
    TermAugmentation({"inputs": subwords, "targets": tokens}, 0.5)
    with pytest.raises(UsageError, match=r"markup_augmentation=0\.5: .*of the targets"):
        MarkupAugmentation({"inputs": subwords, "targets": tokens}, 0.5)


@pytest.mark.parametrize("augmentation", [TermAugmentation, MarkupAugmentation])
def test_sources_keep_the_tokens_of_their_languages(tmp_path, augmentation):
    path = tmp_path / "many.model"
    sentencepiece_training.train("bpe", path, LINES, 420, ["<2de>", "<2fr>", "<bt>"])
    encoder = MultilingualEncoder(path)  # of a mixture: no language is chosen
    for language in ("de", "fr+bt"):
        spoken = encoder.in_language(language)
        start = [*encoder.starts[language]]
        n = len(start)  # targets have no such tokens
        pairs = [
            Pair(source, target[n:], alignment[n:])
            for source, target, alignment in (pair_of(spoken, number) for number in range(20))
        ]
        for before, after in zip(pairs, augmented(augmentation, encoder, pairs), strict=True):
            assert before.source != after.source
            assert after.source[:n] == start
            assert not set(start) & {*after.source[n:], *after.target}
            assert len(after.alignment) == len(after.target)
