"""Line breaks at the start and the end of a text stay, from Python and over HTTP."""

import io

import pytest

from support.echo import echoing, encoders_of
from support.servers import serve
from t2t_lite.decoding.long_lines import FramedText
from t2t_lite.decoding.translator import Translator
from t2t_lite.problems.imported import TranslateImported
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.text.languages import Languages

LANGUAGES = {"source_language": "en", "target_language": "de"}
# Texts, and their outputs: those of the lines are their words backwards.
CASES = [
    ("\nw1 w2", "\nw2 w1"),
    ("w1 w2\n", "w2 w1\n"),
    ("\n\nw1 w2\n\nw3 w4\n\n\n", "\n\nw2 w1\n\nw4 w3\n\n\n"),
    ("\r\nw1 w2\r\r\n", "\nw2 w1\n\n"),
    (" \n\t w1 w2 \n ", "\nw2 w1\n"),
    ("w1 w2 \n \n\u3000\n", "w2 w1\n\n\n"),
    (" w1 w2 ", "w2 w1"),
]
EMPTY = [("", ""), (" \t", ""), ("\n", "\n"), ("\n \r\n", "\n\n"), ("\u200b\n\ufeff\n", "\n\n")]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    words = [f"w{number}" for number in range(5)]
    return echoing(encoders_of(tmp_path_factory.mktemp("vocabulary"), words), **LANGUAGES)


@pytest.fixture(scope="module")
def server(decoder):
    translator = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    with serve(translator, pair=Languages("en", "de")) as client:
        yield client


def _outer(text):
    """Returns how many line breaks are before and after what stands in a text."""
    return [len(text) - len(own) for own in (text.lstrip("\n"), text.rstrip("\n"))]


@pytest.mark.parametrize(("text", "expected"), CASES)
@pytest.mark.parametrize("markup", ["", "placeholders", "xml"])
def test_from_python_they_stay(text, expected, markup, decoder):
    translate = Translator(decoder)
    assert translate([text, "w1"], markup=markup) == [expected, "w1"]
    found = translate(text, 2, markup=markup)
    assert found[0].text == expected
    assert len(found) == 2
    assert found[1].text.count("\n") == expected.count("\n")
    assert found[1].text != expected


@pytest.mark.parametrize("markup", ["", "placeholders", "xml"])
def test_with_what_no_model_reads(markup, decoder):
    translate = Translator(decoder)
    for text, expected in EMPTY:
        assert translate(text, markup=markup) == expected
        assert translate(text, 2, markup=markup) == []
    if markup:
        assert translate("\n\n{x}\n*\n", markup=markup) == "\n\n{x}\n*\n"
        assert translate("\n{x}\nw1 w2\n", markup=markup) == "\n{x}\nw2 w1\n"


def test_lines_that_nobody_sees_are_lines(decoder):
    assert Translator(decoder)("\u200b\nw1 w2\n\ufeff\n") == "\nw2 w1\n\n"


def test_over_http_they_stay(server):
    for text, expected in [*CASES, *EMPTY]:
        answer = server.translate(text=text, n_best=2, **LANGUAGES)[1]
        assert [one["text"] for one in answer["hypotheses"][:1]] == [expected] * bool(
            expected.strip()
        )
        assert answer["source"].count("\n") == expected.count("\n")
        assert _outer(answer["source"]) == _outer(expected)
        libre = server.translate(q=[text], source="en", target="de")[1]
        assert libre == {"translatedText": [expected]}


def test_the_lines_of_a_file_end_with_no_line_break(decoder):
    translate = Translator(decoder)
    lines = ["w1 w2", "", "w3", " w4 w1 "]
    for text in ("\n".join(lines), "\n".join([*lines, ""])):
        file = io.StringIO(text)
        assert [*translate.stream(file)] == translate(lines)
    found = translate.stream(["\n\nw1 w2\n\n", "\r\n", "w1\nw2"])
    assert [*found] == ["\n\nw2 w1\n", "", "w1\nw2"]
    assert [[one.text for one in beams] for beams in translate.stream(["\nw1 w2\n"], 2)] == [
        ["\nw2 w1", "\nw2"]
    ]


def test_where_line_breaks_are_white_space_they_go(decoder, monkeypatch):
    assert Translator(decoder)("\n<p>w1 w2</p>\n", markup="html") == "<p>w2 w1</p>"
    monkeypatch.setattr(TranslateImported, "can_split_sources", False)
    whole = decoder.variant(return_beams=False, with_details=False)
    assert Translator(whole)("\n w1 w2\n") == "w2 w1"


@pytest.mark.parametrize("text", ["", "a", " a\n b\n", "\n \n", "\n\n a", "a\n\n", " \na\nb \n c "])
def test_a_frame_has_all_line_breaks(text):
    frame = FramedText.of(text)
    assert frame.framed(frame.text).count("\n") == text.count("\n")
    assert "\n" not in frame.text.strip(" ")[:1] + frame.text.strip(" ")[-1:]
    assert frame.text.split() == text.split()
