"""An exported language model goes on from prompts as the decoder does."""

import importlib

import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.errors import UserError
from t2t_lite.export import ctranslate2, saved_model
from t2t_lite.search.decode_hparams import DecodeHParams

PROMPTS = ["plain words", "", "  no break\u2003", "many words " * 6, "日本"]


@pytest.fixture(scope="module")
def run(make_run):
    return make_run("attention_lm", "text2self_tmpdir_bpe")


@pytest.mark.integration
@pytest.mark.parametrize("settings", ["beam_size=2,extra_length=4,return_beams=true"])
def test_outputs_are_the_decoders(run, tmp_path, settings):
    importlib.import_module("tensorflow_text")  # the operations of the text signature
    hparams = DecodeHParams.of(run.problem, settings)
    saved_model.export(run, str(run.folder / "model.ckpt-7"), str(tmp_path), hparams)
    decoder = Decoder.from_run(run, hparams=hparams)
    sources = decoder.text.encode(PROMPTS)
    wanted = decoder.decode(sources)
    assert {len(beams[0].ids) for beams in wanted} != {0}

    translate = tf.saved_model.load(tmp_path / "translate" / "1").signatures["serving_default"]
    found = translate(inputs=tf.constant(PROMPTS))
    for row, beams in zip(found["outputs"], wanted, strict=True):
        assert [text.decode() for text in row.numpy()] == [h.output.text for h in beams]
    scores = [[hypothesis.score for hypothesis in beams] for beams in wanted]
    steps = max(len(source.prefix) for source in sources) + 4  # and `extra_length`
    assert_close(found["scores"], scores, terms=steps * log_prob_terms(decoder.model, steps))

    ids = tf.saved_model.load(tmp_path / "ids" / "1").signatures["serving_default"]
    rows = tf.ragged.constant([list(s.prefix) for s in sources], tf.int32).to_tensor()
    for row, beams in zip(ids(inputs=rows)["outputs"].numpy(), wanted, strict=True):
        assert [id_ for id_ in row[0].tolist() if id_] == beams[0].ids
    readme = (tmp_path / "translate" / "1" / "README.md").read_text()
    assert "a prompt, perhaps empty" in readme


def test_ctranslate2_refuses_it(run):
    pytest.importorskip("ctranslate2")
    with pytest.raises(UserError, match="a language model: the export for CTranslate2"):
        ctranslate2.convert(run.build_model())
