"""A text with markup other than HTML is translated line by line: it keeps its lines."""

import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.echo import echoing, encoders_of
from support.servers import answers_of, request_of, serve
from t2t_lite.decoding.translator import Translator
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.text.languages import Languages
from t2t_lite.text.tags.kinds import PLACEHOLDERS, XML

LANGUAGES = {"source_language": "en", "target_language": "de"}
WORDS = [*(f"w{number}" for number in range(10)), "Datei"]
ADDRESS = "https://example.org/"
CHOICE = "{n, plural,\n one {# w1}\n\tother {# w2}}"


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return echoing(encoders_of(tmp_path_factory.mktemp("vocabulary"), WORDS), **LANGUAGES)


@pytest.mark.parametrize("kind", [XML, PLACEHOLDERS])
@pytest.mark.parametrize(
    "lines",
    [
        ["w1 w2", ADDRESS, "w3 w4"],
        ["w1 w2", "{x}"],
        ["{x}", "w1 w2"],
        ["w1 {x} w2", "", "%s w3 w4", ADDRESS, "* * *", "w5", "mail@example.org"],
        ["{x}", "", "{x}", "w1  w2\tw3"],
        ["{x}", "", ADDRESS],
        ["* *", "..."],
    ],
)
def test_each_line_is_translated_as_if_it_were_alone(lines, kind, decoder):
    translate = Translator(decoder)
    assert translate("\n".join(lines), markup=kind) == "\n".join(translate(lines, markup=kind))
    assert translate("\r\n".join(lines), markup=kind) == "\n".join(translate(lines, markup=kind))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>w1 w2\nw3 w4</p>", "<p>w2 w1\nw4 w3</p>"),
        ("<p>\n  w1 <b>w2</b>\n</p>", "<p>\n  <b>w2</b> w1\n</p>"),
        ("w1 <b\n\tid='x'>w2</b>\nw3", "<b\n\tid='x'>w2</b> w1\nw3"),
        ("w1 w2 <code>w3\n\tw4</code>\nw5 w6", "w2 w1 <code>w3\n\tw4</code>\nw6 w5"),
        ("<!-- w1\nw2 --> w3\nw4", "<!-- w1\nw2 --> w3\nw4"),
        ("<code>\nw1 w2\n</code>\nw3 w4", "<code>\nw1 w2\n</code>\nw4 w3"),
        ("<a>w1 <b>w2 w3\nw4 w5</b></a> w6 w7", "<a>w1 <b>w3 w2\nw5 w4</b></a> w7 w6"),
        (f"w1 {CHOICE}\nw2 w3", f"w1 {CHOICE}\nw3 w2"),
    ],
)
def test_what_is_around_several_lines_stays_in_order(text, expected, decoder):
    assert Translator(decoder)(text, markup=XML) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"w1 {CHOICE}\nw2 w3", f"w1 {CHOICE}\nw3 w2"),
        (
            "w1 {x,\n plural, one {w4} other {w5}}\nw2 w3",
            "w1 {x,\n plural, one {w4} other {w5}}\nw3 w2",
        ),
        ("w1 {\n\tx, number}\nw2 w3", "w1 {\n\tx, number}\nw3 w2"),
        ("w1 [show\n\tx='1']\nw2 w3", "w1 [show\n\tx='1']\nw3 w2"),
        ("[code]\nw1 w2\n[/code]\nw3 w4", "[code]\nw1 w2\n[/code]\nw4 w3"),
        ("[b]w1 w2\nw3 w4[/b] w5", "[b]w2 w1\nw4 w3[/b] w5"),
        ("w1 %{aStart}w2 w3\nw4%{aEnd} w5", "w1 %{aStart}w3 w2\nw4%{aEnd} w5"),
    ],
)
def test_so_do_placeholders_of_several_lines(text, expected, decoder):
    assert Translator(decoder)(text, markup=PLACEHOLDERS) == expected


_PARTS = ["w1", "w2", " ", "\n", "{x}", ADDRESS, "*", CHOICE, "&amp;", "<br/>", "<!--\n-->"]


@pytest.mark.integration
@given(st.lists(st.sampled_from(_PARTS)).map(" ".join), st.sampled_from([XML, PLACEHOLDERS]))
def test_a_text_keeps_its_lines(decoder, text, kind):
    found = Translator(decoder)(text, markup=kind)
    assert found.count("\n") == text.count("\n")
    for piece in ("{x}", ADDRESS, CHOICE):
        assert found.count(piece) == text.count(piece)


_ELEMENTS = st.recursive(
    st.lists(st.sampled_from(["w1", "w2 ", " w3", "\n", "<br/>", "{x}"])).map("".join),
    lambda inner: st.tuples(inner, st.sampled_from("abc"), inner, inner).map(
        lambda parts: "{0}<{1}>{2}</{1}>{3}".format(*parts)
    ),
)


@pytest.mark.integration
@given(_ELEMENTS)
def test_xml_stays_well_formed(decoder, text):
    found = Translator(decoder)(text, markup=XML)
    names = [sorted(e.tag for e in ET.fromstring(f"<x>{own}</x>").iter()) for own in (text, found)]
    assert names[0] == names[1]


def test_ranks_terms_and_details_are_those_of_the_lines(decoder):
    translate = Translator(decoder)
    lines, terms = ["w1 {x} w2", "w3 w4", "{x}", "w1 w5"], {"w1": "Datei"}
    found = translate("\n".join(lines), 2, markup=PLACEHOLDERS, terms=terms)
    alone = [translate(line, 2, markup=PLACEHOLDERS, terms=terms) for line in lines]
    for rank, one in enumerate(found):
        own = [ranks[rank] if len(ranks) > rank else ranks[0] for ranks in alone]
        assert one.text == "\n".join(line.text for line in own)
        assert one.score == sum(line.score for line in own)
        assert one.tokens == [token for line in own for token in line.tokens]
        assert one.terms == [use for line in own for use in line.terms]


def test_over_http_lines_stay(decoder):
    translator = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    text = f"w1 w2\n{ADDRESS}\nw3 w4"
    with serve(translator, pair=Languages("en", "de")) as server:
        answer = server.translate(q=text, source="en", target="de")[1]
        assert answer["translatedText"] == f"w2 w1\n{ADDRESS}\nw4 w3"
        (one, *_) = server.translate(text=text, markup=PLACEHOLDERS)[1]["hypotheses"]
        assert one["text"] == answer["translatedText"]


def test_a_long_text_costs_a_server_no_more_than_its_lines(decoder):
    limits = ServerConfig()
    translate = RequestTranslator(decoder, ServerMetrics(), limits)
    line = " ".join(["w1"] * 250)
    for text, is_answered in [("\n".join([line] * 12), True), (" ".join([line] * 12), False)]:
        fields = json.dumps({"text": text, "markup": XML, **LANGUAGES}).encode()
        (answer,) = answers_of(translate, [request_of(fields, limits)])
        assert isinstance(answer, bytes) == is_answered
