"""Markup through the decoder, by both engines: lines, n-best, files, resumed runs."""

import html
import re
from collections import Counter

import pytest

import t2t_lite as t2t
from support.copying import BytesAlone, bytes_decoder, copier
from support.small_runs import noisy_run
from t2t_lite import registry
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding.config import CTRANSLATE2, ENGINES
from t2t_lite.decoding.request import TextOptions
from t2t_lite.errors import UsageError
from t2t_lite.text.tags.kinds import HTML

_LINES = [
    'A <b>cat</b> &amp; <a href="x">two <i>dogs</i></a>.',
    "no markup",
    "",
    "<br>",
    "{name} has %d files<br/>",
    "<b>x " + "and a long line, " * 5 + "<i>which is split</i>.</b> 😀",
    "<p>A cat.</p>\n<ul><li>Two <i>dogs</i><li>%d</ul>",
]
_PIECES = re.compile(r"<[^<>]*>|\{name\}|%d|😀")


def _pieces(text: str) -> Counter[str]:
    return Counter(_PIECES.findall(text))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return t2t.open_run(noisy_run(folder, hidden_size=16, num_hidden_layers=1).folder)


def _translator(run, engine: str, **settings):
    if engine == CTRANSLATE2:
        pytest.importorskip("ctranslate2")
    return run.translator(engine=engine, beam_size=2, extra_length=3, **settings)


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_outputs_have_the_markup_of_their_texts(run, engine):
    translate = _translator(run, engine)
    outputs = translate(_LINES, markup=HTML)
    for line, output in zip(_LINES, outputs, strict=True):
        assert _pieces(output) == _pieces(line)
    assert outputs[1:4] == [html.escape(translate("no markup"), quote=False), "", "<br>"]


@pytest.mark.integration
def test_the_text_is_translated_without_its_markup(run):
    translate = _translator(run, "tensorflow")
    marked = translate("A <b>cat</b> sleeps &lt;", markup=HTML)
    plain = translate("A cat sleeps <")
    assert re.sub("</?b>", "", marked) == html.escape(plain, quote=False)


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_each_of_n_best_has_the_markup(run, engine):
    found = _translator(run, engine)(_LINES, 2, markup=HTML)
    for line, outputs in zip(_LINES, found, strict=True):
        assert all(_pieces(output.text) == _pieces(line) for output in outputs)
        assert bool(outputs) == bool(line)


def test_kinds_and_models_are_checked(run):
    translate = _translator(run, "tensorflow")
    with pytest.raises(UsageError, match="expected html, xml or placeholders; did you mean"):
        translate("x", markup="htm")
    with pytest.raises(UsageError, match="no attention to a source"):
        copier().text.stages(TextOptions(markup=HTML))
    model = registry.model("transformer")(registry.hparams("transformer_test"), 0, 258)
    with pytest.raises(UsageError, match="is not a translation problem"):
        bytes_decoder(model, BytesAlone()).text.stages(TextOptions(markup=HTML))


def test_the_flag_needs_lines(run):
    with pytest.raises(SystemExit):
        t2t_decoder.main([f"--output_dir={run.folder}", "--markup=html"])
