"""An exported classifier gives texts the labels that the decoder gives them."""

import math

import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.errors import UserError
from t2t_lite.export import ctranslate2, graph_text, saved_model
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import ClassLabelEncoder

TEXTS = ["plain words", "", "  no break\u2003", "many words " * 6, "日本"]


@pytest.fixture(scope="module")
def run(make_run):
    return make_run("transformer_encoder", "sentiment_imdb_characters")


@pytest.mark.integration
def test_outputs_are_the_decoders(run, tmp_path):
    hparams = DecodeHParams.of(run.problem, "beam_size=2,extra_length=0,return_beams=true")
    saved_model.export(run, str(run.folder / "model.ckpt-7"), str(tmp_path), hparams)
    decoder = Decoder.from_run(run, hparams=hparams)
    wanted = decoder.decode(decoder.text.encode(TEXTS))
    translate = tf.saved_model.load(tmp_path / "translate" / "1").signatures["serving_default"]
    found = translate(inputs=tf.constant(TEXTS))
    terms = log_prob_terms(decoder.model, max(len(text.encode()) for text in TEXTS) + 1)
    labels = set()
    for row, scores, beams in zip(found["outputs"], found["scores"], wanted, strict=True):
        texts = [text.decode() for text in row.numpy() if text]
        assert texts == [hypothesis.output.text for hypothesis in beams]
        if beams:
            assert_close(scores, [h.score for h in beams], terms)
            assert_close(sum(math.exp(h.score) for h in beams), 1.0, terms)
        labels.update(texts)
    assert labels == {"neg", "pos"}


def test_labels_in_a_graph():
    encoder = ClassLabelEncoder(["not entailed", "entailed"])
    labels = graph_text.graph_tokenizer(encoder)
    ids = labels.tokenize(tf.constant(["entailed", "", "not entailed"]))
    assert ids.to_list() == [[3], [], [2]]
    assert labels.detokenize(ids).numpy().tolist() == [b"entailed", b"", b"not entailed"]


def test_ctranslate2_refuses_it(run):
    pytest.importorskip("ctranslate2")
    with pytest.raises(UserError, match="model TransformerClassifier: CTranslate2 runs only"):
        ctranslate2.convert(run.build_model())
