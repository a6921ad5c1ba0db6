"""Terms through the decoder: lines, n-best, files, JSON, resumed runs, requests."""

import json
import unicodedata

import pytest

import t2t_lite as t2t
from support.copying import BytesAlone, bytes_decoder, copier
from support.small_runs import noisy_run
from t2t_lite import registry
from t2t_lite.bin import t2t_decoder
from t2t_lite.data.problem import Output
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.request import TextOptions
from t2t_lite.errors import UsageError
from t2t_lite.metrics.by_name import score_outputs, split_metrics
from t2t_lite.terms.term_list import occurs

pytestmark = pytest.mark.integration  # searches with terms take seconds to trace

_TERMS = {"cat": "Katze", "dog": ["Hund", "Hunde"], "big dog": "Dogge"}
_LINES = [
    "A cat sleeps.",
    "nothing to do",
    "",
    "Two dogs, a dog and a cat",
    "A big dog " + "and a long line " * 6 + "with a cat.",
    "Cat",
]
_MET = [["Katze"], [], [], ["Hund", "Katze"], ["Dogge", "Katze"], ["Katze"]]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return t2t.open_run(noisy_run(folder, hidden_size=16, num_hidden_layers=1).folder)


@pytest.fixture(scope="module")
def translate(run):
    return run.translator(beam_size=2, extra_length=12)


@pytest.fixture
def files(tmp_path):
    """The flags that name the files of terms and forbidden words."""
    terms, forbid = tmp_path / "terms.tsv", tmp_path / "forbid.txt"
    rows = ((term, [forms] if isinstance(forms, str) else forms) for term, forms in _TERMS.items())
    terms.write_text("".join("\t".join([term, *forms]) + "\n" for term, forms in rows))
    forbid.write_text("e\nx\n")
    return {"terms": str(terms), "forbid": str(forbid)}


def has_terms(lines, outputs=_MET):
    return all(
        any(occurs(form, line) for form in (word, f"{word}e"))
        for line, words in zip(lines, outputs, strict=True)
        for word in words
    )


def test_outputs_meet_their_terms(translate):
    plain, outputs = translate(_LINES), translate(_LINES, terms=_TERMS)
    assert not has_terms(plain)
    assert has_terms(outputs)
    assert outputs[1:3] == plain[1:3]


def test_all_hypotheses_meet_them(translate):
    for line, found in zip(_LINES, translate(_LINES, 2, terms=_TERMS), strict=True):
        assert len(found) == 2 * bool(line)
        wanted = [_MET[_LINES.index(line)]] * len(found)
        assert has_terms([translation.text for translation in found], wanted)


def test_forbidden_words_do_not_appear(translate):
    (plain,) = translate(["A cat sleeps."])
    words = plain.split()[:2]
    output = translate("A cat sleeps.", forbid=words, terms=_TERMS)
    assert has_terms([output], [["Katze"]])
    assert not any(occurs(word, output) for word in words)


def test_markup_and_terms_together(translate):
    output = translate("A <b>cat</b> sleeps.", terms=_TERMS, markup="html")
    text = output.replace("<b>", "").replace("</b>", "")
    assert (output.count("<b>"), output.count("</b>")) == (1, 1)
    assert has_terms([text], [["Katze"]])


def _decode(run, tmp_path, lines, files, **settings):
    source, target = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = DecoderConfig(
        output_dir=str(run.folder),
        decode_from_file=str(source),
        decode_to_file=str(target),
        decode_hparams="beam_size=2,extra_length=12,batch_size=2",
        **files,
        **settings,
    )
    jobs.run(config)
    return target.read_bytes().decode().split("\n")[:-1]


def test_what_was_met_is_told(translate):
    found = translate(_LINES, 1, terms=_TERMS)
    assert [len(own[0].terms) if own else 0 for own in found] == [len(words) for words in _MET]
    assert found[3][0].terms == [
        {"term": "dog", "forms": ["Hund", "Hunde"], "times": 1, "met": 1},
        {"term": "cat", "forms": ["Katze"], "times": 1, "met": 1},
    ]


def test_ensembles_with_prefixes_meet_them_too(run, tmp_path, files):
    lines, met = [*_LINES[:3], _LINES[5]], [*_MET[:3], _MET[5]]  # for which one beam suffices
    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("".join("So\n" if line else "\n" for line in lines))
    settings = {"prefix_file": str(prefixes), "checkpoint_path": ("", "")}
    outputs = _decode(run, tmp_path, lines, files, **settings)
    assert has_terms(outputs, met)
    assert all(output.startswith("So") for output in outputs if output)


def test_terms_that_cannot_be_met_are_reported(run, tmp_path, files):
    (tmp_path / "terms.tsv").write_text("cat\t" + "Katze " * 30)
    (first,) = _decode(run, tmp_path, _LINES[:1], files, output_format="json")
    (report,) = json.loads(first)["hypotheses"][0]["terms"]
    assert (report["times"], report["met"]) == (1, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampling_method": "random"}, "sampling draws outputs"),
        ({"shortlist": "x"}, "a short list may lack"),
    ],
)
def test_searches_without_a_counterpart_are_refused(run, settings, message, monkeypatch):
    decoder = run.translator(beam_size=2)._decoder
    hparams = decoder.hparams.copy(**settings)
    monkeypatch.setattr(decoder.engine, "hparams", hparams)
    with pytest.raises(UsageError, match=message):
        decoder.text.stages(TextOptions(terms=_TERMS))
    decoder.text.stages(TextOptions())


def test_ctranslate2_is_refused_by_name(run):
    pytest.importorskip("ctranslate2")
    translate = run.translator(engine="ctranslate2", beam_size=2)
    with pytest.raises(UsageError, match="--engine=ctranslate2 has no search for them"):
        translate("A cat", terms=_TERMS)


def test_other_problems_are_refused():
    model = registry.model("transformer")(registry.hparams("transformer_test"), 0, 258)
    with pytest.raises(UsageError, match="does not translate text line by line"):
        bytes_decoder(model, BytesAlone()).text.stages(TextOptions(terms=_TERMS))
    copier().text.stages(TextOptions(terms=_TERMS))


def test_the_flags_need_lines(run, files):
    with pytest.raises(SystemExit):
        t2t_decoder.main([f"--output_dir={run.folder}", f"--terms={files['terms']}"])


def test_the_metric_counts_what_is_met(files):
    outputs = [Output("Katze Hund"), Output("Hund"), Output("")]
    sources = ["a cat, a cat, a dog", "no terms", "big dog"]
    score = score_outputs(f"terms_met:{files['terms']}", outputs, ["", "", ""], sources)
    assert score.statistics == [(2, 3), (0, 0), (0, 1)]
    assert score.values == {f"terms_met:{files['terms']}": 50.0}


@pytest.mark.parametrize(
    "name", ["a,b.tsv", "Bob's it's.tsv", "Bob'sit's.tsv", "a\\b.tsv", 'a"b"c.tsv']
)
def test_the_list_of_the_metric_has_any_name_that_quotes_can_hold(tmp_path, name):
    (tmp_path / name).write_text("cat\tKatze\n")
    written = f"'{tmp_path / name}'" if "," in name else f"{tmp_path / name}"
    metrics = split_metrics(f"terms_met:{written}")
    assert score_outputs(metrics[0], [Output("Katze")], [""], ["a cat"]).statistics == [(1, 1)]


def test_the_metric_says_that_no_source_has_a_term(files, caplog):
    name = f"terms_met:{files['terms']}"
    score_outputs(name, [Output("Katze")] * 2, ["", ""], ["no terms", "a cat"])
    assert not caplog.messages
    score_outputs(name, [Output("Katze")], [""], ["no terms"])
    assert f": no source has a term of {files['terms']}, so that the score" in caplog.text


def test_the_metric_finds_terms_that_look_equal(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text(f"{unicodedata.normalize('NFD', 'café')} au lait\tMilchkaffee\n", "utf-8")
    score = score_outputs(
        f"terms_met:{path}",
        [Output("Milchkaffee"), Output("Kaffee")],
        ["", ""],
        ["un café\u00a0au lait", unicodedata.normalize("NFD", "le café au\u200b lait")],
    )
    assert score.statistics == [(1, 1), (0, 1)]
