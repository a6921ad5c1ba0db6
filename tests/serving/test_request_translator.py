"""A real model in the server: its answers, and the page that shows them."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from support.imported_runs import imported_run
from support.rounding import assert_close, relative_bound
from support.servers import Client, answers_of, serve
from support.terms import log_prob_terms
from t2t_lite.data.problem import Output
from t2t_lite.decoding.config import ENGINES
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.decoding.hypotheses import BatchResult, Hypothesis
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.decoding.translator import Translator
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.requests import TranslationRequest
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.imported_encoder import TRANSLATION

TEXTS = ["a cat", "", " \u2028", "x\x00y", "日本語 😀", "two\nlines", "a cat sleeps here. " * 5]


@pytest.fixture(scope="module")
def server(decoder):
    with serve(RequestTranslator(decoder, ServerMetrics(), ServerConfig())) as client:
        yield client


@pytest.mark.integration
def test_what_takes_too_long_is_given_up_and_the_next_is_tried(decoder):
    with serve(RequestTranslator(decoder, ServerMetrics(), ServerConfig(timeout=0.0))) as client:
        for _ in range(2):
            assert client.translate(texts=TEXTS) == (504, {"error": "no answer in time"})


@pytest.mark.integration
def test_so_many_subwords_a_request_and_no_more(decoder):
    limits = ServerConfig(max_subwords=8)
    with serve(RequestTranslator(decoder, ServerMetrics(), limits)) as client:
        for fields in ({"text": "x" * 8}, {"texts": ["xyz", "", "abcd"]}):
            answer = {"error": "9 subwords: at most 8 are allowed"}
            assert client.translate(**fields) == (413, answer)
        assert client.translate(texts=["xyz", "", "abc"])[0] == 200


def decodes(decoder, monkeypatch, decode, size=100) -> None:
    """Has a decoder call `decode` for each source, in batches of so many."""

    def batches(sources, name):
        for n, first in enumerate(range(0, len(sources), size), 1):
            found = map(decode, sources[first : first + size])
            yield BatchResult(n, dict(enumerate(found, first)), {})

    monkeypatch.setattr(decoder, "decode_batches", batches)


def best(lines: list[dict]) -> list[str]:
    return [line["hypotheses"][0]["text"] if line["hypotheses"] else "" for line in lines]


@pytest.mark.integration
def test_answers_are_the_decoders_line_by_line(server, decoder):
    expected = Translator(decoder)(TEXTS)
    assert len(set(expected)) > 3, "the texts have unlike translations"
    status, answer = server.translate(texts=TEXTS)
    assert status == 200
    assert best(answer["translations"]) == expected
    singles = [server.translate(text=text)[1] for text in TEXTS]
    assert best(singles) == expected
    assert [line["source"] for line in singles] == [text.strip() for text in TEXTS]


@pytest.mark.integration
def test_a_text_of_several_lines_is_translated_line_by_line(server):
    lines = ["a dog", "", "barks", "loudly"]
    expected = [best(server.translate(texts=[line])[1]["translations"])[0] for line in lines]
    for text in ("a dog\n\nbarks\nloudly", "a dog\r\n\r\nbarks\rloudly"):
        assert best([server.translate(text=text)[1]]) == ["\n".join(expected)]
        assert best([server.translate(text=f"\n{text}\r\n")[1]]) == ["\n".join(["", *expected, ""])]


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_with_a_short_list_no_output_depends_on_other_clients(tmp_path, engine):
    run = imported_run(tmp_path / "run", language_of=TRANSLATION)
    path = str(tmp_path / "list.txt")
    translations = np.random.default_rng(1).integers(3, 33, [36, 3])  # padding has some, too
    Shortlist([3, 4, 5], translations, 36).write(path, run.encoders)
    changes = f"target_language=en,extra_length=8,beam_size=2,shortlist={path}"
    hparams, limits = DecodeHParams.of(run.problem, changes), ServerConfig(engine=engine)
    translator = RequestTranslator.load(run, None, hparams, ServerMetrics(), limits)
    texts = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w1", "", "w9 w8", "w20\nw11 w12"]
    requests = [TranslationRequest([text], 2, False, True) for text in texts]
    alone, together = (
        [[h["text"] for h in json.loads(answer)["hypotheses"]] for answer in answers]
        for answers in (
            [answers_of(translator, [request])[0] for request in requests],
            answers_of(translator, requests),
        )
    )
    assert together == alone
    assert len({*map(str, alone)}) > 2


@pytest.mark.integration
def test_n_best_are_those_of_the_decoder_that_returns_beams(server, decoder):
    hparams = decoder.hparams.copy(return_beams=True)
    engine = TensorFlowEngine(decoder.engine.models, decoder.engine.encoders, hparams)
    beams = Decoder(engine, decoder.problem)
    for text, found in zip(TEXTS, beams.decode(beams.text.encode(TEXTS)), strict=True):
        _, answer = server.translate(text=text, n_best=2)
        assert [h["text"] for h in answer["hypotheses"]] == [h.output.text for h in found[:2]]
        scores = [h["score"] for h in answer["hypotheses"]]
        steps = len(text.encode()) + 1 + 4  # and `extra_length`
        terms = steps * log_prob_terms(decoder.engine.models[0], steps)
        assert_close(scores, [h.score for h in found[:2]], terms)


def test_a_text_of_different_pieces_counts_once(decoder, monkeypatch):
    monkeypatch.setattr(decoder, "variant", lambda *_: decoder)
    found = [Hypothesis(Output(text), [], -n) for n, text in enumerate("aba")]
    decodes(decoder, monkeypatch, lambda source: found)
    translator = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    (answer,) = answers_of(translator, [TranslationRequest(["x"], 3, False, True)])
    assert json.loads(answer)["hypotheses"] == [
        {"text": "a", "score": 0},
        {"text": "b", "score": -1},
    ]


@pytest.mark.integration
def test_each_kind_of_request_has_its_own_search(decoder, monkeypatch):
    """Only that for n-best goes on until all hypotheses are final."""
    made = []

    def variant(return_beams, with_details):
        made.append((return_beams, with_details))
        return decoder

    monkeypatch.setattr(decoder, "variant", variant)
    translator = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    for n_best, attention in ((1, False), (2, False), (2, True), (1, True), (3, False)):
        answers_of(translator, [TranslationRequest(["a"], n_best, attention, True)])
    assert made == [(True, False), (True, True), (False, True)]


def test_a_request_pauses_after_each_batch_but_the_last(decoder, monkeypatch):
    events = []

    def decode(source):
        events.append(source.number)
        return [Hypothesis(Output(source.text[:1]), [5], -1.0)]

    decodes(decoder, monkeypatch, decode, size=2)
    translate = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    request = TranslationRequest([*"abcde"], 1, False, False)
    [answer] = answers_of(translate, [request], lambda: events.append("others"))
    assert best(json.loads(answer)["translations"]) == [*"abcde"]
    assert events == [1, 2, "others", 3, 4, "others", 5]


def test_a_request_that_fails_spoils_no_other_and_finished_ones_are_not_decoded_again(
    decoder, monkeypatch
):
    decoded = []

    def decode(source):
        decoded.append(source.text[:1])
        if source.text.startswith("c"):
            raise NoOutputError("text 1")
        return [Hypothesis(Output(source.text[:1]), [5], -1.0)]

    decodes(decoder, monkeypatch, decode, size=1)
    translate = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    requests = [TranslationRequest([*texts], 1, False, False) for texts in ("ab", "c", "de")]
    first, failed, last = answers_of(translate, requests)
    assert best(json.loads(first)["translations"]) == ["a", "b"]
    assert failed.status_code == 500
    assert best(json.loads(last)["translations"]) == ["d", "e"]
    assert sorted(decoded) == ["a", "b", "c", "c", "d", "e"]


def test_a_decoder_works_ahead_within_a_slice_alone(decoder, monkeypatch):
    """So little that others wait no longer than for what is translated together."""
    given = []

    def batches(sources, name):
        given.append([source.number for source in sources])
        yield BatchResult(1, {i: [] for i in range(len(sources))}, {})

    monkeypatch.setattr(decoder, "decode_batches", batches)
    translate = RequestTranslator(decoder, ServerMetrics(), ServerConfig(max_subwords=10**6))
    texts = [letter * 3500 for letter in "abcde"]
    answers_of(translate, [TranslationRequest(texts, 1, False, False)])
    assert given == [[1, 2], [3, 4], [5]]


def test_subwords_are_counted_of_the_best_outputs_alone(decoder, monkeypatch):
    best, second = Hypothesis(Output("x"), [5, 6], -1.0), Hypothesis(Output("y"), [5] * 9, -2.0)
    monkeypatch.setattr(decoder, "variant", lambda *_: decoder)
    decodes(decoder, monkeypatch, lambda source: [best, second] if source.text else [])
    metrics = ServerMetrics()
    translate = RequestTranslator(decoder, metrics, ServerConfig())
    [answer] = answers_of(translate, [TranslationRequest(["a cat", ""], 2, False, False)])
    assert [len(line["hypotheses"]) for line in json.loads(answer)["translations"]] == [2, 0]
    lines = metrics.text().decode().splitlines()
    assert "t2t_batch_texts_sum 2.0" in lines
    assert "t2t_source_tokens_total 6.0" in lines
    assert "t2t_target_tokens_total 2.0" in lines


@pytest.mark.integration
def test_attention_has_a_row_for_each_token(server):
    _, answer = server.translate(text="a cat", n_best=3, attention=True)
    for hypothesis in answer["hypotheses"]:
        assert hypothesis["source_tokens"] == [*"a cat", "<EOS>"]
        weights = np.array(hypothesis["attention"])
        assert weights.shape == (len(hypothesis["tokens"]), 6)
        # A softmax over six, of which JSON has six decimals.
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=6 * (0.5e-6 + relative_bound(6)))


def test_what_the_search_cannot_give_is_refused(server):
    status, answer = server.translate(text="a", n_best=4)
    assert (status, answer["error"][:39]) == (422, "n_best is 4, but the search keeps 3; st")
    status, answer = server.translate(texts=["x" * 300] * 2, n_best=2, attention=True)
    assert (status, "at most 1000 are allowed" in answer["error"]) == (413, True)


@pytest.mark.integration
def test_the_page_shows_translation_n_best_and_attention(server, browser):
    browser.requested.clear()
    browser.open(server.url)
    browser.wait("document.getElementById('about').textContent === 'test'")
    text = "<b onclick='x'>cat</b>"
    browser.write("#text", text)
    browser.press("Enter", 13, "\r", modifiers=2)
    browser.wait("!document.getElementById('result').hidden")
    shown = browser.evaluate(
        "[...document.querySelectorAll('ol button')].map(b => b.firstChild.textContent)"
    )
    _, answer = server.translate(text=text, n_best=3, attention=True)
    assert shown == [h["text"] for h in answer["hypotheses"]]
    for number in (0, 1):  # the second is chosen by the keyboard
        tokens = answer["hypotheses"][number]["tokens"]
        heads = "[...document.querySelectorAll('#map tbody th')].map(h => h.textContent)"
        assert browser.evaluate(heads) == tokens
        size = "document.querySelectorAll('#map td[title]').length"
        assert browser.evaluate(size) == len(tokens) * (len(text) + 1)
        browser.evaluate("document.querySelectorAll('ol button')[1].focus()")
        browser.press(" ", 32, " ")
    assert all(url.startswith(server.url) for url in browser.requested), browser.requested


@pytest.mark.integration
def test_the_page_says_errors(server, browser):
    browser.open(server.url)
    browser.wait("document.getElementById('about').textContent === 'test'")
    browser.write("#text", "x" * 10_001)
    browser.point("#go", click=True)
    browser.wait("!document.getElementById('error').hidden")
    message = "text has 10001 characters: at most 10000 are allowed"
    assert browser.evaluate("document.getElementById('error').textContent") == message
    assert not browser.evaluate("document.getElementById('go').disabled")


def launch(*flags: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "t2t_lite.bin.t2t_serve", *flags], stderr=subprocess.PIPE, text=True
    )


@pytest.mark.integration
def test_the_command_listens_on_loopback_and_ends_on_sigterm(run, decoder):
    changes = "--decode_hparams=beam_size=3,extra_length=4"
    with launch(f"--output_dir={run.folder}", "--port=0", changes) as process:
        try:
            first = process.stderr.readline()
            port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)$", first)[1])
            server = Client(port)
            states = [server.ask("GET", "/health").status]
            while states[-1] != 200:
                time.sleep(0.1)
                states.append(server.ask("GET", "/health").status)
            assert states[0] == 503, "it listens before the model is loaded"
            about = json.loads(server.ask("GET", "/health").content)
            assert about == {
                "status": "ok",
                "problem": "translate_ende_wmt_characters",
                "beam_size": 3,
            }
            _, answer = server.translate(text="a cat")
            assert best([answer])[0] == Translator(decoder)("a cat")
            assert server.metric("t2t_source_tokens_total") == 6
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()


@pytest.mark.integration
@pytest.mark.slow
def test_a_run_without_a_checkpoint_ends_with_one_line(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for path in pathlib.Path(run.folder).glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    with launch(f"--output_dir={folder}", "--port=0") as process:
        assert process.wait(120) == 1
        assert "holds no checkpoint yet" in process.stderr.read().splitlines()[-1]


@pytest.mark.integration
def test_a_request_may_have_markup(server):
    texts = ["a <b>cat</b> {name}<br>", "<br>", "plain"]
    status, answer = server.translate(texts=texts, markup="html", n_best=2)
    assert status == 200
    for text, line in zip(texts, answer["translations"], strict=True):
        assert line["source"] == text
        assert line["hypotheses"]
        for hypothesis in line["hypotheses"]:
            pieces = re.compile(r"<[^<>]*>|{name}")
            assert sorted(pieces.findall(hypothesis["text"])) == sorted(pieces.findall(text))
    status, answer = server.translate(text="a", markup="tex")
    assert status == 422
    assert answer["error"].startswith("markup=tex: expected html, xml or placeholders")
