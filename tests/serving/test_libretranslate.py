"""LibreTranslate's form over real HTTP, around a stand-in that answers in the server's own form."""

import http.client
import importlib.util
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

import pytest

from support.servers import BEAMS, Client, serve, without_pause
from t2t_lite.serving.language_detector import LanguageDetector
from t2t_lite.serving.requests import OptionRefusal
from t2t_lite.text import language_identifier
from t2t_lite.text.languages import Choice, Languages

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
EN_DE = Languages("en", "de")
MANY = {side: Choice(["de", "en", "pt_BR"], "") for side in Languages._fields}
PAIR = {"source": "en", "target": "de"}


@without_pause
def shouting(requests):
    """Answers with upper case, the rank, the languages and the markup of each text."""
    return [request.answer(_lines(request)) for request in requests]


def _lines(request) -> list[dict[str, Any]]:
    asked = request.options
    words = asked.source_language, asked.target_language, asked.markup
    told = "".join(f" {word}" for word in words if word)
    return [
        {
            "source": text,
            "hypotheses": [
                {"text": f"{text.upper()}{told}{rank or ''}", "score": -1.0}
                for rank in range(request.n_best if text else 0)
            ],
        }
        for text in request.texts
    ]


@without_pause
def without_attention(requests):
    """As `shouting`, for a model that cannot keep markup."""
    refusal = OptionRefusal("markup", "no attention")
    return [
        refusal if request.options.markup else request.answer(_lines(request))
        for request in requests
    ]


@without_pause
def with_little_markup(requests):
    """As `shouting`, but texts with markup are too long."""
    refusal = OptionRefusal("markup", "too many tags", 413)
    return [
        refusal if request.options.markup else request.answer(_lines(request))
        for request in requests
    ]


@pytest.fixture(scope="module")
def server():
    with serve(shouting, pair=EN_DE) as server:
        yield server


def send(
    server: Client,
    fields: Any,
    *,
    media_type: str = JSON,
    path: str = "translate",
    in_address: bool = False,
    **headers: str,
) -> tuple[int, Any, Mapping[str, str]]:
    """Returns the status, the JSON and the headers of an answer."""
    body = json.dumps(fields) if media_type == JSON else urllib.parse.urlencode(fields, doseq=True)
    address, sent = (f"/{path}?{body}", "") if in_address else (f"/{path}", body)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    types = {"Content-Type": media_type} if media_type and not in_address else {}
    connection.request("POST", address, sent.encode(), {**types, **headers})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content, answer.headers


WAYS = [{}, {"media_type": FORM}, {"media_type": FORM, "in_address": True}]


@pytest.mark.parametrize("way", WAYS, ids=["json", "form", "query"])
def test_a_text_is_answered_however_it_is_sent(server, way):
    text = "Grüße & <b>more</b> +1 = 5 & \u2028?"
    status, answer, _ = send(server, {"q": text, **PAIR}, **way)
    assert (status, answer) == (200, {"translatedText": text.upper()})
    status, answer, _ = send(server, {"q": ["a", "", "b"], **PAIR, "alternatives": 2}, **way)
    assert (status, answer) == (
        200,
        {"translatedText": ["A", "", "B"], "alternatives": [["A1", "A2"], [], ["B1", "B2"]]},
    )


def test_more_alternatives_than_the_search_keeps_are_left_out(server):
    for asked in (BEAMS, 10**17, "99"):
        answer = send(server, {"q": "a", **PAIR, "alternatives": asked})[1]
        assert answer["alternatives"] == ["A1", "A2"]
    assert "alternatives" not in send(server, {"q": "a", **PAIR, "alternatives": 0})[1]


def test_the_own_form_is_answered_as_ever(server):
    assert server.translate(text="a") == (200, _of_own("a"))
    assert server.translate(texts=["a"])[1] == {"translations": [_of_own("a")]}


def _of_own(text: str) -> dict[str, Any]:
    return {"source": text, "hypotheses": [{"text": text.upper(), "score": -1.0}]}


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({**PAIR}, 400, 'expected "q", a text or a list of texts'),
        ({"q": "a", "text": "a", **PAIR}, 422, 'expected either "q" or "text"'),
        (
            {"text": "a", **PAIR},
            422,
            '"source" belongs to "q": with "text", send "source_language"',
        ),
        ({"q": "a", "source": "en"}, 400, 'expected "target", a string'),
        ({"q": "a", "source": 1, "target": "de"}, 400, 'expected "source", a string'),
        ({"q": "a", "source": "fr", "target": "de"}, 400, "source='fr': the server does not know"),
        ({"q": "a", "source": "de", "target": "en"}, 400, "source='de': the server does not know"),
        ({"q": "a", **PAIR, "format": "xml"}, 400, "format='xml': expected text or html"),
        ({"q": "a", **PAIR, "alternatives": -1}, 400, "alternatives='-1': expected a whole number"),
        ({"q": "a", **PAIR, "alternatives": True}, 400, "alternatives='True': expected a whole"),
        ({"q": "a", **PAIR, "alternatives": [1]}, 400, "alternatives='[1]': expected a whole"),
        ({"q": 1, **PAIR}, 422, "q is not a string"),
        ({"q": ["a", None], **PAIR}, 422, "text 2 of q is not a string"),
        ({"q": ["a"] * 129, **PAIR}, 413, "129 texts: at most 128 are allowed"),
        ({"q": "a" * 10_001, **PAIR}, 413, "q has 10001 characters: at most 10000 are allowed"),
        (
            {"q": "\ud800", **PAIR},
            422,
            "q holds the lone surrogate U+D800, which is not a character",
        ),
    ],
)
def test_errors_are_one_line(server, fields, status, message):
    found, answer, _ = send(server, fields)
    assert (found, answer["error"][: len(message)]) == (status, message)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"q=\xff&source=en&target=de", 400, "the form is not UTF-8: "),
        ("q=%ff&source=en&target=de", 400, "the form is not UTF-8: "),
        ("q=a&source=en&source=de", 422, "field 'source' is given twice"),
        ("&".join(["q=a"] * 1000), 413, "too many fields: at most 128 texts are allowed"),
        ("&" * 500_000, 413, "too many fields: at most 128 texts are allowed"),
    ],
)
def test_forms_are_limited_as_json_is(server, body, status, message):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/translate", body, {"Content-Type": FORM})
    answer = connection.getresponse()
    (error,) = json.loads(answer.read()).values()
    connection.close()
    assert (answer.status, error[: len(message)]) == (status, message)


def test_a_form_need_not_be_percent_encoded(server):
    """Curl sends what it is given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = "q=Grüße an 日本&source=en&target=de".encode()
    connection.request("POST", "/translate", body, {"Content-Type": FORM})
    assert json.loads(connection.getresponse().read()) == {"translatedText": "GRÜSSE AN 日本"}
    connection.close()


@pytest.mark.parametrize("way", WAYS[1:], ids=["form", "query"])
def test_a_page_of_another_site_cannot_send_a_form(server, way):
    fields = {"q": "a", **PAIR}
    own = [f"http://127.0.0.1:{server.port}"]
    foreign = [
        "http://[::1",
        "null",
        "https://example.org",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "",
    ]
    for origin, status in [*((o, 200) for o in own), *((o, 403) for o in foreign)]:
        assert send(server, fields, **way, Origin=origin)[0] == status, origin
    for origin in (*own, *foreign):
        assert send(server, fields, Origin=origin)[0] == 200, "browsers ask before they send JSON"


def test_no_get_translates(server):
    assert server.ask("GET", "/translate?q=a&source=en&target=de").status == 405
    assert server.ask("GET", "/detect?q=a").status == 405


def test_a_model_of_several_languages_is_told_which(server):
    with serve(shouting, languages=MANY) as many:
        answer = send(many, {"q": "a", "source": "en", "target": "pt-br"})[1]
        assert answer == {"translatedText": "A en pt_BR"}
        listed = json.loads(many.ask("GET", "/languages").content)
        assert listed[0] == {"code": "de", "name": "German", "targets": ["en", "pt"]}


def test_a_model_whose_languages_nobody_knows_serves_its_own_form_alone():
    with serve(shouting) as server:
        status, answer, _ = send(server, {"q": "a", **PAIR})
        assert status == 404
        assert "--from_code and --to_code" in answer["error"]
        assert server.ask("GET", "/languages").status == 404
        assert send(server, {"q": "a", **PAIR, "source": "auto"})[0] == 404
        assert send(server, {"q": "a"}, path="detect")[0] == 404
        assert server.ask("GET", "/frontend/settings").status == 200
        assert server.translate(text="a")[0] == 200


def test_html_and_placeholders_are_kept(server):
    page = "<p>A <b>b</b> &amp; c</p>"
    answer = send(server, {"q": page, **PAIR, "format": "html"})[1]
    assert answer == {"translatedText": f"{page.upper()} html"}
    assert send(server, {"q": "in {x}", **PAIR})[1] == {"translatedText": "IN {X} placeholders"}
    assert send(server, {"q": "a < b", **PAIR})[1] == {"translatedText": "A < B"}


def test_without_attention_html_is_translated_as_plain_text_and_a_header_says_so():
    with serve(without_attention, pair=EN_DE) as server:
        fields = {"q": ["<p>A <b>b</b> &lt; c<br>d</p>", "e"], **PAIR, "format": "html"}
        status, answer, headers = send(server, {**fields, "alternatives": 1})
        assert (status, headers["X-Format-Used"]) == (200, "text")
        assert answer["translatedText"] == ["A B &lt; C D", "E"]
        assert answer["alternatives"] == [["A B &lt; C D1"], ["E1"]]
        status, answer, headers = send(server, {"q": "in {x} < y", **PAIR})
        assert (status, answer) == (200, {"translatedText": "IN {X} < Y"})
        assert server.translate(text="<b>a</b>", markup="html")[0] == 422, "the own form says so"


def test_settings_tell_what_there_is(server):
    settings = json.loads(server.ask("GET", "/frontend/settings").content)
    assert settings["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }
    assert (settings["keyRequired"], settings["apiKeys"]) == (False, False)
    assert settings["charLimit"] == 10_000


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks for a key."""
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("one key\n\nzweiter Schlüssel\n", encoding="utf-8")
    with serve(shouting, pair=EN_DE, api_keys=str(path)) as server:
        yield server


class TestKeys:
    """Keys let clients in, and stand in no message."""

    @pytest.mark.parametrize("way", WAYS, ids=["json", "form", "query"])
    def test_every_form_needs_a_key(self, guarded, way):
        for key, status in (("one key", 200), ("zweiter Schlüssel", 200), ("one", 403), ("", 403)):
            fields = {"q": "a", **PAIR, "api_key": key}
            assert send(guarded, fields, **way)[0] == status
            assert send(guarded, {"q": "a", "api_key": key}, path="detect", **way)[0] == status
        assert guarded.translate(text="a", api_key="one key")[0] == 200
        assert guarded.translate(text="a")[0] == 403

    def test_what_is_no_secret_needs_none(self, guarded):
        for path in ("/", "/languages", "/health", "/metrics"):
            assert guarded.ask("GET", path).status == 200
        assert json.loads(guarded.ask("GET", "/frontend/settings").content)["keyRequired"]
        assert b'id="key"' in guarded.ask("GET", "/").content

    @pytest.mark.parametrize("key", [None, 1, ["one key"], "\ud800", "one key ", "ONE KEY"])
    def test_a_wrong_key_is_not_told_to_anybody(self, guarded, key):
        status, answer, _ = send(guarded, {"q": "a", **PAIR, "api_key": key})
        assert status == 403
        assert "one" not in answer["error"].lower()

    def test_a_server_without_keys_passes_over_them(self, server):
        assert send(server, {"q": "a", **PAIR, "api_key": None})[0] == 200
        assert server.translate(text="a", api_key="")[0] == 200


def test_plain_text_with_too_much_markup_is_translated_without_it_but_html_is_refused():
    """A client of plain text has asked for no markup: its address is kept where it can be."""
    with serve(with_little_markup, pair=EN_DE) as server:
        fields = {"q": "see http://a.b/c", **PAIR}
        assert send(server, fields)[:2] == (200, {"translatedText": "SEE HTTP://A.B/C"})
        assert send(server, {**fields, "format": "html"})[0] == 413


class TestLanguageOfTexts:
    """Where a client does not know the language."""

    def test_texts_to_detect_are_limited_as_others(self, server):
        for texts in (["a"] * 129, ["a"] * 128 + [1]):
            assert send(server, {"q": texts}, path="detect")[0] == 413
            assert send(server, {"q": texts, "source": "auto", "target": "de"})[0] == 413

    def test_the_only_language_is_taken_without_py3langid(self, server, monkeypatch):
        monkeypatch.setattr(language_identifier, "is_installed", lambda: False)
        found = {"language": "en", "confidence": 0.0}
        answer = send(server, {"q": ["a", "b"], "source": "auto", "target": "de"})[1]
        assert answer == {"translatedText": ["A", "B"], "detectedLanguage": [found, found]}
        assert send(server, {"q": "a"}, path="detect")[1] == [found]
        with serve(shouting, languages=MANY) as many:
            status, answer, _ = send(many, {"q": "a", "source": "auto", "target": "de"})
            assert status == 400
            assert "install the package py3langid on the server (de, en, pt)" in answer["error"]

    @pytest.mark.skipif(not importlib.util.find_spec("py3langid"), reason="needs py3langid")
    def test_py3langid_chooses_among_the_model_s_languages(self):
        with serve(shouting, languages=MANY) as many:
            for text, code in (
                ("Das Fenster steht seit gestern offen.", "de"),
                ("<p>O <b>rapaz</b> não gosta de café com leite.</p>", "pt"),
            ):
                fields = {"q": text, "source": "auto", "target": "en", "format": "html"}
                found = send(many, fields)[1]["detectedLanguage"]
                assert found["language"] == code
                assert 50 < found["confidence"] <= 100
            ranked = send(many, {"q": "La maison est grande, dit-elle."}, path="detect")[1]
            assert {entry["language"] for entry in ranked} == {"de", "en", "pt"}
            assert ranked[0]["confidence"] < 50, "French is none of them"

    @pytest.mark.skipif(not importlib.util.find_spec("py3langid"), reason="needs py3langid")
    @pytest.mark.parametrize("codes", [["de", "en", "nb"], ["da", "nn", "nb"], ["en", "nob_Latn"]])
    def test_bokmal_is_found_under_its_own_code(self, codes):
        found = LanguageDetector(codes).best(["Jeg liker ikke å gå på tur når det regner."])
        assert found.language == codes[-1]
        assert found.confidence > 50

    @pytest.mark.skipif(not importlib.util.find_spec("py3langid"), reason="needs py3langid")
    def test_the_likeliest_comes_first_however_unlikely(self):
        text, codes = "Wir gehen heute in den Garten und spielen.", ["af", "da", "nl", "sv"]
        ranks = [code for code, _ in language_identifier.language_identifier().rank(text)]
        found = LanguageDetector(codes).ranked([text])
        assert [each.language for each in found] == sorted(codes, key=ranks.index)
        assert found[0].confidence < 0.05
