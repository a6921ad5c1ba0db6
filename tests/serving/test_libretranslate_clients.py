"""The clients that people use: LibreTranslate's libraries, and what Weblate and Mastodon send."""

import http.client
import json
from collections.abc import Iterator

import pytest
from serving.test_libretranslate import EN_DE, MANY, shouting

from support.servers import Client, serve

KEY = "a key"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(KEY)
    with serve(shouting, pair=EN_DE, api_keys=str(path)) as server:
        yield server


def test_libretranslatepy(server):
    library = pytest.importorskip("libretranslatepy")
    client = library.LibreTranslateAPI(server.url, KEY)
    assert client.translate("Grüße & mehr", "en", "de") == "GRÜSSE & MEHR"
    assert client.detect("A cat.")[0]["language"] == "en"
    assert [entry["code"] for entry in client.languages()] == ["de", "en"]


def test_deep_translator(server):
    library = pytest.importorskip("deep_translator")
    arguments = {"source": "en", "target": "de", "custom_url": server.url}
    client = library.LibreTranslator(api_key=KEY, **arguments)
    assert client.translate("a + b & c = d?") == "A + B & C = D?"
    assert client.translate_batch(["a", "b"]) == ["A", "B"]
    with pytest.raises(library.exceptions.AuthorizationException):
        library.LibreTranslator(api_key="another", **arguments).translate("a")


def test_libretranslate_aio(server):
    library = pytest.importorskip("libretranslate_aio")
    with library.LibreTranslate(server.url, api_key=KEY) as client:
        found = client.translate("a", "en", "de", alternatives=1)
        assert (found.translated_text, found.alternatives) == ("A", ["A1"])
        assert client.translate("<b>a</b>", "auto", "de", format="html").detected_language
        assert client.detect("A cat.")[0].language == "en"
        assert [language.code for language in client.languages()] == ["de", "en"]
        assert client.frontend_settings().key_required
        assert client.health()


def ask(server: Client, method: str, path: str, body: bytes | None = None) -> object:
    """Sends bytes as a program sends them, and returns the JSON of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Content-Type": "application/json"} if body else {}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    assert answer.status == 200
    found = json.loads(answer.read())
    connection.close()
    return found


def test_weblate():
    """It looks for the pair in the list, and sends up to 20 texts, with [X5X] for what stays."""
    with serve(shouting, pair=EN_DE) as server:
        listed = ask(server, "GET", "/languages")
        assert {"de", "en"} == {entry["code"] for entry in listed}
        texts = [f"Text {number} of [X{number}X]" for number in range(20)]
        fields = {"api_key": "", "q": texts, "source": "en", "target": "de"}
        answer = ask(server, "POST", "/translate", json.dumps(fields).encode())
        assert len(answer["translatedText"]) == 20


def test_mastodon():
    """It needs the targets of each language, and sends the parts of a post as HTML."""
    with serve(shouting, languages=MANY) as server:
        assert all("targets" in entry for entry in ask(server, "GET", "/languages"))
        fields = {
            "q": ["<p>Guten Morgen, liebe Leute!</p>", "", "Eine Frage"],
            "source": "de",
            "target": "en",
            "format": "html",
            "api_key": None,
        }
        answer = ask(server, "POST", "/translate", json.dumps(fields).encode())
        assert answer["translatedText"] == [
            "<P>GUTEN MORGEN, LIEBE LEUTE!</P> de en html",
            "",
            "EINE FRAGE de en html",
        ]
