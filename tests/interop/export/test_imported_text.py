"""Vocabularies of imported models in a graph, and SavedModels in a chosen language."""

import pathlib

import pytest
import tensorflow as tf

from support.imported_runs import imported_run
from support.lines import ODD_LINES
from support.tensorflow_text import needs_tensorflow_text
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import DataError
from t2t_lite.interop.export import saved_model
from t2t_lite.interop.export.graph_text import graph_tokenizer, source_text
from t2t_lite.interop.export.pieces import tokens_of
from t2t_lite.interop.imports import hugging_face_vocabularies as vocabularies
from t2t_lite.interop.imports.hugging_face_tokens import read_tokenizer
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.language_tokens import TRANSLATION
from t2t_lite.text.source_form import has_text

_MODEL = pathlib.Path(__file__).parents[2] / "fixtures" / "tokenizers" / "marian"
_LINES = [
    *(line.replace("\n", " ") for line in ODD_LINES),
    *("The price of the tickets", "Der Preis", "☃ and ☂", "", "日本", "家の後ろ", "a  b"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "source.json"
    size = len(vocabularies.pieces_by_id(_MODEL / "vocab.json"))
    tokenizer = read_tokenizer(_MODEL, "marian")
    side, _ = vocabularies.marian(_MODEL, tokenizer, [size, size], size - 1, [0], size - 1)
    side.vocabulary.write(path)
    return ImportedEncoder(path)


@needs_tensorflow_text
@pytest.mark.integration
def test_ids_and_texts_in_a_graph(source):
    encoder = source.in_language("deu")
    graph = graph_tokenizer(encoder)
    lines = [*_LINES, *(f">>fra<<{line}" for line in _LINES)]
    ids = graph.tokenize(source_text(tf.constant(lines)))
    read = [encoder.encode(line.strip()) if has_text(line) else [] for line in lines]
    assert ids.to_list() == read
    texts = graph.detokenize(ids).numpy()
    assert [text.decode() for text in texts] == [encoder.decode(row) for row in ids.to_list()]


@needs_tensorflow_text
def test_lines_without_a_language_fail_in_a_graph(source):
    graph = graph_tokenizer(source)
    assert graph.tokenize(tf.constant(["", ">>deu<< a"])).to_list() == [
        [],
        source.encode(">>deu<< a"),
    ]
    for line in ("a", ">>xx<< a"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="names no language that"):
            graph.tokenize(tf.constant([line]))
        with pytest.raises(DataError):
            source.encode(line)


@pytest.mark.parametrize("field", [{"added": {3: ["single_word"]}}, {"cleans_spaces": True}])
def test_no_graph_splits_off_added_tokens_or_cleans_spaces(tmp_path, field):
    path = tmp_path / "v.json"
    write_encoder(path, ["<pad>", "</s>", "<unk>", "a", "b"], 2, **field)
    encoder = ImportedEncoder(path)
    assert graph_tokenizer(encoder) is None
    assert tokens_of({"inputs": encoder, "targets": encoder}) is None


@pytest.mark.integration
def test_words_in_a_graph(tmp_path):
    write_encoder(
        tmp_path / "v.json",
        ["<pad>", "</s>", "<unk>", "a", "b", ">>deu<<"],
        2,
        languages={"deu": 5},
        language_of=TRANSLATION,
        language="deu",
    )
    encoder = ImportedEncoder(tmp_path / "v.json")
    graph = graph_tokenizer(encoder)
    lines = ["a b", " b\u3000a\x1cb </s> c ", ""]
    ids = graph.tokenize(source_text(tf.constant(lines)))
    assert ids.to_list() == [encoder.encode(line.strip()) for line in lines]
    assert [t.decode() for t in graph.detokenize(ids).numpy()] == [
        encoder.decode(row) for row in ids.to_list()
    ]


@pytest.mark.integration
def test_a_saved_model_translates_into_its_language(tmp_path):
    run = imported_run(tmp_path / "run")
    languages = "source_language=fr,target_language=en"
    search = "extra_length=6,batch_size=2,min_length=3,no_repeat_ngram_size=2"
    hparams = DecodeHParams.of(run.problem, f"{languages},{search}")
    saved_model.export(run, None, str(tmp_path / "export"), hparams)
    texts = ["w1 w2 w3", "", "w4", "w5 w6 w7 w8 w9 w1", "w1 w1", "unknown"]
    expected = Translator(Decoder.from_run(run, hparams=hparams))(texts)
    assert len(set(expected)) > 2
    loaded = tf.saved_model.load(str(tmp_path / "export" / "translate" / "1"))
    found = loaded.signatures["serving_default"](inputs=tf.constant(texts))["outputs"].numpy()
    assert [text.decode() for text in found] == expected


@pytest.mark.integration
@pytest.mark.parametrize("chosen", ["", "target_language=de"])
def test_a_saved_model_needs_the_languages_of_its_texts(chosen, tmp_path):
    """No line can name that of a source which begins with its own."""
    run = imported_run(tmp_path / "run")
    hparams = DecodeHParams.of(run.problem, chosen)
    with pytest.raises(DataError, match="set source_language and target_language"):
        saved_model.export(run, None, str(tmp_path / "export"), hparams)
    assert not (tmp_path / "export").exists()
