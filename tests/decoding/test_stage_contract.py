"""What holds of every stage at every front door, with the examples of its options.

A stage that is registered is covered: Python, files, JSON, resumed runs, HTTP, documents, a pivot,
long and empty lines, refusals. What a stage means is in a file of its own.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import re
import types
import typing
from collections.abc import Iterator

import numpy as np
import pytest
from starlette.exceptions import HTTPException

from support.echo import echoing, encoders_of
from support.servers import answers_of, request_of
from t2t_lite.decoding import jobs, request
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.documents import job as documents
from t2t_lite.decoding.request import FIELDS, Options, TextOptions
from t2t_lite.decoding.stages.registered import STAGES, TOLD
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UsageError
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.settings import settings_of

LINES = [
    "open the file in a <b>red Ordner</b> now",
    "",
    "the file and the file",
    "a very long line with the file in it , which is cut <i>in pieces</i> at the Ordner",
    "two lines",
    "<p>open the file now</p> <ul><li>a <b>red</b> file in it<li>Ordner</ul><p></p>",
]
# With tags, without them, and with suggestions.
WORDS = {*" ".join(LINES).split(), *re.findall(r"\w+", " ".join(LINES))}
WORDS |= {"Datei", "file\x02", "Datei\x03"}
LANGUAGES = {"source_language": "fr", "target_language": "de"}


def examples(names):
    return {name: FIELDS[name].example for name in names}


def cases() -> Iterator:
    """Yields options and decode hparams: for whole lines, and for lines that are cut."""
    for stage in STAGES:
        for name, settings in (("whole", {}), ("cut", {"max_input_size": 6})):
            yield pytest.param(examples(stage.fields), settings, id=f"{stage.__name__}-{name}")
            if stage is STAGES[-1]:
                yield pytest.param(examples(["pivot"]), settings, id=f"pivot-{name}")
    yield pytest.param(examples(["terms"]), {"term_mode": "soft"}, id="soft")


every_case = pytest.mark.parametrize(("options", "settings"), [*cases()])


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    return encoders_of(tmp_path_factory.mktemp("vocabulary"), sorted(WORDS))


def decoder_of(encoders, **settings):
    return echoing(encoders, **LANGUAGES, **settings)


class Run(types.SimpleNamespace):
    """Stands for a trained model, which `load_decoder` finds."""

    def origin(self):
        return "the same"

    def files(self):
        return []


@pytest.fixture
def opened(encoders, monkeypatch):
    """Lets jobs decode with an echo; returns how to ask for details and what has been read."""
    engines = []

    def load(config, trained):
        hparams = config.search_settings(trained[0].run)
        decoder = echoing(encoders, **hparams.to_dict())
        engines.append(decoder.engine)
        return type(decoder)(
            decoder.engine, decoder.problem, with_details=config.output_format != "text"
        ), trained

    run = types.SimpleNamespace(problem=None, decode_hparams="", model_name="echo")
    run.problem = echoing(encoders, **LANGUAGES).problem
    for module in (jobs, documents):
        monkeypatch.setattr(module, "find_models", lambda config: [Run(run=run, checkpoint="7")])
    monkeypatch.setattr(jobs, "load_decoder", load)
    monkeypatch.setattr(jobs, "faster_engine", lambda engine: "")  # it loads TensorFlow
    return engines


def flags_of(folder: pathlib.Path, options) -> dict[str, str]:
    """Returns options as flags, with the files that they name."""
    flags = {}
    for name, value in options.items():
        flags[name] = value
        if FIELDS[name].read:
            path = folder / name
            rows = value.items() if isinstance(value, dict) else ([word] for word in value)
            path.write_text("".join("\t".join(row) + "\n" for row in rows))
            flags[name] = str(path)
    return flags


def config_of(folder, options, settings, name="out", **others) -> DecoderConfig:
    source = folder / "in"
    source.write_text("".join(f"{line}\n" for line in LINES))
    changes = {"batch_size": 1, "beam_size": 2, **settings}
    hparams = ",".join(f"{name}={value}" for name, value in changes.items())
    paths = {"decode_from_file": str(source), "decode_to_file": str(folder / name)}
    own = {"decode_hparams": hparams, **paths, **LANGUAGES, **others}
    return DecoderConfig(**own | flags_of(folder, options))


def decoded(folder, options, settings, name="out", **others) -> list[str]:
    config = config_of(folder, options, settings, name, **others)
    jobs.run(config)
    return pathlib.Path(config.decode_to_file).read_text().splitlines()


@every_case
def test_python_files_json_and_http_agree(options, settings, encoders, opened, tmp_path):
    decoder = decoder_of(encoders, **settings)
    translate = Translator(decoder)
    outputs = translate(LINES, **options)
    assert outputs[1] == ""
    assert all(outputs[:1] + outputs[2:])
    assert list(translate.stream(iter(LINES), **options)) == outputs
    assert translate(LINES[0], **options) == outputs[0]
    found = translate(LINES, 2, **options)
    assert [own[0].text if own else "" for own in found] == outputs
    assert decoded(tmp_path, options, settings) == outputs

    objects = [
        json.loads(line)
        for line in decoded(tmp_path, options, settings, "json", output_format="json")
    ]
    assert [one["source"] for one in objects] == LINES
    for one, own in zip(objects, found, strict=True):
        for entry, translation in zip(one["hypotheses"], own, strict=False):
            assert_same_fields({**one, **entry}, translation)

    answer = answered(decoder, {"texts": LINES, "attention": True, **options})
    assert json.loads(answer)["translations"] == objects


def assert_same_fields(entry, translation):
    """Python, JSON and HTTP tell the same of an output."""
    told = {name: value for name, value in entry.items() if name not in ("source", "hypotheses")}
    own = {f.name: getattr(translation, f.name) for f in dataclasses.fields(translation)}
    own |= own.pop("fields")
    assert told.keys() <= own.keys()
    assert all(own[name] == TOLD[name] for name in own.keys() - told.keys())
    for name, value in told.items():
        np.testing.assert_array_equal(np.array(own[name]), np.array(value), name)
        assert getattr(translation, name) is own[name]


@every_case
def test_what_is_shown_of_the_source_is_what_the_model_read_of_it(options, settings, encoders):
    decoder = decoder_of(encoders, **settings)
    for line, found in zip(LINES, Translator(decoder)(LINES, 1, **options), strict=True):
        (source,) = decoder.text.encode([line], TextOptions(**options))
        for one in found:
            words = [word for word in one.source_tokens if word != "<EOS>" and word[0] != "_"]
            read = one.pivot or " ".join(part.text for part in source.parts or [source])
            assert [word.rstrip("\x02") for word in words] == read.split()
            assert one.attention.shape == (len(one.tokens), len(one.source_tokens))


@every_case
def test_a_killed_run_resumes_with_the_same_outputs(
    options, settings, opened, tmp_path, monkeypatch
):
    append = jobs.BatchJournal.append

    def killed_after(count):
        records = itertools.count(1)

        def killed(self, record):
            append(self, record)
            if next(records) == count:
                raise KeyboardInterrupt

        return killed

    wanted = decoded(tmp_path, options, settings, "whole")
    for count in (3, 5):
        with monkeypatch.context() as patch:
            patch.setattr(jobs.BatchJournal, "append", killed_after(count))
            with pytest.raises(KeyboardInterrupt):
                decoded(tmp_path, options, settings)
        journal = (tmp_path / "out.part").read_bytes()
        assert decoded(tmp_path, options, settings) == wanted
        both = [*opened[-2].reads, *opened[-1].reads]
        assert sorted(both) == sorted(opened[0].reads), "nothing is decoded again"
    (tmp_path / "out.part").write_bytes(journal)  # none of it is for one who does not ask
    assert decoded(tmp_path, {}, settings) == decoded(tmp_path, {}, settings, "plain")


@every_case
def test_documents(options, settings, encoders, opened, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("".join(f"<p>{line}</p>\n" for line in LINES))
    config = config_of(tmp_path, options, settings, "page.de.html")
    documents.run(dataclasses.replace(config, decode_from_file=str(page)))
    outputs = Translator(decoder_of(encoders, **settings))(LINES, **{"markup": "html", **options})
    written = (tmp_path / "page.de.html").read_text()
    assert written == "".join(f"<p>{output}</p>\n" for output in outputs)


@every_case
def test_by_way_of_a_pivot(options, settings, encoders):
    """What two calls give, of which the second is asked what outputs must be."""
    translate = Translator(decoder_of(encoders, **settings))
    both = LANGUAGES | {name: value for name, value in options.items() if name != "pivot"}
    first = {name: value for name, value in both.items() if not FIELDS[name].of_outputs}
    between = translate(LINES, **first | {"target_language": "en"})
    expected = translate(between, **both | {"source_language": "en"})
    assert translate(LINES, **options | {"pivot": "en"}) == expected
    for found, text in zip(translate(LINES, 2, **options | {"pivot": "en"}), between, strict=True):
        assert {one.pivot for one in found} <= {text}


REFUSING = (
    {"kind": "ctranslate2, float32"},
    {"has_source_attention": False},
    {"sampling_method": "random"},
    {"shortlist": "x"},
)


def refusal_of(call, *args, **options) -> str:
    """Returns why a call is refused; "": it is not."""
    try:
        call(*args, **options)
    except UsageError as error:
        return str(error)
    return ""


def answered(decoder, body):
    """Returns what a server answers to a request."""
    translate = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    (answer,) = answers_of(translate, [request_of(json.dumps(body).encode(), ServerConfig())])
    return answer


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_every_door_refuses_alike(stage, encoders, opened, tmp_path, monkeypatch):
    """And before anything is read."""
    given = examples(stage.fields)
    for settings in REFUSING:
        decoder = decoder_of(encoders, **settings)
        reason = refusal_of(lambda text: text.stages(TextOptions(**given)), decoder.text)
        if not reason:
            continue
        translate = Translator(decoder)
        assert refusal_of(translate, [], **given) == reason
        assert refusal_of(translate, LINES, 2, **given) == reason
        assert refusal_of(translate.stream, [], **given) == reason
        answer = answered(decoder, {"text": "a", **given})
        assert isinstance(answer, HTTPException)
        assert (answer.status_code, answer.detail) == (422, reason)
        loaded = functools.partial(lambda decoder, config, trained: (decoder, trained), decoder)
        monkeypatch.setattr(jobs, "load_decoder", loaded)
        assert refusal_of(decoded, tmp_path, given, {}) == reason


def test_a_problem_without_sources_refuses_what_is_asked_of_translations(encoders):
    decoder = echoing({"targets": encoders["targets"]}, "languagemodel_ptb10k")
    for name in request.OF_TRANSLATION:
        with pytest.raises(UsageError, match="translat"):
            decoder.text.stages(TextOptions(**{name: FIELDS[name].example}))


def test_every_option_is_declared_once_and_belongs_to_one_stage():
    hints = typing.get_type_hints(Options)
    assert hints == typing.get_type_hints(TextOptions)
    assert list(hints) == list(FIELDS)
    owned = [name for stage in STAGES for name in stage.fields]
    assert sorted([*owned, "pivot"]) == sorted(FIELDS)
    flags = settings_of(DecoderConfig)
    for name, found in settings_of(TextOptions).items():
        assert flags[name].help == found.help
        assert flags[name].choices == found.choices
        assert FIELDS[name].example, "the contract asks for it"
