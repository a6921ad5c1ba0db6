"""What a quality model says of outputs, at every front door; the model itself is a stand-in."""

import json
import types

import pytest

from support.commands import refusal
from support.echo import echoing, encoders_of
from support.servers import answers_of, request_of
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.documents import job as documents
from t2t_lite.decoding.documents.po_file import PoFile
from t2t_lite.decoding.documents.xliff_file import XliffFile
from t2t_lite.decoding.loading import load_decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator

LINES = ["a file now", "", "a file", "now"]
WORDS = ["a", "file", "now"]


class Quality:
    """The more words an output has of those of its source, the better; counts what it sees."""

    def __init__(self):
        self.seen = []
        self.longest = 100

    def origin(self):
        return "a quality model"

    def confidences(self, source, outputs):
        self.seen += [(source, output) for output in outputs]
        together = [len(f"{source} {output}".split()) for output in outputs]
        found = [round(len(output.split()) / 4, 4) for output in outputs]
        return [
            own if size <= self.longest else None for own, size in zip(found, together, strict=True)
        ]


@pytest.fixture
def decoder(tmp_path_factory):
    encoders = encoders_of(tmp_path_factory.mktemp("vocabulary"), WORDS)
    made = echoing(encoders, source_language="fr", target_language="de", batch_size=1)
    return Decoder(made.engine, made.problem, quality=Quality())


@pytest.fixture
def opened(decoder, monkeypatch):
    """Lets jobs decode with an echo, and a quality model where one is asked for."""
    run = types.SimpleNamespace(problem=decoder.problem, decode_hparams="", model_name="echo")
    model = types.SimpleNamespace(run=run, checkpoint="7", origin=lambda: "x", files=list)

    def load(config, trained):
        quality = decoder.text.quality if config.quality_run else None
        shown = config.output_format != "text"
        return Decoder(decoder.engine, decoder.problem, "split", shown, quality), trained

    for module in (jobs, documents):
        monkeypatch.setattr(module, "find_models", lambda config: [model])
    monkeypatch.setattr(jobs, "load_decoder", load)
    monkeypatch.setattr(jobs, "faster_engine", lambda engine: "")


def config_of(folder, name="in", **changes):
    paths = {"decode_from_file": str(folder / name), "decode_to_file": str(folder / f"out.{name}")}
    return DecoderConfig(quality_run="q", **{**paths, **changes})


def test_python_json_and_http_tell_the_same(decoder, opened, tmp_path):
    found = Translator(decoder)(LINES, 2)
    wanted = [[0.75, 0.5], [], [0.5, 0.25], [0.25, 0.0]]
    assert [[one.confidence for one in own] for own in found] == wanted
    assert ("a file now", "now file a") in decoder.text.quality.seen

    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    jobs.run(config_of(tmp_path, output_format="json"))
    rows = [json.loads(line) for line in (tmp_path / "out.in").read_text().splitlines()]
    best = [[h["confidence"] for h in row["hypotheses"]][:1] for row in rows]
    assert best == [own[:1] for own in wanted]

    translate = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    body = json.dumps({"texts": LINES, "n_best": 2}).encode()
    (answer,) = answers_of(translate, [request_of(body, ServerConfig())])
    answered = json.loads(answer)["translations"]
    assert [[h["confidence"] for h in row["hypotheses"]] for row in answered] == wanted


def test_an_output_that_is_too_long_for_the_quality_model_is_named(
    decoder, opened, tmp_path, caplog
):
    """It has no confidence, and needs a review; others have theirs."""
    decoder.text.quality.longest = 5
    found = Translator(decoder)(["a file now", "now"], 2)
    assert [[one.confidence for one in own] for own in found] == [[None, 0.5], [0.25, 0.0]]
    assert "text 1 is not given a confidence: with its output it has more than 5" in caplog.text

    translate = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    body = json.dumps({"texts": ["a file now", "now"]}).encode()
    (answer,) = answers_of(translate, [request_of(body, ServerConfig())])
    rows = json.loads(answer)["translations"]
    assert [row["hypotheses"][0]["confidence"] for row in rows] == [None, 0.25]

    (tmp_path / "a.po").write_text(PO)
    documents.run(config_of(tmp_path, "a.po", review_below=0.2))
    first, second = (tmp_path / "out.a.po").read_text().split("\n\n")
    assert "fuzzy" in first
    assert "fuzzy" not in second


def test_without_a_quality_model_nothing_is_told(decoder):
    plain = Translator(Decoder(decoder.engine, decoder.problem))
    (one,) = plain("a file now", 1)
    assert one.confidence is None


def test_tags_are_no_words_of_an_output(decoder):
    Translator(decoder)("a <b>file</b> now", 1, markup="html")
    assert decoder.text.quality.seen[0] == ("a file now", "now file a")


def test_a_killed_run_resumes_only_with_the_same_quality_model(
    decoder, opened, tmp_path, monkeypatch, caplog
):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    config = config_of(tmp_path, output_format="json")
    append = jobs.BatchJournal.append
    records = []

    def killed(self, record):
        append(self, record)
        records.append(record)
        if len(records) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jobs.BatchJournal, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            jobs.run(config)
    journal = (tmp_path / "out.in.part").read_bytes()
    before = len(decoder.text.quality.seen)
    jobs.run(config)
    whole = (tmp_path / "out.in").read_text()
    seen = decoder.text.quality.seen
    assert len(set(seen)) == len(seen) > before, "what is journalled is not judged again"
    assert all("confidence" in line for line in whole.splitlines() if json.loads(line)["source"])
    (tmp_path / "out.in.part").write_bytes(journal)
    decoder.text.quality.origin = lambda: "another"
    jobs.run(config)
    assert "was made with another quality" in caplog.text
    assert (tmp_path / "out.in").read_text() == whole


PO = 'msgid "a file now"\nmsgstr ""\n\nmsgid "now"\nmsgstr ""\n'
XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>
<trans-unit id="1"><source>a file now</source></trans-unit>
<trans-unit id="2"><source>now</source></trans-unit>
</body></file></xliff>
"""
XLIFF2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">
<file id="f"><unit id="1"><segment><source>a file now</source></segment></unit>
<unit id="2"><segment><source>now</source></segment></unit></file></xliff>
"""


def test_documents_mark_what_is_below_the_threshold_and_nothing_else(opened, tmp_path):
    (tmp_path / "a.po").write_text(PO)
    documents.run(config_of(tmp_path, "a.po", review_below=0.5))
    found = (tmp_path / "out.a.po").read_text()
    assert found == PO.replace('""', '"now file a"', 1).replace('""', '"now"').replace(
        '\n\nmsgid "now"', '\n\n#, fuzzy\nmsgid "now"'
    )
    assert str(PoFile(found.encode()).report) == "0 translated, 1 kept, 1 left (fuzzy: 1)"

    (tmp_path / "a.xlf").write_text(XLIFF)
    documents.run(config_of(tmp_path, "a.xlf", review_below=0.5))
    good, bad = (tmp_path / "out.a.xlf").read_text().split("<trans-unit")[1:]
    assert '<target state="translated" state-qualifier="leveraged-mt">now file a<' in good
    assert '<target state="needs-review-translation" state-qualifier="leveraged-mt">now<' in bad

    (tmp_path / "b.xlf").write_text(XLIFF2)
    documents.run(config_of(tmp_path, "b.xlf", review_below=0.5))
    good, bad = (tmp_path / "out.b.xlf").read_text().split("<unit")[1:]
    assert '<segment state="translated">' in good
    assert '<segment state="translated" subState="t2t_lite:needs-review">' in bad
    again = XliffFile((tmp_path / "out.b.xlf").read_bytes())
    assert str(again.report) == "0 translated, 2 kept, 0 left"


def test_without_a_threshold_documents_say_what_they_always_said(opened, tmp_path):
    (tmp_path / "a.po").write_text(PO)
    (tmp_path / "a.xlf").write_text(XLIFF)
    for name in ("a.po", "a.xlf"):
        documents.run(config_of(tmp_path, name))
    assert "fuzzy" not in (tmp_path / "out.a.po").read_text()
    assert (tmp_path / "out.a.xlf").read_text().count("needs-review-translation") == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--review_below=0.5", "--review_below needs confidences: give --quality_run"),
        ("--quality_run=q", "--quality_run tells confidences in JSON"),
        ("--quality_run=q --review_below=0.5", "--review_below needs a .po or XLIFF file"),
    ],
)
def test_flags_without_effect_are_refused(flags, message, tmp_path):
    (tmp_path / "in").write_text("now\n")
    files = f"--decode_from_file={tmp_path}/in", f"--decode_to_file={tmp_path}/out"
    assert message in refusal(t2t_decoder.main, "--output_dir=x", *files, *flags.split())


def test_a_missing_quality_run_is_named_before_the_translator_is_loaded(tmp_path):
    model = types.SimpleNamespace(run=types.SimpleNamespace(decode_hparams=""))  # cannot be loaded
    with pytest.raises(UserError, match=f"{tmp_path}/q is not a run folder"):
        load_decoder(DecoderConfig(quality_run=f"{tmp_path}/q"), [model])


@pytest.mark.parametrize(
    ("source", "markup", "is_doubtful"),
    [
        ("%s", "", False),  # nothing for the model
        ("<p>a file now</p><p>now</p>", "html", True),  # the least of two
        ("<p>a file now</p><p>now file a</p>", "html", False),
    ],
)
def test_messages_of_placeholders_or_of_several_blocks(
    source, markup, is_doubtful, opened, tmp_path
):
    (tmp_path / "a.po").write_text(f'msgid "{source}"\nmsgstr ""\n')
    documents.run(config_of(tmp_path, "a.po", review_below=0.5, markup=markup))
    found = (tmp_path / "out.a.po").read_text()
    assert ("#, fuzzy" in found) == is_doubtful


def test_html_has_no_mark_for_review(tmp_path):
    (tmp_path / "a.html").write_text("<p>now</p>")
    files = f"--decode_from_file={tmp_path}/a.html", f"--decode_to_file={tmp_path}/out.html"
    flags = "--quality_run=q", "--review_below=0.5"
    message = refusal(t2t_decoder.main, "--output_dir=x", *files, *flags)
    assert "--review_below is for .po and XLIFF files" in message


def test_all_translations_or_the_doubtful_ones_alone_are_marked(tmp_path):
    (tmp_path / "a.po").write_text(PO)
    files = f"--decode_from_file={tmp_path}/a.po", f"--decode_to_file={tmp_path}/out.po"
    flags = "--quality_run=q", "--review_below=0.5", "--fuzzy"
    message = refusal(t2t_decoder.main, "--output_dir=x", *files, *flags)
    assert "--fuzzy marks all new translations, and --review_below the doubtful" in message
