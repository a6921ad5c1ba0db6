"""Translating by way of a third language: what two calls give, in one, by both engines."""

import pathlib
import random
import re

import pytest

from support.commands import Killed
from support.imported_runs import WORDS, imported_run
from support.marks import by_name
from support.small_runs import noisy_run
from support.texts import write_lines
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding import input_lines, jobs
from t2t_lite.decoding.batch_journal import BatchJournal
from t2t_lite.decoding.config import CTRANSLATE2, ENGINES, DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.pivot import has_two_steps
from t2t_lite.decoding.request import NOTHING, TextOptions
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import DataError, UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.imported_encoder import TEXT, TRANSLATION

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w1", "", "w1 w1", "w2 w3\nw4\n\nw5"]
SEARCH = "extra_length=6,beam_size=3,min_length=2"  # no output of noise is empty


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Texts of both sides begin with their language."""
    return imported_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def naming(tmp_path_factory):
    """Sources begin with the language of their translation."""
    return imported_run(tmp_path_factory.mktemp("naming") / "run", language_of=TRANSLATION)


def decoder_of(run, changes=SEARCH, engine="tensorflow"):
    if engine == CTRANSLATE2:
        pytest.importorskip("ctranslate2")
    if (key := (run.folder, changes, engine)) not in _DECODERS:
        hparams = DecodeHParams.of(run.problem, changes)
        _DECODERS[key] = Decoder.from_run(run, hparams=hparams, engine=engine)
    return _DECODERS[key]


_DECODERS: dict[tuple, Decoder] = {}  # compiled once


@pytest.fixture(scope="module")
def translate(run):
    return Translator(decoder_of(run))


def pair(source, target, kind=TEXT):
    """The languages of a call, as a model of this kind takes them."""
    given = {"source_language": source, "target_language": target}
    return given if kind == TEXT else {"target_language": target}


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [TEXT, TRANSLATION])
def test_one_call_gives_what_two_give(run, naming, engine, kind):
    translate = Translator(decoder_of(run if kind == TEXT else naming, engine=engine))
    between = translate(TEXTS, **pair("fr", "en", kind))
    expected = translate(between, **pair("en", "de", kind))
    found = translate(TEXTS, **pair("fr", "de", kind), pivot="en")
    assert found == expected
    assert found != translate(TEXTS, **pair("fr", "de", kind))
    assert list(translate.stream(TEXTS, **pair("fr", "de", kind), pivot="en")) == expected
    assert translate(TEXTS[0], **pair("fr", "de", kind), pivot="en") == expected[0]


_TAGS = re.compile("<[^<>]*>")


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_tags_survive_both_steps(run, engine):
    translate = Translator(decoder_of(run, engine=engine))
    lines = ["w1 <b>w2 w3</b> w4", "<br>", "", 'w5 <a href="x">w6 <i>w7</i></a><br> w8']
    found = translate(lines, **pair("fr", "de"), pivot="en", markup="html")
    between = translate(lines, **pair("fr", "en"), markup="html")
    assert found == translate(between, **pair("en", "de"), markup="html")
    for line, output in zip(lines, found, strict=True):
        assert sorted(_TAGS.findall(output)) == sorted(_TAGS.findall(line))


@pytest.mark.integration
def test_terms_name_words_of_the_pivot(translate):
    (between,) = translate(["w1 w2 w3"], **pair("fr", "en"))
    word = between.split()[0]
    terms = {word: "w9 w8 w7"}
    found = translate("w1 w2 w3", **pair("fr", "de"), pivot="en", terms=terms)
    assert "w9 w8 w7" in found
    assert found == translate(between, **pair("en", "de"), terms=terms)


@pytest.mark.integration
def test_prefixes_are_those_of_the_second_step(run):
    decoder = decoder_of(run, f"{SEARCH},source_language=fr,target_language=de")
    prefix = [3 + WORDS.index("w7")] * 2
    (source,) = decoder.text.encode(["w1 w2"], TextOptions(pivot="en"))
    (plain,), (prefixed,) = (
        decoder.decode([source]),
        decoder.decode([source._replace(prefix=prefix)]),
    )
    assert prefixed[0].output.text.startswith("w7 w7")
    assert plain[0].line_fields == prefixed[0].line_fields != {}


@pytest.mark.integration
def test_sources_with_and_without_a_pivot_share_batches_and_do_not_mind(run):
    decoder = decoder_of(run, f"{SEARCH},source_language=fr,target_language=de")
    both = NOTHING, TextOptions(pivot="en")
    sources = [source for options in both for source in decoder.text.encode(TEXTS, options)]
    sources = sources[::2] + sources[1::2]
    together = decoder.decode(sources)
    for source, hypotheses in zip(sources, together, strict=True):
        (alone,) = decoder.decode([source])
        assert [h.output for h in hypotheses[:1]] == [h.output for h in alone[:1]]
        assert [h.line_fields for h in hypotheses] == [h.line_fields for h in alone]
        assert all(bool(h.line_fields) == has_two_steps(source) for h in hypotheses)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({**pair("fr", "de"), "pivot": "de"}, UsageError, "pivot=de is the target language: leave"),
        ({**pair("fr", "de"), "pivot": "fr"}, UsageError, "pivot=fr is the source language: leave"),
        ({**pair("fr", "de"), "pivot": "English"}, UsageError, "^pivot: unknown.*mean 'en'"),
        ({**pair("fr", "de"), "pivot": 5}, UsageError, "pivot=5: expected a text"),
        ({**pair("fr", ""), "pivot": "en"}, DataError, "set source_language and target_language"),
        ({**pair("", "de"), "pivot": "en"}, DataError, "set source_language and target_language"),
        ({**pair("xx", "de"), "pivot": "en"}, UsageError, "source_language: unknown language 'xx'"),
        ({**pair("fr", "xx"), "pivot": "en"}, UsageError, "target_language: unknown language 'xx'"),
    ],
)
def test_what_is_wrong_with_a_pivot_is_named_before_a_text_is_read(
    translate, given, error, message
):
    with pytest.raises(error, match=message):
        translate(TEXTS, **given)
    with pytest.raises(error, match=message):
        translate.stream(TEXTS, **given)


@pytest.mark.integration
def test_defaults_count_as_the_languages_of_the_sides(tmp_path):
    translate = Translator(decoder_of(imported_run(tmp_path / "run", default="de")))
    with pytest.raises(UsageError, match="pivot=de is the source language"):
        translate("w1", pivot="de", target_language="fr")
    between = translate("w1 w2", target_language="en")
    assert translate("w1 w2", target_language="fr", pivot="en") == translate(
        between, source_language="en", target_language="fr"
    )


def test_lines_that_name_a_language_are_refused(naming):
    translate = Translator(decoder_of(naming))
    for text in (">>fr<< w1", "w1\n>>fr<< w2"):
        with pytest.raises(DataError, match=r"line 2 begins with >>fr<<, but .* by target_lang"):
            translate(["w1", text], target_language="de", pivot="en")


@pytest.mark.integration
def test_models_of_one_language_have_no_pivot(tmp_path):
    translate = Translator(
        Decoder.from_run(noisy_run(tmp_path, hidden_size=16, num_hidden_layers=1))
    )
    with pytest.raises(UsageError, match="pivot=en: the model has only one target language"):
        translate("1", pivot="en")


# ---- files


def config_of(run, folder, **changes) -> DecoderConfig:
    """Decodes TEXTS, line by line, to a file."""
    lines = [line for text in TEXTS for line in text.split("\n")]
    write_lines(folder / "in", [*lines, *reversed(lines), "w9 w8 w7 w6 w5 w4 w3 w2 w1"])
    given = {
        "output_dir": str(run.folder),
        "decode_from_file": str(folder / "in"),
        "decode_to_file": str(folder / "out"),
        "decode_hparams": f"{SEARCH},batch_size=2,max_input_size=5",
        "source_language": "fr",
        "target_language": "de",
        "pivot": "en",
    }
    return DecoderConfig(**{**given, **changes})


def written(config):
    jobs.run(config)
    return pathlib.Path(config.decode_to_file).read_text(encoding="utf-8").splitlines()


@pytest.mark.integration
@pytest.mark.parametrize("markup", ["", *by_name("html")])
def test_a_killed_run_decodes_no_batch_again(run, tmp_path, monkeypatch, markup):
    monkeypatch.setattr(input_lines, "_FIRST_WINDOW", 3)
    (tmp_path / "whole").mkdir()
    whole = config_of(run, tmp_path / "whole", markup=markup)
    decoder, trained = jobs.load_decoder(whole, jobs.find_models(whole))
    monkeypatch.setattr(jobs, "load_decoder", lambda *_: (decoder, trained))
    seen = []
    search = TensorFlowEngine.map

    def counted(engine, work, batches):
        for index, result in search(engine, work, batches):
            seen.append([source.ids for source in batches[index]])
            yield index, result

    monkeypatch.setattr(TensorFlowEngine, "map", counted)
    expected = written(whole)
    searched = sorted(map(repr, seen))
    assert len(searched) > 20
    append, random_ = BatchJournal.append, random.Random(1)
    seen.clear()
    config = config_of(run, tmp_path, markup=markup)
    left = 0

    def failing(journal, record):
        nonlocal left
        left -= 1
        if left < 0:
            if record.batch not in (0, -1):  # those of sources without ids
                seen.pop()  # what was decoded is lost
            raise Killed
        append(journal, record)

    monkeypatch.setattr(BatchJournal, "append", failing)
    for _ in range(100):
        left = random_.randrange(1, 5)
        try:
            found = written(config)
        except Killed:
            continue
        break
    assert found == expected
    assert sorted(map(repr, seen)) == searched


@pytest.mark.parametrize("kind", ["alignments", "subword_alignments"])
def test_alignments_are_refused(run, tmp_path, kind):
    with pytest.raises(UsageError, match=f"--output_format={kind}: with --pivot"):
        jobs.run(config_of(run, tmp_path, output_format=kind))


def test_a_wrong_pivot_is_named_before_a_line_is_read(run, tmp_path):
    with pytest.raises(UsageError, match=r"^pivot: unknown language 'eng'"):
        jobs.run(config_of(run, tmp_path, pivot="eng"))


@pytest.mark.parametrize("flags", [[], ["--score_file=x", "--decode_to_file=y"]])
def test_the_flag_needs_lines_to_translate(flags):
    argv = ["--output_dir=runs/x", "--pivot=en", *flags]
    with pytest.raises(
        UsageError, match="--pivot needs --decode_from_file or --decode_interactive"
    ):
        t2t_decoder.configure(t2t_decoder.COMMAND.parse(argv))
