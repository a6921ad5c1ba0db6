"""From text to words and weights, and the command around it."""

import functools
import json
import re

import numpy as np
import pytest

from support.commands import exit_code
from support.imported_runs import imported_run
from t2t_lite.bin import t2t_insights
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.output_formats import output_formatter
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.attention_maps import attention_maps
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.study.insights.job import heads_of, look
from t2t_lite.text.alignment.pharaoh import parsed_links


@pytest.mark.integration
def test_words_and_weights_of_a_given_target(decoder):
    views, target = look(decoder, " a cat ", "Katze")
    encoder, own, across, _ = views
    assert target == "Katze"
    kinds = [view.kind for view in views]
    assert kinds == ["encoder", "decoder", "encoder_decoder", "alignment"]
    source, target = ["a", "␣", "c", "a", "t", "<EOS>"], [*"Katze", "<EOS>"]
    assert (encoder.rows, encoder.columns) == (source, source)
    assert (own.rows, own.columns) == (target, ["<start>", *"Katze"])
    assert (across.rows, across.columns) == (target, source)
    ids = [[*decoder.engine.encoders["inputs"].encode(text), 1] for text in ("a cat", "Katze")]
    for view, layers in zip(
        views[:3], attention_maps(decoder.engine.models[0], *ids).values(), strict=True
    ):
        np.testing.assert_array_equal(view.layers, layers)
        assert np.shape(view.layers) == (2, 3, len(view.rows), len(view.columns))


@pytest.mark.integration
def test_the_target_is_the_decoders_output_unless_one_is_given(decoder):
    [[best]] = decoder.decode(decoder.text.encode(["a cat"]))
    views, target = look(decoder, "a cat")
    assert target == best.output.text
    assert len(views[2].rows) == len(best.ids) + 1
    given, _ = look(decoder, "a cat", "Katze")
    assert not np.array_equal(views[1].rows, given[1].rows)


@pytest.mark.integration
def test_the_links_of_words_are_those_of_the_decoder(run, decoder):
    text, given = "two cats sleep", "zwei Katzen schlafen fest"
    for target in ("", given):
        *_, view = look(decoder, text, target)[0]
        sources = decoder.text.encode([text])
        detailed = decoder.variant(return_beams=False, with_details=True)
        if target:
            found = detailed.score(sources, decoder.text.encode_targets([target], "line"))
        else:
            found = detailed.decode(sources)
        line = output_formatter("alignments", decoder.hparams)(sources[0], found[0])
        [weights] = view.layers
        assert view.columns == text.split()
        assert view.rows == found[0][0].output.text.split()
        assert {(j, i) for _, i, j in np.argwhere(weights)} == {*parsed_links(line)}
        assert {*weights.ravel().tolist()} <= {0.0, 1.0}


@pytest.mark.integration
def test_tokens_of_languages_have_their_place(tmp_path):
    run = imported_run(tmp_path / "run", default="de")
    decoder = Decoder.from_run(run, hparams=DecodeHParams(extra_length=4, target_language="en"))
    encoder, own, across, alignment = look(decoder, "w1 w2", "w3")[0]
    source, target = ["__de__", "w1", "w2", "<EOS>"], ["__en__", "w3", "<EOS>"]
    assert encoder.rows == across.columns == source
    assert own.rows == across.rows == target
    assert (alignment.columns, alignment.rows) == (["w1", "w2"], ["w3"])


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (" ", UsageError, "--text is empty"),
        ("x" * 40, UserError, "--text has 41 subwords, the model reads at most 40"),
    ],
)
def test_texts_without_a_picture(decoder, text, error, message):
    with pytest.raises(error, match=message):
        look(decoder, text, "target")


@pytest.mark.integration
def test_the_longest_text_that_the_model_reads_has_a_picture(decoder):
    encoder, *_ = look(decoder, "x" * 39, "target")[0]
    assert len(encoder.rows) == 40


def test_a_model_without_attention(decoder, monkeypatch):
    monkeypatch.setattr(type(decoder.engine.models[0]), "attention_layers", lambda model: {})
    with pytest.raises(UserError, match="Transformer has no attention to show"):
        look(decoder, "text", "target")


def test_numbers_of_heads():
    assert heads_of("") == []
    assert heads_of("3, 1") == [3, 1]
    with pytest.raises(UsageError, match="--heads=1,x: expected numbers from 1"):
        heads_of("1,x")


command = functools.partial(exit_code, t2t_insights.main)


@pytest.mark.integration
def test_the_page_is_written_into_the_run_folder(run, capsys):
    flags = ("--target=Katze", "--checkpoint_path=7")
    assert command(f"--output_dir={run.folder}", "--text=a cat", *flags) == 0
    path = run.folder / "insights.html"
    assert capsys.readouterr().out == f"{path}\n"
    data = json.loads(
        re.search(r'<script id="data".*?>(.*?)</script>', path.read_text(encoding="utf-8"))[1]
    )
    assert data["about"] == "translate_ende_wmt_characters, model.ckpt-7"
    assert (data["source"], data["target"]) == ("a cat", "Katze")
    assert data["views"][1]["rows"] == [*"Katze", "<EOS>"]


@pytest.mark.integration
def test_a_picture_of_what_is_asked_for(run, tmp_path, capsys):
    path = tmp_path / "figure"
    common = (f"--checkpoint_path={run.folder}/model.ckpt-7", "--text=a", "--target=b")
    picture = (f"--output_file={path}", "--output_format=svg", "--attention=encoder", "--layer=1")
    assert command(*common, *picture, "--heads=2") == 0
    text = path.read_text(encoding="utf-8")
    assert "Encoder self-attention, layer 1" in text
    assert len(set(re.findall("stroke: (#.*?);", text))) == 1
    assert command(*common, *picture, "--heads=4") == 2
    assert "--heads: no head 4; expected 1 to 3" in capsys.readouterr().err
    checkpoint = run.folder / "model.ckpt-7.index"
    before = checkpoint.read_bytes()
    assert command(*common, f"--output_file={checkpoint}") == 1
    assert str(checkpoint) in capsys.readouterr().err
    assert checkpoint.read_bytes() == before
