"""Graphs convert text as Python does."""

import sys

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.copying import Bytes
from support.tensorflow_text import needs_tensorflow_text
from t2t_lite import registry
from t2t_lite.interop.export.graph_text import graph_tokenizer, one_line, source_text, valid_text
from t2t_lite.text.number_encoder import NumberEncoder
from t2t_lite.text.source_form import source_form
from t2t_lite.text.text_encoder import ByteTextEncoder, ClassLabelEncoder

ENCODER = ByteTextEncoder()
TOKENIZER = graph_tokenizer(ENCODER)
# Among them parts of characters, too long forms, surrogates, and more than Unicode has.
BYTES = st.one_of(
    st.binary(max_size=12),
    st.lists(st.sampled_from(b"\xe2\x82\xac\xf0\x9f\x98\xed\xa0\xc0\x80\xf4\x90\xffA ")).map(bytes),
)


def in_graph(function, texts: list[bytes]) -> list[bytes]:
    return function(tf.constant(texts, tf.string)).numpy().tolist()


@pytest.mark.integration
def test_every_character_is_white_space_or_not_as_in_python():
    characters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]
    texts = [f"{c}{c}a{c}" for c in characters]
    found = in_graph(source_text, [text.encode() for text in texts])
    assert found == [text.strip().encode() for text in texts]
    found = in_graph(source_text, [character.encode() for character in characters])
    source = Bytes().source
    assert found == [source(character).encode() for character in characters]


@pytest.mark.integration
@settings(deadline=None)
@given(st.lists(st.text(), min_size=1))
@example(["", " ", "\x00", " \x00\n", "\ufeffmark", "x" * 50_000, f"{' ' * 50_000}y "])
def test_white_space_around_a_line_and_lines_without_text_are_dropped(texts):
    found = in_graph(source_text, [text.encode() for text in texts])
    assert found == [Bytes().source(text).encode() for text in texts]


@pytest.mark.integration
@needs_tensorflow_text
@settings(deadline=None)
@given(
    st.lists(
        st.text(
            st.sampled_from("aeé\u0301\u0323 \u00a0\u3000\u200b\u200f\ufeff\u2028\x01\u1112\u1161")
        )
    )
)
@example(["Zu\u0308rich", "\u212b\u2028\u0085b", "\u200e", " \u200b a\u00adb "])
def test_sources_get_their_form(texts):
    found = in_graph(lambda lines: source_text(lines, True), [text.encode() for text in texts])
    assert found == [source_form(text).strip().encode() for text in texts]


@needs_tensorflow_text
def test_joiners_stay_in_a_graph_needed_or_not():
    found = in_graph(lambda lines: source_text(lines, True), ["a\u200db\ufe0f".encode()])
    assert found == ["a\u200db\ufe0f".encode()]
    assert source_form("a\u200db\ufe0f") == "ab"


@pytest.mark.integration
@settings(deadline=None)
@given(st.lists(BYTES, min_size=1))
def test_bytes_that_are_no_text_are_replaced_as_in_python(texts):
    expected = [text.decode("utf-8", "replace").encode() for text in texts]
    assert in_graph(valid_text, texts) == expected


def test_an_output_is_one_line():
    assert in_graph(one_line, ["a\nb\rc\td\u2028\0".encode()]) == ["a b c d\u2028\0".encode()]


@pytest.mark.integration
@settings(deadline=None)
@given(st.lists(st.text()))
@example(["", "\0", "日本語 😀"])
def test_bytes_as_ids(texts):
    ids = TOKENIZER.tokenize(tf.constant([text.encode() for text in texts], tf.string))
    assert ids.to_list() == [ENCODER.encode(text) for text in texts]


@pytest.mark.integration
@settings(deadline=None)
@given(st.lists(st.lists(st.integers(2, 257)), min_size=1))
def test_ids_as_text(rows):
    ragged = tf.RaggedTensor.from_row_lengths(
        tf.constant([id_ for row in rows for id_ in row], tf.int32), [len(row) for row in rows]
    )
    texts = [text.decode() for text in TOKENIZER.detokenize(ragged).numpy()]
    assert texts == [ENCODER.decode(row) for row in rows]


def test_problems_whose_text_is_more_than_text():
    assert registry.problem("translate_ende_wmt_characters").is_plain_text
    assert not registry.problem("wsj_parsing").is_plain_text


def test_labels_in_a_graph():
    encoder = ClassLabelEncoder(["not entailed", "entailed"])
    labels = graph_tokenizer(encoder)
    ids = labels.tokenize(tf.constant(["entailed", "", "not entailed"]))
    assert ids.to_list() == [[3], [], [2]]
    assert labels.detokenize(ids).numpy().tolist() == [b"entailed", b"", b"not entailed"]


@pytest.mark.integration
@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(*2 * [st.floats(width=32, allow_nan=False, allow_infinity=False)]).filter(
            lambda pair: all(number == 0 or abs(number) > 1e-37 for number in pair)
        ),
        min_size=1,
    )
)
@example([(0.1, -2.5), (1e-8, 3e38), (123456.0, -0.0), (1 / 3, 16777216.0)])
def test_numbers_are_written_as_by_the_decoder(pairs):
    encoder = NumberEncoder(2)
    numbers = graph_tokenizer(encoder)
    lines = [" ".join(map(repr, pair)) for pair in pairs]
    ids = [encoder.encode(line) for line in lines]
    found = numbers.detokenize(tf.ragged.constant(ids, tf.int32))
    assert found.numpy().tolist() == [encoder.decode(row).encode() for row in ids]
    assert numbers.tokenize(tf.constant(lines)).to_list() == ids
