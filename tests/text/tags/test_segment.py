"""The text and the tree of a segment."""

import pytest

from t2t_lite.text.marks import PLACEHOLDERS as MARKS
from t2t_lite.text.tags.kinds import HTML, PLACEHOLDERS, XML
from t2t_lite.text.tags.segment import parse


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Click <b>OK</b>.", "Click OK."),
        ("AT&amp;T &lt;b&gt; caf&eacute; &#65;", "AT&T <b> café A"),
        ("Visit https://example.org/ now.", "Visit now."),
        ("a<br>b", "a b"),
        ("One.<br>Two. <br>Three", "One. Two. Three"),
        ("One.\\nTwo", "One. Two"),
        ("One.<img>Two", "One.Two"),
        ("一。<br>二", "一。二"),
        ('a note<sup><a href="#n1">1</a></sup> is', "a note is"),
        ('The end.<a href="#n1">[2]</a> The', "The end. The"),
        ('pages <a href="x">1</a>, <a>2</a>', "pages 1, 2"),
        ('Web<a href="x">2.0 site</a>', "Web2.0 site"),
        ("H<sub>2</sub>O", "H2O"),
        ("Type <code>a b</code> here", "Type here"),
        ('<i translate="no">Das <b>Auto</b></i> drives', " drives"),
        ("Say <b>😀</b> <i> </i>twice", "Say twice"),
        ("foo <b> bar</b>", "foo bar"),
        ("a <!-- b --> c", "a c"),
        ("a&#1;&#x1F; b", "a b"),
        ("Donau&shy;dampf<wbr>schiff fährt", "Donaudampfschiff fährt"),
        ("in&#xad;ter&#8203;na&ZeroWidthSpace;tio<WBR class=a>nal", "international"),
        ("a&shy;<br>b", "a b"),
        ("می&zwnj;خواهم", "می\u200cخواهم"),
        ("One apple.|All of {n} apples", "One apple. All of apples"),
        ("yes|no", "yes no"),
    ],
)
def test_the_text_is_what_a_reader_sees(source, text):
    assert parse(source, HTML).text == text


@pytest.mark.parametrize(
    "code",
    [
        '<x id="1" ctype="lb"/>',
        '<ph id="1" type="fmt" subType="xlf:lb"/>',
        '<ph id="1">&lt;br /&gt;</ph>',
        '<x id="1" equiv-text="&lt;br/&gt;"/>',
        '<ph id="1">&lt;p&gt;</ph>',
        '<ph id="1" subType="xlf:pb"/>',
    ],
)
def test_codes_may_break_the_line(code):
    assert parse(f"One.{code}Two", XML).text == "One. Two"


def test_elements_nest():
    (outer,) = parse("<a href='x'>one <b>two</b></a>", HTML).nodes
    (inner,) = outer.children
    assert (outer.opening, outer.closing, outer.start, outer.end) == ("<a href='x'>", "</a>", 0, 7)
    assert (inner.opening, inner.start, inner.end) == ("<b>", 4, 7)


def test_what_has_no_partner_is_an_atom():
    nodes = parse("<b>one <i>two</b></i> </u>", HTML).nodes
    assert [(node.opening, node.is_atom) for node in nodes] == [
        ("<b>", False),
        ("</i>", True),
        ("</u>", True),
    ]
    assert [(child.opening, child.is_atom) for child in nodes[0].children] == [("<i>", True)]


def test_names_have_a_case_in_xml_alone():
    assert not parse("<B>x</b>", HTML).nodes[0].is_atom
    assert all(node.is_atom for node in parse("<B>x</b>", XML).nodes)


def test_placeholders_are_no_markup():
    segment = parse("<b>{name}</b> &amp;", PLACEHOLDERS)
    assert segment.text == "<b></b> &amp;"
    assert segment.escaped("<&>") == "<&>"


def test_deep_nesting_ends():
    deep = "<b>" * 3000 + "word" + "</b>" * 3000
    assert parse(deep, HTML).nodes
    assert len(parse("<b>" * 3000 + "word", HTML).nodes) == 3000


@pytest.mark.parametrize(
    ("source", "text", "pieces"),
    [
        ("Hi {a}, see <b>{b} or</b> {c}.", "Hi 0, see 1 or 2.", ["{a}", "{b}", "{c}"]),
        ("a <b>{x}</b> c", "a 0 c", ["<b>{x}</b>"]),  # no word would be left in the element
        ("{a}<i>{b}</i>{c} d", "012 d", ["{a}", "<i>{b}</i>", "{c}"]),
        ("run <code>x <i>y</i></code> now", "run 0 now", ["<code>x <i>y</i></code>"]),
        ("a<br>b <!-- {x} --> &#8203;{y}", "a b 0", ["{y}"]),  # no words: taken out
        ('<bpt id="1">{0}</bpt>bold<ept id="1"/>', "bold", []),
        ("{a} - <b>{b}</b>", " - ", []),  # nothing to translate
    ],
)
def test_marks_stand_for_pieces(source, text, pieces):
    segment = parse(source, HTML, MARKS)
    shown = segment.text
    for number, mark in enumerate(MARKS):
        shown = shown.replace(mark, str(number))
    marked = [piece for mark, piece in segment.marked if mark]
    assert (shown, marked) == (text, pieces)
    assert parse(source, HTML).text == parse(source, HTML, ["", "", ""]).text


def test_further_pieces_are_taken_out():
    segment = parse("a {0} {1} {2}", PLACEHOLDERS, MARKS[:2])
    assert segment.text.strip() == f"a {MARKS[0]} {MARKS[1]}"
    assert [node.opening for node in segment.nodes] == ["{2}"]


def test_marks_that_a_source_has_are_not_used():
    segment = parse(f"a {MARKS[0]} {{x}} {{y}}", PLACEHOLDERS, MARKS)
    assert segment.text == f"a {MARKS[0]} {MARKS[1]}"
    assert [node.opening for node in segment.nodes] == ["{x}"]
