"""Data whose sources have the form in which models read them, and whose targets are as given."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from support.imported_runs import write_vocabulary
from support.lines import TEXT
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.generation.aligned_examples import AligningExampleEncoder, trained_aligner
from t2t_lite.data.generation.chunks import Chunk, ExampleEncoder
from t2t_lite.text import sentencepiece_training
from t2t_lite.text.alignment.diagonal_aligner import DiagonalAligner
from t2t_lite.text.alignment.id_links import word_places
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.sample import ALIGNMENT, TARGETS_AS_SOURCE
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import ByteTextEncoder

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
SOURCES = ["Cafe\u0301\u00a0in Zu\u0308rich", "a\u200b small\u3000boat", "a small boat"]
CLEAN = ["Café in Zürich", "a small boat", "a small boat"]
TARGETS = ["kleines\u00a0Cafe\u0301\u200b", "Boot", "e\u0301"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "vocab.model"
    sentencepiece_training.train("bpe", path, [*TEXT, *CLEAN], 340)
    return SentencePieceEncoder(path)


def records(encoder, sources=SOURCES) -> list[bytes]:
    encoders = {"inputs": encoder, "targets": encoder}
    return ExampleEncoder("p", encoders).encode(Chunk(0, sources, TARGETS))


def features(example: bytes) -> dict[str, list[int]]:
    parsed = tf.train.Example.FromString(example).features.feature
    return {name: list(feature.int64_list.value) for name, feature in parsed.items()}


def texts(encoder, examples, side) -> list[str]:
    return [encoder.decode(features(example)[side][:-1]) for example in examples]


def test_sources_get_their_form_and_targets_keep_theirs(encoder):
    examples = records(encoder)
    assert texts(encoder, examples, "inputs") == CLEAN
    assert texts(encoder, examples, "targets") == TARGETS
    of_clean = [features(example)["inputs"] for example in records(encoder, CLEAN)]
    assert [features(example)["inputs"] for example in examples] == of_clean


@pytest.mark.parametrize("kind", ["of before", "bytes"])
def test_data_of_vocabularies_without_the_record_is_as_ever(kind):
    model = FIXTURES / "vocabulary_without_source_form.model"
    encoder = ByteTextEncoder() if kind == "bytes" else SentencePieceEncoder(model)
    examples = records(encoder)
    assert texts(encoder, examples, "inputs") == SOURCES
    assert all(set(features(example)) == {"inputs", "targets"} for example in examples)


def test_exchanged_sides_are_read_in_their_form(encoder):
    examples = records(encoder)
    assert [TARGETS_AS_SOURCE in features(example) for example in examples] == [
        True,
        False,
        True,
    ]
    for reader, sources in ((ExampleReader(), CLEAN), (ExampleReader(reverse=True), None)):
        parsed = reader.parse(tf.constant(examples))
        found = [encoder.decode(ids[:-1]) for ids in parsed["inputs"].to_list()]
        assert found == (sources or ["kleines Café", "Boot", "é"])
    targets = [encoder.decode(ids[:-1]) for ids in parsed["targets"].to_list()]
    assert targets == CLEAN


def test_words_that_nobody_sees_are_not_aligned(encoder):
    chunk = Chunk(0, ["a \u200b boat"], ["ein Boot"], further={ALIGNMENT: ["0-0 1-0 2-1"]})
    encoders = {"inputs": encoder, "targets": encoder}
    (example,) = AligningExampleEncoder("p", encoders, None).encode(chunk)
    plain = Chunk(0, ["a  boat"], ["ein Boot"], further={ALIGNMENT: ["0-0 1-1"]})
    (expected,) = AligningExampleEncoder("p", encoders, None).encode(plain)
    assert features(example)[ALIGNMENT] == features(expected)[ALIGNMENT]


@pytest.mark.parametrize("unseen", ["\u200b", "\u3164", "\u2800"])
def test_words_that_nobody_sees_are_counted(encoder, unseen):
    """Whether the form keeps them, as in this text the second and the third, or not."""
    chunk = Chunk(0, [f"a {unseen} boat"], ["ein Boot"], further={ALIGNMENT: ["0-0 2-1"]})
    own = AligningExampleEncoder("p", {"inputs": encoder, "targets": encoder}, None)
    found = features(own.encode(chunk)[0])
    words, translations = (word_places(encoder, found[side][:-1]) for side in ("inputs", "targets"))
    linked = {(j, words[i - 1]) for i, j in zip(found[ALIGNMENT], translations, strict=False)}
    assert linked == {(0, 0), (1, max(words))}
    assert not own.unlinked


@pytest.mark.parametrize(
    "texts",
    [("w1 unknown w2", "w3 w4 w5"), ("w3 w4 w5", "w1 unknown w2")],
    ids=["source", "target"],
)
def test_links_are_ignored_where_a_vocabulary_skips_words(tmp_path, texts):
    write_vocabulary(tmp_path, default="de")
    encoder = ImportedEncoder(tmp_path / "vocab.imported.source.json")
    own = AligningExampleEncoder("p", {"inputs": encoder, "targets": encoder}, None)
    sources, targets = zip(("w1 w2 w3", "w4 w5 w6"), texts, strict=True)
    chunk = Chunk(0, sources, targets, further={ALIGNMENT: ["0-0 1-1 2-2"] * 2})
    found = [features(example)[ALIGNMENT] for example in own.encode(chunk)]
    assert found == [[1, 2, 3, 4, 5], [0] * 5]
    assert own.unlinked == 1


def test_the_aligner_learns_from_sources_in_their_form(encoder, monkeypatch):
    seen = []
    monkeypatch.setattr(DiagonalAligner, "train", seen.extend)
    sample = {"inputs": SOURCES[0], "targets": TARGETS[0]}
    trained_aligner([sample], {"inputs": encoder, "targets": encoder})
    ((source, target),) = seen
    np.testing.assert_array_equal(source, encoder.encode(CLEAN[0]))
    np.testing.assert_array_equal(target, encoder.encode(TARGETS[0]))
