"""The search parts on the page about extending: in commands, the server, Python and exports."""

import json
import re

import pytest
import tensorflow as tf

import t2t_lite as t2t
from support.pages import run_here
from support.registries import restored
from support.servers import answers_of
from support.small_runs import noisy_run
from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UsageError
from t2t_lite.interop.export import saved_model
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.requests import TranslationRequest

pytestmark = pytest.mark.integration

_HEADING = "A constraint, a penalty or a sampler"
_LINES = ["a1 b2 c3", "", "7"]
_SHORT = "extra_length=4,beam_size=2"


@pytest.fixture
def folder(pages, tmp_path, monkeypatch):
    """An empty folder to be in, with `my_search`, the run `my_run` and `in.txt`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_search").mkdir()
    code = pages["extending-decoding.md"].block(_HEADING, "python").code
    (tmp_path / "my_search" / "__init__.py").write_text(code, encoding="utf-8")
    noisy_run(tmp_path / "my_run", num_hidden_layers=1, hidden_size=16, filter_size=16)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in _LINES), encoding="utf-8")
    with restored():
        yield tmp_path


def test_search_parts(pages, folder):
    for line in pages["extending-decoding.md"].block(_HEADING, "bash").code.splitlines():
        run_here(line.replace("--decode_hparams=", f"--decode_hparams={_SHORT},"))
    best = (folder / "best.txt").read_text(encoding="utf-8")
    drawn = (folder / "drawn.txt").read_text(encoding="utf-8")
    assert best.count("\n") == drawn.count("\n") == len(_LINES)
    assert not re.search(r"\d", best + drawn)

    settings = f"{_SHORT},search=no_digits+subword_reward:0.2"
    run = t2t.open_run("my_run")
    hparams = DecodeHParams.of(run.problem, settings)
    lines = best.splitlines()
    assert Translator(Decoder.from_run(run, hparams=hparams))(_LINES) == lines
    parts = [registry.search_part("no_digits").from_hparams(hparams, run.encoders, "")]
    parts += [registry.search_part("subword_reward").from_hparams(hparams, run.encoders, "0.2")]
    translate = run.translator(search=parts, beam_size=2, extra_length=4)
    assert translate(_LINES) == lines

    server = RequestTranslator.load(run, None, hparams, ServerMetrics(), ServerConfig())
    request = TranslationRequest(texts=_LINES, is_single=False, n_best=1, attention=False)
    (answer,) = answers_of(server, [request])
    found = [one["hypotheses"] for one in json.loads(answer)["translations"]]
    assert [beams[0]["text"] if beams else "" for beams in found] == lines

    saved_model.export(run, None, str(folder / "exports"), hparams)
    loaded = tf.saved_model.load(str(folder / "exports" / "translate" / "1"))
    outputs = loaded.signatures["serving_default"](inputs=tf.constant(_LINES))["outputs"]
    assert [text.decode() for text in outputs.numpy()] == lines


def test_python_code_cannot_be_exported(folder):
    run = t2t.open_run("my_run")

    @t2t.register_search
    class Slow(t2t.Constraint):
        def allowed(self, ids, step, sentences, vocab_size):
            asked = tf.numpy_function(lambda count: count != 5, [tf.range(vocab_size)], tf.bool)
            return tf.ensure_shape(asked, [vocab_size])

    hparams = DecodeHParams.of(run.problem, f"{_SHORT},search=slow")
    with pytest.raises(UsageError, match="search=slow: it runs Python code"):
        saved_model.export(run, None, str(folder / "exports"), hparams)
    assert not list((folder / "exports").glob("*/*"))
