"""HTML is translated block by block, through every door: a page is what its blocks are alone.

The contract of the stages has a line of several blocks, too.
"""

import json
import urllib.parse
import urllib.request

import pytest

from support.echo import echoing, encoders_of
from support.servers import answers_of, request_of, serve
from t2t_lite.decoding import long_lines
from t2t_lite.decoding.output_formats import output_formatter
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.stages.markup import Markup
from t2t_lite.decoding.translator import Translator
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.text.languages import Languages
from t2t_lite.text.tags import tokens
from t2t_lite.text.tags.kinds import KINDS

LANGUAGES = {"source_language": "en", "target_language": "de"}
WORDS = [*(f"w{number}" for number in range(10)), "Datei"]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    return encoders_of(tmp_path_factory.mktemp("vocabulary"), WORDS)


def decoder_of(encoders, **settings):
    return echoing(encoders, **LANGUAGES, **settings)


@pytest.mark.parametrize(
    ("text", "blocks", "expected"),
    [
        ("<p>w1 w2</p><p>w3 w4</p>", ["w1 w2", "w3 w4"], "<p>{}</p><p>{}</p>"),
        (
            "<li>w1 <b>w2</b></li>\n <li>w3</li>",
            ["w1 <b>w2</b>", "w3"],
            "<li>{}</li>\n <li>{}</li>",
        ),
        ("<h1>w1</h1>w2 w3<hr>", ["w1", "w2 w3"], "<h1>{}</h1>{}<hr>"),
        ("<TD>w1 w2<TD>w3\nw4", ["w1 w2", "w3 w4"], "<TD>{}<TD>{}"),
        ("w1 w2<br><BR/>w3 w4", ["w1 w2", "w3 w4"], "{}<br><BR/>{}"),
        ("<p>w1\nw2<br>\n w3</p>", ["w1 w2<br> w3"], "<p>{}</p>"),
        ("w1\nw2 <i\nid=x>w3</i>", ["w1 w2 <i\nid=x>w3</i>"], "{}"),
        ("<p>w1 w2</p><pre>w3 w4\n</pre><p></p>", ["w1 w2"], "<p>{}</p><pre>w3 w4\n</pre><p></p>"),
        (
            "<p>w1 &lt; w2</p><script>w3\n</script>",
            ["w1 &lt; w2"],
            "<p>{}</p><script>w3\n</script>",
        ),
    ],
)
def test_each_block_is_translated_as_if_it_were_alone(text, blocks, expected, encoders):
    translate = Translator(decoder_of(encoders, alpha=0.0))
    alone = translate([" ".join(block.split("\n")) for block in blocks], 2, markup="html")
    alone = [[one.text.replace("<i id", "<i\nid") for one in found] for found in alone]
    assert translate(f" {text}\n", markup="html") == expected.format(*(one[0] for one in alone))
    found = translate(text, 2, markup="html")
    assert [one.text for one in found] == [
        expected.format(*rank) for rank in zip(*alone, strict=True)
    ]


@pytest.mark.parametrize(
    "text",
    ["<p></p>", "<pre>w1\nw2</pre>", "<hr>\n<!-- w1 -->", "<br><br>", "<li>\u2026 <b>!</b></li>"],
)
def test_a_text_without_a_block_to_translate_is_its_own_output(text, encoders):
    decoder = decoder_of(encoders)
    assert Translator(decoder)(text, markup="html") == text
    (found,) = Translator(decoder)(text, 2, markup="html")
    assert (found.text, found.source_tokens, len(found.tokens)) == (text, [], 0)
    assert not decoder.engine.reads


def test_a_line_is_read_once(encoders, monkeypatch):
    read, found = [], tokens._found
    monkeypatch.setattr(tokens, "_found", lambda *given: read.append(given) or found(*given))
    text = "w1 <b>w2</b> w3"
    decoder_of(encoders).text.encode([text], TextOptions(markup="html"))
    assert [given[:2] for given in read] == [(text, "html")]


def test_xml_and_placeholders_are_not_cut(encoders):
    translate = Translator(decoder_of(encoders))
    text = "<p>w1 w2</p><p>w3</p>"
    assert translate(text, markup="xml") != translate(text, markup="html")
    assert translate("w1 {x}\nw2 w3", markup="placeholders").count("\n") == 1


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("<p>w1 w2 w3</p><p>*</p>", "*"),
        ("<p>\u2026</p><p>w1 w2 w3</p>", "\u2026"),
        ("<li>w1 w2<li><b>!</b> &amp;<li>w3 w4<li>*", "<b>!</b> &amp;"),
        ("<p>w1 w2</p><p>* <code>w3</code></p>", "* <code>w3</code>"),
        ("<td>w1 w2<td>{x} = {y}<td>-", "{x} = {y}"),
    ],
)
def test_every_rank_has_the_blocks_that_the_model_does_not_read(text, unread, encoders):
    translate = Translator(decoder_of(encoders, alpha=0.0, beam_size=3))
    found = translate(text, 3, markup="html")
    assert [one.text.count(unread) for one in found] == [1, 1, 1]
    assert len({one.text for one in found}) == 3
    assert found[0].text == translate(text, markup="html")
    for one in found:
        assert one.attention.shape == (len(one.tokens), len(one.source_tokens))


def test_joined_details_are_those_of_the_blocks(encoders):
    translate = Translator(decoder_of(encoders))
    found = translate("<p>w1 w2</p><p>w3</p>", 2, markup="html")
    alone = translate(["w1 w2", "w3"], 2, markup="html")
    for rank, one in enumerate(found):
        parts = [own[rank] for own in alone]
        assert one.tokens == parts[0].tokens + parts[1].tokens
        assert one.source_tokens == parts[0].source_tokens + parts[1].source_tokens
        assert one.score == parts[0].score + parts[1].score
        rows, columns = parts[0].attention.shape
        assert (one.attention[:rows, :columns] == parts[0].attention).all()
        assert (one.attention[rows:, columns:] == parts[1].attention).all()
        assert one.attention.sum() == sum(part.attention.sum() for part in parts)


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("{long}\nw1 w2", ""),
        ("w1 w2\n\n{long}", ""),
        ("w1 {{x}} w2\n{long}\n", "placeholders"),
        ("<p>{long}</p><p>w1 <b>w2</b></p>", "html"),
        ("<p>w1</p><p>*</p><p>{long}</p>", "html"),
        ("{long}", ""),
    ],
)
def test_attention_is_not_known_if_that_of_a_line_is_too_large(text, markup, encoders, monkeypatch):
    monkeypatch.setattr(long_lines, "_MOST_ATTENTION", 100)
    translate = Translator(decoder_of(encoders, max_input_size=5))
    long = "w3 w4 " * 6
    for one in translate(text.format(long=long), 2, markup=markup):
        assert (one.attention, one.alignment) == (None, None)
    (short,) = translate(text.format(long="w3"), 1, markup=markup)
    assert short.attention.shape == (len(short.tokens), len(short.source_tokens))


def test_terms_are_met_and_told_in_each_block(encoders):
    translate = Translator(decoder_of(encoders))
    text, terms = "<p>w1 w2</p><p>w3</p><p>w1</p>", {"w1": "Datei"}
    (found,) = translate(text, 1, markup="html", terms=terms)
    assert found.text == "<p>w2 w1 Datei</p><p>w3</p><p>w1 Datei</p>"
    told = {"term": "w1", "forms": ["Datei"], "times": 1, "met": 1}
    assert found.terms == [told, told]


def test_pieces_are_numbered_over_all_blocks(encoders):
    """So that each draws samples of its own, and none meets another text's."""
    decoder = decoder_of(encoders, max_input_size=4)
    long = "w1 w2 . w3 w4 . w5 w6 ."
    page = f"<p>{long}</p><p>w1</p><p>{long}</p>"
    first, second = decoder.text.encode([page, page], TextOptions(markup="html", **LANGUAGES))
    blocks = decoder.cutter.pieces(first._replace(prefix=(5,)), "text")
    pieces = [piece for block in blocks for piece in block]
    assert [len(block) > 1 for block in blocks] == [True, False, True]
    assert [piece.prefix for piece in pieces] == [(5,), *[()] * (len(pieces) - 1)]
    others = [piece for block in decoder.cutter.pieces(second, "text") for piece in block]
    assert len({piece.draws for piece in [*pieces, *others]}) == 2 * len(pieces)
    assert {piece.number for piece in others} == {2}
    assert pieces[0].draws == 1, "a text's first piece draws as the text does"


def answered(decoder, limits=None, **fields):
    limits = limits or ServerConfig()
    translate = RequestTranslator(decoder, ServerMetrics(), limits)
    (answer,) = answers_of(translate, [request_of(json.dumps(fields).encode(), limits)])
    return answer


def test_a_long_page_costs_a_server_no_more_than_its_blocks(encoders):
    decoder = decoder_of(encoders)
    words = " ".join(["w1"] * 250)
    page = f"<p>{words}</p>" * 12
    found = json.loads(answered(decoder, text=page, markup="html", **LANGUAGES))
    assert found == {"source": page, "hypotheses": [{"text": page, "score": 0.0}]}
    whole = answered(decoder, text=f"{words} " * 12, markup="html", **LANGUAGES)
    assert "squares" in whole.detail
    few = ServerConfig(max_subwords=3000)
    assert "subwords: at most 3000" in answered(decoder, few, text=page, markup="html").detail


def test_libretranslate_html(encoders):
    """The own form and LibreTranslate's, as JSON and as a form."""
    translator = RequestTranslator(decoder_of(encoders), ServerMetrics(), ServerConfig())
    page, line = "<p>w1 w2</p>\n<ul><li>w3 <b>w4</b> w5<li>w6 w7</ul>", "w1 w2"
    expected = "<p>w2 w1</p>\n<ul><li>w5 <b>w4</b> w3<li>w7 w6</ul>"
    second = "<p>w2</p>\n<ul><li>w5 <b>w4</b><li>w7</ul>"
    with serve(translator, pair=Languages("en", "de")) as server:
        own = server.translate(texts=[page, "", line], markup="html", **LANGUAGES)[1]
        found = [[one["text"] for one in text["hypotheses"]] for text in own["translations"]]
        assert (found[0][0], found[1], found[2][0]) == (expected, [], "w2 w1")
        fields = {"source": "en", "target": "de", "format": "html"}
        answer = server.translate(q=[page, "", line], alternatives=1, **fields)[1]
        assert answer["translatedText"] == [expected, "", "w2 w1"]
        assert answer["alternatives"] == [[second], [], ["w2"]]
        form = urllib.parse.urlencode({"q": page, **fields}).encode()
        with urllib.request.urlopen(f"{server.url}translate", form) as response:
            assert json.load(response) == {"translatedText": expected}


def test_text_without_blocks_is_translated_as_before(encoders):
    """As a stage sees it that knows no blocks."""
    decoder = decoder_of(encoders)
    lines = ["w1 <b>w2</b>  w3", "", "<br>", "w1 <code>w2</code> w3<br/>", "{x} w1 &amp;", "w1\tw2"]
    for line in lines:
        (source,) = decoder.text.encode([line], TextOptions(markup="html", **LANGUAGES))
        (plain,) = decoder.text.encode([line], TextOptions(markup="xml", **LANGUAGES))
        assert not source.parts
        assert (source.text, source.ids, source.shown) == (plain.text, plain.ids, plain.shown)


def test_a_journal_of_whole_pages_is_not_resumed():
    """Its pieces have other numbers."""
    kinds = {kind: Markup.origin({"markup": kind}, str)["markup"] for kind in ("", *KINDS)}
    assert kinds.pop("html") != "html"
    assert all(kind == told for kind, told in kinds.items()), "others are as they were"


@pytest.mark.parametrize(
    "line",
    [
        'w1 <b\tid="x">w2</b>',
        "<p>w1 w2</p>\t<p\tid='x'\t>w3</p>",
        "<!--\t\t-->w1 w2",
        "w1 w2 {x,\tplural, other {y}}",
        "w1 <code>a\tb</code> w2",
        "w1\tw2",
    ],
)
@pytest.mark.parametrize(("return_beams", "scores"), [(True, True), (True, False), (False, True)])
def test_columns_are_as_many_whatever_tags_have_in_them(line, return_beams, scores, encoders):
    settings = {"return_beams": return_beams, "write_beam_scores": scores}
    decoder = decoder_of(encoders, **settings)
    (source,) = decoder.text.encode([line], TextOptions(markup="html", **LANGUAGES))
    (found,) = decoder.decode([source])
    columns = output_formatter("text", decoder.hparams)(source, found).split("\t")
    assert len(columns) == (1 + return_beams) * (1 + scores)
    texts = [one.output.text for one in found]
    assert (
        columns[:: 1 + scores] == [" ".join(text.split("\t")) for text in texts][: 1 + return_beams]
    )
    alone = output_formatter("text", decoder_of(encoders).hparams)(source, found)
    assert alone == texts[0], "what is alone in its line stays as it is"
