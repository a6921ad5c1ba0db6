"""XLIFF files of all tools get the targets that they lack, and nothing else."""

import html
import re
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from support.phrases import capitals
from t2t_lite.decoding.documents.xliff_file import XliffFile
from t2t_lite.errors import DataError
from t2t_lite.text.tags.kinds import XML

MATCH = "<alt-trans><source>Opens</source><target>x</target></alt-trans>"
REVIEW = 'state="needs-review-translation" state-qualifier="leveraged-mt"'
V12 = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>{}</body>'
    "</file></xliff>"
)
V2 = (
    '<xliff version="2.0" srcLang="en" trgLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0">'
    '<file id="f"><unit id="1">{}</unit></file></xliff>'
)


def upper(text: str, charset: str = "utf-8") -> str:
    """Returns a file in which each segment has become capitals outside tags; checks it."""
    document = XliffFile(text.encode(charset))
    contents = document.translated([capitals(segment, XML) for segment in document.segments])
    expat.ParserCreate().Parse(contents, True)
    again = XliffFile(contents)
    assert not again.segments
    assert again.translated([]) == contents
    return contents.decode(charset)


def unit(source: str, rest: str = "", attributes: str = "") -> str:
    return V12.format(f"<trans-unit{attributes}><source>{source}</source>{rest}</trans-unit>")


def target_of(source: str, attributes: str = "") -> str:
    """Returns what the target has of a unit of version 1.2; all else must stay."""
    before, found, after = upper(unit(source, attributes=attributes)).partition(
        f"<target {REVIEW}>"
    )
    target, _, after = after.partition("</target>")
    assert found
    assert before + after == unit(source, attributes=attributes)
    return target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Open", "OPEN"),
        ("\n  Open   the\n  file ", "\n  OPEN THE FILE "),
        ('a <g\n id="1">b</g>', 'A <g\n id="1">B</g>'),
        ('a <ph\n id="1">b</ph>', 'A <ph\n id="1">b</ph>'),
        ('<x id="1"/>', '<x id="1"/>'),
        ("a &#8364; &quot;b&quot; &amp; c", 'A € "B" &amp; C'),
        ("<![CDATA[Write & open]]>", "<![CDATA[WRITE & OPEN]]>"),
        ("\n<![CDATA[ Open ]]>\n", "\n<![CDATA[ OPEN ]]>\n"),
        ("<![CDATA[a ]]&gt; b]]>", "<![CDATA[A ]]&gt; B]]>"),
        ("<![CDATA[a]]]]><![CDATA[> b]]>", "<![CDATA[A]]]]><![CDATA[> B]]>"),
        (
            "<![CDATA[<p>One <b>x</b></p>\n<p>Two</p>]]>",
            "<![CDATA[<p>ONE <b>X</b></p>\n<p>TWO</p>]]>",
        ),
        (
            "<![CDATA[Tom &amp; <br/>Ann<!-- don't -->]]>",
            "<![CDATA[TOM &amp; <br/>ANN<!-- don't -->]]>",
        ),
        (
            "<![CDATA[See <a href=\"?a=1&amp;b='2'\">it</a>]]>",
            "<![CDATA[SEE <a href=\"?a=1&amp;b='2'\">IT</a>]]>",
        ),
        ("Hello <![CDATA[<b>big</b>]]> world", "HELLO <![CDATA[<b>BIG</b>]]> WORLD"),
        ("one <![CDATA[& two]]>", "ONE <![CDATA[& TWO]]>"),
        (
            'a <![CDATA[<a href="?a=1&amp;b=2">]]>b<![CDATA[</a>]]> <![CDATA[c<br><i>d</i>]]>',
            'A <![CDATA[<a href="?a=1&amp;b=2">]]>B<![CDATA[</a>]]> <![CDATA[C<br><i>D</i>]]>',
        ),
        (
            "<![CDATA[<b><i>]]>a<![CDATA[</i></b>]]>",
            "<![CDATA[<b>]]><![CDATA[<i>]]>A<![CDATA[</i>]]><![CDATA[</b>]]>",
        ),
        ("a &lt;b&gt;c&lt;/b&gt; &amp;amp; d", "A &lt;b&gt;C&lt;/b&gt; &amp;amp; D"),
        ("&lt;b&gt;<x id='1'/> it&lt;/b&gt;", "&lt;b&gt;<x id='1'/> IT&lt;/b&gt;"),
        (
            "a <ph id='1'>&lt;i&gt;</ph> &lt;b&gt;c&lt;/b&gt;",
            "A <ph id='1'>&lt;i&gt;</ph> &lt;b&gt;C&lt;/b&gt;",
        ),
        ("5 &lt; 6", "5 &lt; 6"),
        ("Press &lt;Enter&gt; &amp; go", "PRESS &lt;Enter&gt; &amp; GO"),
        ("<![CDATA[R&D <b>on</b>]]>", "<![CDATA[R&D <b>ON</b>]]>"),
        (
            "<![CDATA[Q&A <img src='?x&amp;y' alt='&amp;'/> <!-- &amp; -->here]]>",
            "<![CDATA[Q&A <img src='?x&amp;y' alt='&amp;'/> <!-- &amp; -->HERE]]>",
        ),
        (
            "<![CDATA[Q &amp; A <img src='?x&y'/> here]]>",
            "<![CDATA[Q &amp; A <img src='?x&y'/> HERE]]>",
        ),
        (
            "Q&amp;A &lt;a href='?x&amp;amp;y'&gt;b&lt;/a&gt;",
            "Q&amp;A &lt;a href='?x&amp;amp;y'&gt;B&lt;/a&gt;",
        ),
        ("<![CDATA[<b>Haus&shy;tür</b>]]>", "<![CDATA[<b>HAUSTÜR&shy;</b>]]>"),
        ("a <!-- c --> b", "A <!-- c --> B"),
        ("a %count% b %#@files@", "A %count% B %#@files@"),
        ("a &lt;0&gt;b&lt;/0&gt; &lt;1/&gt;", "A &lt;0&gt;B&lt;/0&gt; &lt;1/&gt;"),
        ("do &amp;not", "DO &amp;NOT"),
        ("a &quot;http://a.b/&quot; b", 'A "http://a.b/" B'),
        ("a &lt;http://a.b/c&gt;", "A &lt;http://a.b/c&gt;"),
        ("a &apos;http://a.b/?c&amp;d&#39;", "A 'http://a.b/?c&amp;d'"),
        ("http://a.b/&amp; c http://a.b/&#10;d", "http://a.b/&amp; C http://a.b/&#10;D"),
        ("<![CDATA[http://a.b/c&nbsp;d]]>", "<![CDATA[http://a.b/c D]]>"),
        ("a&#13;b&#9;c&#xD;&#10;d", "A&#13;B&#9;C&#xD;&#10;D"),
    ],
)
def test_sources_and_targets(source, target):
    found = target_of(source)
    assert found.replace("&quot;", '"').replace("&#8364;", "€") == target


@pytest.mark.parametrize(
    "hidden",
    [
        *("<!-- c -->", "<!-- 'a' & \"b\" &amp; <i>c</i> -->", "<!-- é\t\n -->", "<% a %>"),
        *("<script>if (a < b && c) d();</script>", "<style>a > b {}</style>", "&shy;"),
    ],
)
@pytest.mark.parametrize(
    ("source", "attributes"),
    [
        ("one {} two", ""),
        ("one {} two", ' xml:space="preserve"'),
        ("{}one", ""),
        ("<g id='1'>one {}</g> two", ""),
        ("{}<x id='1'/>one", ""),
        ("one {}{} two {}", ""),
        ("one {} <![CDATA[<b>]]>two<![CDATA[</b>]]>", ""),
    ],
)
def test_hidden_pieces_that_are_alone_in_a_section(source, attributes, hidden):
    source = source.replace("{}", f"<![CDATA[{hidden}]]>")
    assert target_of(source, attributes) == source.replace("one", "ONE").replace("two", "TWO")


@pytest.mark.parametrize(
    "piece",
    [
        *("http://a.b/?x&amp;y", "http://a.b/?c=1&amp;copy=2", "%&lt;total&gt;.2f", "`a &amp; b`"),
        "`&lt;b&gt;`",
    ],
)
def test_entities_in_protected_pieces_of_html_are_escaped_once(piece):
    source = f"<![CDATA[<b>one</b> {piece} two]]>"
    assert target_of(source) == source.replace("one", "ONE").replace("two", "TWO")
    source = html.escape(f"<b>one</b> {piece} two", quote=False)
    assert target_of(source) == source.replace("one", "ONE").replace("two", "TWO")


@pytest.mark.parametrize("hidden", ["<!-- c -->", "<script>a < b</script>", "&shy;"])
def test_hidden_pieces_beside_tags_in_a_section(hidden):
    target = target_of(f"one <![CDATA[{hidden}<b>{hidden}]]>two<![CDATA[</b>{hidden}]]>")
    read = target.replace("<![CDATA[", "").replace("]]>", "")
    assert read == f"ONE {hidden}<b>{hidden}TWO</b>{hidden}"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("One.\nTwo.\n\nThree  four:\tfive", "ONE.\nTWO.\n\nTHREE  FOUR:\tFIVE"),
        ("  a\n   b ", "  A\n   B "),
        ('a <g id="1">b\nc</g> d', 'A <g id="1">B\nC</g> D'),
        ('<bx id="1"/>b\nc<ex id="1"/> d', '<bx id="1"/>B\nC<ex id="1"/> D'),
        ("<![CDATA[a\n\tb & c]]>", "<![CDATA[A\n\tB & C]]>"),
        ("<![CDATA[<b>a</b>\n\nb]]>", "<![CDATA[<b>A</b>\n\nB]]>"),
    ],
)
def test_white_space_that_is_preserved(source, target):
    assert target_of(source, ' xml:space="preserve"') == target


@pytest.mark.parametrize(
    ("source", "segments"),
    [
        (
            '&lt;p&gt;One&lt;/p&gt;&lt;p&gt;Two <x id="1"/> a&lt;/p&gt;',
            ["One", 'Two <x id="1"/> a'],
        ),
        ('&lt;li&gt;One <g id="1">a</g>&lt;li&gt;Two', ['One <g id="1">a</g>', "Two"]),
        ('<g id="1">&lt;p&gt;One&lt;/p&gt;&lt;p&gt;Two&lt;/p&gt;</g>', ["One", "Two"]),
        (
            '<bpt id="1">b</bpt>&lt;p&gt;One&lt;/p&gt;<ept id="1">b</ept>Two',
            ["One", "Two"],
        ),
        ('One &lt;br/&gt; &lt;br/&gt;Two <x id="1"/>', ["One", "Two"]),
        (
            '<![CDATA[<p>One &amp; a</p>b]]><x id="1"/> c',
            ["One &amp; a", "b", "c"],
        ),
        ('<x id="1"/><![CDATA[<p>One</p><p>Two</p>]]>', ["One", "Two"]),
        ("<![CDATA[<p>]]>One<![CDATA[</p><p>]]>Two<![CDATA[</p>]]>", ["One", "Two"]),
        (
            '<g ctype="x-html-p">One <g ctype="bold">a</g></g><g ctype="x-html-p">Two</g>',
            ['One <g ctype="bold">a</g>', "Two"],
        ),
        (
            '<x id="1" ctype="x-p"/>One<x id="2" ctype="x-p"/>Two <x id="3" ctype="x-b"/>a',
            ["One", 'Two <x id="3" ctype="x-b"/>a'],
        ),
        ('&lt;b&gt;One&lt;/b&gt; <x id="1"/>a', ['<b \U0010ff2f>One</b \U0010ff2f> <x id="1"/>a']),
        (
            '<bpt id="1" ctype="x-html-p">&lt;p&gt;</bpt>One<ept id="1">&lt;/p&gt;</ept>'
            '<bpt id="2">&lt;p&gt;</bpt>Two<ept id="2">&lt;/p&gt;</ept>',
            ["One", "Two"],
        ),
        (
            '<ph ctype="x-html-hr">&lt;hr&gt;</ph>One',
            ['<ph ctype="x-html-hr">\U0010ff26lt;hr\U0010ff26gt;</ph>One'],
        ),
        (
            '<pc id="1" dispStart="&lt;p class=&quot;a&quot;&gt;">One</pc>'
            '<pc id="2" dispStart="&lt;p&gt;">Two</pc>',
            ["One", "Two"],
        ),
        (
            '<x id="START_BLOCK_IF" ctype="x-if"/>One<x id="CLOSE_BLOCK_IF" ctype="x-if"/>'
            '<x id="START_BLOCK_ELSE" ctype="x-else"/>Two<x id="CLOSE_BLOCK_ELSE" ctype="x-else"/>',
            ["One", "Two"],
        ),
        (
            '<g id="1">One <g ctype="x-html-p">Two</g> three</g> four <g id="2">five</g>',
            ["One", "Two", "three", 'four <g id="2">five</g>'],
        ),
        (
            '<g id="1"><g ctype="x-html-p">One</g>Two<bx id="2"/>three</g>four<ex id="2"/> five',
            ["One", "Two", "three", "four", "five"],
        ),
        (
            '&lt;p&gt;One&lt;/p&gt;Press &lt;Enter&gt; <x id="1"/> now',
            ["One", 'Press <Enter \U0010ff2f> <x id="1"/> now'],
        ),
    ],
)
def test_blocks_of_html_beside_codes_are_cut(source, segments):
    document = XliffFile(unit(source).encode())
    assert document.segments == segments
    read, written = (
        re.sub(r"\]\]><!\[CDATA\[", "", target).upper() for target in (source, target_of(source))
    )
    assert read == written


def test_white_space_is_inherited_and_comes_with_the_target():
    group = '<group xml:space="preserve"><trans-unit><source>a\nb</source></trans-unit></group>'
    assert f"<target {REVIEW}>A\nB</target>" in upper(V12.format(group))
    own = V12.format('<trans-unit><source xml:space="preserve">a\n b</source></trans-unit>')
    assert f'<target {REVIEW} xml:space="preserve">A\n B</target>' in upper(own)


@pytest.mark.parametrize(
    "rest",
    [
        "<target>Öffnen</target>",
        "<!-- c --><target>Öffnen</target>",
        "<note>n</note>\n<target state='final'>Öffnen</target>",
        "<seg-source>Open</seg-source><note/><target>Öffnen</target>",
        '<target state="needs-review-translation">x</target>',
        '<target state="needs-adaptation">x</target>',
        '<target state="signed-off"/>',
        "<target><![CDATA[Öffnen]]></target>",
        '<target><g id="1">Öffnen</g></target><alt-trans><target state="new"/></alt-trans>',
    ],
)
def test_targets_that_stay(rest):
    text = unit("Open", rest)
    assert upper(text) == text
    assert XliffFile(text.encode()).report.kept == 1


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("<target/>", f"<target {REVIEW}>OPEN</target>"),
        ("<note>n</note><target></target>", f"<note>n</note><target {REVIEW}>OPEN</target>"),
        ('<target xml:lang="de" />', f'<target xml:lang="de" {REVIEW}>OPEN</target>'),
        ('<target state="new">Open</target>', f"<target {REVIEW}>OPEN</target>"),
        ("<target state='needs-translation'>\n</target>", f"<target {REVIEW}>OPEN</target>"),
        ("<target state-qualifier='tm-suggestion'/>", None),
        ('<target><x id="1"/><ph id="2">code</ph></target>', f"<target {REVIEW}>OPEN</target>"),
        (MATCH, f"<target {REVIEW}>OPEN</target>{MATCH}"),
    ],
)
def test_targets_that_are_made(rest, expected):
    expected = (
        expected
        or '<target state-qualifier="leveraged-mt" state="needs-review-translation">OPEN</target>'
    )
    assert upper(unit("Open", rest)) == unit("Open", expected)


@pytest.mark.parametrize("attributes", [' translate="no"', ' approved="yes"'])
@pytest.mark.parametrize("target", ['<target state="new">x</target>', "<target/>", ""])
def test_units_that_stay(attributes, target):
    text = unit("Open", target, attributes)
    assert upper(text) == text


UNITS = {  # by what is around them: those that get a target, and those that do not
    "1.2": [
        (
            "<trans-unit><source>A</source><seg-source><mrk>A</mrk></seg-source>{}</trans-unit>",
            True,
        ),
        ("<trans-unit><source>A</source>{}<note>n</note></trans-unit>", True),
        ("<trans-unit><source>A</source><target>B</target></trans-unit>", False),
        (
            "<trans-unit><source>A</source>{}<alt-trans><source>C</source></alt-trans>"
            "<alt-trans><source>D</source><target>E</target></alt-trans></trans-unit>",
            True,
        ),
        ('<group translate="no"><trans-unit><source>A</source></trans-unit></group>', False),
        (
            '<group translate="no"><trans-unit translate="yes"><source>A</source>{}</trans-unit>'
            "</group>",
            True,
        ),
    ],
    "2.0": [
        ("<unit><segment><source>A</source>{}</segment></unit>", True),
        ('<unit><segment state="initial"><source>A</source>{}</segment></unit>', True),
        ('<unit translate="no"><segment><source>A</source></segment></unit>', False),
        (
            "<unit><ignorable><source>. </source></ignorable><segment><source>A</source>{}"
            "</segment></unit>",
            True,
        ),
        (
            '<unit><segment state="final"><source>A</source><target>B</target></segment></unit>',
            False,
        ),
    ],
}


@pytest.mark.parametrize(
    ("version", "unit", "is_translated"),
    [(version, *case) for version, cases in UNITS.items() for case in cases],
)
@pytest.mark.parametrize("old", ["", "<target/>", "<target>old</target>"])
def test_units_of_every_form(version, unit, is_translated, old):
    """A translation that exists stays unless its state says that it is unfinished."""
    text = f'<xliff version="{version}"><file>{unit}<!-- end --></file></xliff>'
    document = XliffFile(text.format(old).encode())
    unfinished = old != "<target>old</target>" or 'state="initial"' in unit
    assert document.segments == ["A"] * (is_translated and unfinished)
    made = f"<target {REVIEW}>A</target>" if version == "1.2" else "<target>A</target>"
    expected = text.format(made if unfinished else old)
    if version == "2.0" and is_translated and unfinished:
        expected = re.sub(
            '<segment(?: state="initial")?>', '<segment state="translated">', expected
        )
    assert upper(text.format(old)) == expected


SENTENCES = (
    '<seg-source>(<mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk>)'
    "</seg-source>"
)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", '(<mrk mtype="seg" mid="1">ONE.</mrk> <mrk mtype="seg" mid="2">TWO.</mrk>)'),
        (
            '<target><mrk mtype="seg" mid="2"/>, <mrk mtype="seg" mid="1"></mrk></target>',
            '<mrk mtype="seg" mid="2">TWO.</mrk>, <mrk mtype="seg" mid="1">ONE.</mrk>',
        ),
        (
            '<target><mrk mtype="seg" mid="1">Eins.</mrk>  <mrk mtype="seg" mid="2"> </mrk>'
            "</target>",
            '<mrk mtype="seg" mid="1">Eins.</mrk>  <mrk mtype="seg" mid="2">TWO.</mrk>',
        ),
        (
            '<target><mrk mtype="seg" mid="2">Zwei.</mrk></target>',
            '(<mrk mtype="seg" mid="1">ONE.</mrk> <mrk mtype="seg" mid="2">Zwei.</mrk>)',
        ),
    ],
)
def test_sentences_that_are_marked(target, expected):
    made = f"{SENTENCES}<target {REVIEW}>{expected}</target>"
    assert upper(unit("(One. Two.)", SENTENCES + target)) == unit("(One. Two.)", made)


def marked(sentences: str) -> str:
    """Returns marked sentences: `1=One.` has a number, `One.` has none."""
    parts = [one.rpartition("=") for one in sentences.split("|")]
    numbers = [f' mid="{mid}"' if mid else "" for mid, *_ in parts]
    return " ".join(
        f'<mrk mtype="seg"{number}>{text}</mrk>'
        for number, (*_, text) in zip(numbers, parts, strict=True)
    )


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("One.|Two.", None, "ONE.|TWO."),
        ("1=One.|1=Two.", None, "1=ONE.|1=TWO."),
        ("1=One.|Two.|2=Six.", None, "1=ONE.|TWO.|2=SIX."),
        ("One.|Two.", "Eins.|", "Eins.|TWO."),
        ("One.|Two.|Six.", "|Zwei.|", "ONE.|Zwei.|SIX."),
        ("1=One.|1=Two.", "1=|1=Zwei.", "1=ONE.|1=Zwei."),
        ("1=One.|1=Two.", "1=Eins.|1=", "1=Eins.|1=TWO."),
        ("1=One.|2=Two.", "Eins.|", "Eins.|TWO."),
        ("One.|Two.", "1=|2=Zwei.", "1=ONE.|2=Zwei."),
        ("1=One.|2=Two.", "1=Eins.|2=", "1=Eins.|2=TWO."),
        ("1=One.|2=Two.", "2=|1=Eins.", "2=TWO.|1=Eins."),
        ("1=One.|2=Two.|2=Six.", "1=|2=Zwei.|2=Sechs.", "1=ONE.|2=Zwei.|2=Sechs."),
        ("One.|Two.", "1=", "ONE.|TWO."),
        ("1=One.|2=Two.", "1=|3=", "1=ONE.|2=TWO."),
    ],
)
def test_sentences_are_matched_by_their_numbers_or_places(source, target, expected):
    source = f"<seg-source>{marked(source)}</seg-source>"
    old = f"<target>{marked(target)}</target>" if target is not None else ""
    made = f"<target {REVIEW}>{marked(expected)}</target>"
    assert upper(unit("x", source + old)) == unit("x", source + made)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("One.|Two.", "Eins."),
        ("One.|Two.", "Eins.||"),
        ("1=One.|1=Two.", "1=Zwei."),
        ("1=One.|2=Two.", "2=Zwei.|2=Drei.|2="),
        ("1=One.|2=Two.", "1=|3=Drei."),
        ("1=One.|2=Two.", "3=Drei."),
        ("1=One.|2=Two.|2=Six.", "1=Eins.|2="),
    ],
)
@pytest.mark.parametrize("is_apart", [True, False])
def test_sentences_that_do_not_match_are_left(source, target, is_apart):
    rest = f"<target>{marked(target)}</target>"
    own = f"<seg-source>{marked(source)}</seg-source>{rest}"
    text = unit("x", own) if is_apart else unit(marked(source), rest)
    assert upper(text) == text
    report = XliffFile(text.encode()).report
    assert str(report) == "0 translated, 0 kept, 1 left (marked sentences that do not match: 1)"
    new = text.replace("<target>", '<target state="new">')
    assert XliffFile(new.encode()).segments == re.findall(r"[A-Z]\w+\.", source)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("One.|Two.", "Eins.|Zwei."),
        ("1=One.|1=Two.", "1=Eins.|1=Zwei."),
        ("1=One.|2=Two.", "2=Zwei.|3=Drei.|1=Eins."),
        ("One.|Two.|", "Eins.|Zwei.|"),
        ("1=One.|2=", "1=Eins."),
    ],
)
def test_sentences_that_are_all_translated_stay(source, target):
    text = unit("x", f"<seg-source>{marked(source)}</seg-source><target>{marked(target)}</target>")
    assert upper(text) == text
    assert XliffFile(text.encode()).report.kept == 1


def test_files_of_version_2():
    segment = (
        '<segment state="initial"><source>Open</source></segment>'
        "<ignorable><source>. </source></ignorable>"
    )
    made = segment.replace("initial", "translated").replace(
        "</source></seg", "</source><target>OPEN</target></seg"
    )
    assert upper(V2.format(segment)) == V2.format(made)
    told = segment.replace("<segment", "<segment subState='a:b'")
    assert upper(V2.format(told)) == V2.format(made), "which belongs to the old state"
    bare = "<segment><source>Open</source></segment>"
    made = '<segment state="translated"><source>Open</source><target>OPEN</target></segment>'
    assert upper(V2.format(bare)) == V2.format(made)
    finished = '<segment state="reviewed"><source>A</source></segment>'
    assert upper(V2.format(finished)) == V2.format(finished)
    match = (
        '<m:matches xmlns:m="urn:m"><m:match><source>Opens</source><target/></m:match></m:matches>'
        '<segment state="reviewed"><source>A</source><target>B</target></segment>'
    )
    assert upper(V2.format(match)) == V2.format(match)


@pytest.mark.parametrize("code", ["pt-BR", "pt_BR", "pt_BR+news"])
def test_version_2_names_the_language_of_its_targets(code):
    text = V2.replace(' trgLang="de"', "").format("<segment><source>A</source></segment>")
    document = XliffFile(text.encode(), language=code)
    assert 'srcLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0" trgLang="pt-BR">' in (
        document.translated(["B"]).decode()
    )
    assert ' trgLang="und">' in XliffFile(text.encode()).translated(["B"]).decode()


def test_prefixes_and_other_namespaces():
    text = (
        '<x:xliff xmlns:x="urn:x" version="1.2"><x:file><x:body><x:trans-unit id="1">'
        '<y:source xmlns:y="urn:y">No</y:source>\n <x:source>a <x:g id="1">b</x:g></x:source>'
        "</x:trans-unit></x:body></x:file></x:xliff>"
    )
    made = f'</x:source>\n <x:target {REVIEW}>A <x:g id="1">B</x:g></x:target>'
    assert upper(text) == text.replace("</x:source>", made)


@pytest.mark.parametrize(
    ("charset", "text", "output", "expected"),
    [
        ("iso-8859-1", "Ä", "ß Ж", "ß &#1046;"),
        ("us-ascii", "A", "ß", "&#223;"),
        ("koi8-r", "Ж", "Ж ß", "Ж &#223;"),
        ("shift_jis", "日本", "本 ß", "本 &#223;"),
        ("utf-16", "Ä", "Ж", "Ж"),
        ("utf-8-sig", "Ä", "Ж", "Ж"),
        ("iso-8859-1", "<![CDATA[Ä]]>", "ß Ж &amp;", "<![CDATA[ß ]]>&#1046;<![CDATA[ &]]>"),
    ],
)
def test_files_stay_in_their_encoding(charset, text, output, expected):
    declaration = f'<?xml version="1.0" encoding="{charset.removesuffix("-sig")}"?>\r\n'
    contents = (declaration + unit(text)).encode(charset)
    found = XliffFile(contents).translated([output])
    target = f"</source><target {REVIEW}>{expected}</target>"
    assert found == (declaration + unit(text).replace("</source>", target)).encode(charset)


def test_characters_that_xml_lacks_are_left_out():
    found = XliffFile(unit("Open").encode()).translated(["a\x0bb\x01\uffff"])
    assert f"<target {REVIEW}>ab</target>".encode() in found


def test_entities_of_a_file_stay():
    text = '<!DOCTYPE xliff [<!ENTITY n "Name">]>' + unit("My &n; is <x id='1'/>")
    assert f"<target {REVIEW}>MY &n; IS <x id='1'/></target>" in upper(text)


@pytest.mark.parametrize("target", ["", "<target/>", '<target xmlns:a="b" />'])
def test_targets_know_the_namespaces_of_their_source(target):
    text = "<trans-unit><source xmlns:a='b'>Open <g a:c='d'>x</g></source>{}</trans-unit>"
    made = f"<target {REVIEW} xmlns:a=\"b\">OPEN <g a:c='d'>X</g></target>"
    if "xmlns" in target:
        made = made.replace(f'{REVIEW} xmlns:a="b"', f'xmlns:a="b" {REVIEW}')
    assert upper(V12.format(text.format(target))) == V12.format(text.format(made))


def test_namespaces_have_any_characters():
    text = (
        r"<trans-unit><source xmlns:a='c:\base\1'>Open</source><target xmlns:a='b'/></trans-unit>"
    )
    assert rf'<target xmlns:a="c:\base\1" {REVIEW}>OPEN</target>' in upper(V12.format(text))


def test_text_in_codes_is_left_and_counted():
    document = XliffFile(unit('<ph id="1">&lt;img alt="<sub>A</sub>"/&gt;</ph> Open').encode())
    assert str(document.report) == "1 translated, 0 kept, 1 left (text in codes: 1)"
    assert "Open" in document.segments[0]


def test_icu_messages_are_left():
    text = unit("{n, plural, one {# file} other {# files}}")
    document = XliffFile(text.encode())
    assert not document.segments
    assert document.report.left == {"ICU messages": 1}
    assert document.translated([]).decode() == text


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"<html/>", "expected an <xliff> file"),
        (b"<xliff><a></xliff>", "not well-formed XML: .*line 1"),
        (b"", "not well-formed XML"),
        ("<xliff>ä</xliff>".encode("latin-1"), "not in UTF-8"),
        (b'<?xml version="1.0" encoding="klingon"?><xliff/>', "klingon"),
    ],
)
def test_files_that_are_refused(contents, message):
    with pytest.raises(DataError, match=message):
        XliffFile(contents)


TEXTS = ("a ", "word", "é", "{n}", "&amp;", "&lt;b&gt;", "&lt;/b&gt;", "&amp;nbsp;", "&#10;", "\n")
BLOCKS = ("&lt;p class='é'&gt;", "&lt;/p&gt;", "&lt;br/&gt;&lt;br/&gt;", "[b]", "[/b]")
TAGS = ('<x id="1"/>', '<g id="2">', "</g>", "<b>", "<br>", '<mrk mtype="seg" mid="1">', "</mrk>")
CODES = ('<bpt id="3">&lt;i&gt;</bpt>', '<ept id="3"/>', '<ph id="4"><![CDATA[<u>]]></ph>', "  ")
PIECES = st.sampled_from(
    [*TEXTS, *BLOCKS, *TAGS, *CODES, "<![CDATA[", "]]>", "<!-- c -->", "<?p ?>", "\t"]
)


@given(st.lists(PIECES, max_size=12), st.booleans())
def test_whatever_a_source_has_the_rest_stays(pieces, keeps_space):
    source = "".join(pieces)
    text = unit(source, attributes=' xml:space="preserve"' * keeps_space)
    try:
        expat.ParserCreate().Parse(text.encode(), True)
    except expat.ExpatError:
        return
    document = XliffFile(text.encode())
    found = document.translated(document.segments).decode()
    before, _, after = found.partition("<target ")
    assert before + after[after.find("</target>") + 9 :] * bool(after) == text
    expat.ParserCreate().Parse(found.encode(), True)
    if keeps_space and after:
        texts = []
        for part in (text, found):
            reader = expat.ParserCreate()
            texts.append([])
            reader.CharacterDataHandler = texts[-1].append
            reader.Parse(part.encode(), True)
        read, written = (html.unescape("".join(pieces)) for pieces in texts)
        assert written == 2 * read


@pytest.mark.integration
@pytest.mark.parametrize(
    "source", ["a<![CDATA[b]]>", "<g id='1'>", "a\n", "&lt;!--", "&lt;b&gt;", "<bx id='1'/>"]
)
def test_growth(source):
    closing = "</g>" if source.startswith("<g") else ""

    def work(contents):
        document = XliffFile(contents)
        document.translated(document.segments)

    assert_grows_gently(lambda n: unit(source * n + closing * n).encode(), work, 100)
