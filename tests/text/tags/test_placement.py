"""Tags put into translations: by alignments that are known, random or wrong."""

import gzip
import pathlib
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t_lite.text.alignment.units import token_of_characters, units_of
from t2t_lite.text.marks import PLACEHOLDERS as MARKS
from t2t_lite.text.tags.kinds import HTML, KINDS, PLACEHOLDERS, XML
from t2t_lite.text.tags.placement import place
from t2t_lite.text.tags.segment import parse
from t2t_lite.text.tags.tokens import TokenKind, tokens_of

_TAG = re.compile(r"<[^<>]*>")


def _placed(source: str, target: str, links: list[int], kind: str = HTML, marks: str = "") -> str:
    """Returns a translation with markup; `links` has a source word for each target word."""
    segment = parse(source, kind, marks)
    tokens = [segment.text[u.start : u.end] for u in units_of(segment.text)]
    outputs = [target[u.start : u.end] for u in units_of(target)]
    return place(segment, target, tokens, outputs, np.eye(len(tokens))[links])


def _copied(source: str, kind: str = HTML, marks: str = "") -> str:
    """Returns the translation of a segment into itself."""
    text = parse(source, kind, marks).text.strip()
    return _placed(source, text, list(range(len(units_of(text)))), kind, marks)


@pytest.mark.parametrize(
    "source",
    [
        'Click <b>OK</b> to <a href="x">close <i>the</i> window</a>.',
        "H<sub>2</sub>O and <b>un</b><i>able</i>",
        "the <span class='e'>Insert Controls </span>icon",
        "<p> Hello </p>",
        "Visit https://example.org/?a=1&amp;b=2. <br>Hi {name}, %s has %1$d 😀 <code>a b</code>!",
        "{name} has {n, plural, one {# file} other {# files}} 100% of %%",
        "a<br/>b <img src=x><!-- c --> d",
        "<b><i>{0}</i> words</b> (see {url})",
        "One.<br>Two <br> three.<br/><br/>(Four<br>five) a\\nB",
        "a note<sup><a href='#n'>1</a></sup> and, here.<a href='#n'>[2]</a> So",
        "[b]one[/b] [i x='1']two [a b=1][/i] [sic] %{linkStart}three%{linkEnd}",
        "<b>one</b><b>two</b> <i></i>three",
        "AT&amp;T &lt;b&gt;",
        "the Donau&shy;dampf<wbr>schiff and <b>Kapi&#173;tän</b> of&shy; it",
        "<br>",
        "{a} {b}",
        "a <b> b",
    ],
)
@pytest.mark.parametrize("marks", ["", MARKS[:1], MARKS])
def test_a_copy_is_the_source(source, marks):
    assert _copied(source, marks=marks) == source


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Hi {a}, see {b}!", "{b} ist da, {a}!", "{b} ist da, {a}!"),
        ("Hi {a}, see {b}!", "{b} ist da, {b}!", "{b} {a}ist da,!"),  # lost, and said again
        ("see {a}", "sieh {a} {b} {c}", "sieh {a}"),  # invented
        ("use <code>x</code> or %s", "%s oder {a}", "%s oder <code>x</code>"),
        ("the <b>big {a}</b>", "{a} das Große", "das <b>Große {a}</b>"),  # may not leave
    ],
)
def test_marks_show_where_pieces_go(source, target, expected):
    segment = parse(source, HTML, MARKS)
    pieces = [piece for _, piece in segment.marked]
    names = {"{a}": 0, "{b}": 1, "{c}": 2, "%s": 1}
    for name, number in names.items():
        number = pieces.index(name) if name in pieces else number
        target = target.replace(name, MARKS[number])
    assert place(segment, target) == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("a <b>black</b> cat", "un chat noir", [0, 2, 1], "un chat <b>noir</b>"),
        ("<b>one</b> <i>two</i>", "zwei eins", [1, 0], "<i>zwei</i> <b>eins</b>"),
        ("Go <b>home</b>!", "Geh nach Hause!", [0, 1, 1, 2], "Geh <b>nach Hause</b>!"),
        ("<a>x <b>y</b></a> z", "Z Y X", [2, 1, 0], "Z <a><b>Y</b> X</a>"),
        ("{n} files in {dir}.", "In Dateien.", [1, 0, 2], None),
        ("see <br>it", "es sehen", [1, 0], None),
        ("the icon <img>, and go", "Symbol geh dann", [1, 4, 3], "Symbol <img> geh dann"),
        ("go (<img> icon) now", "geh Symbol jetzt", [0, 2, 4], "geh <img> Symbol jetzt"),
        ("a &lt; b", "A < B & C", [0, 1, 2, 2, 2], "A &lt; B &amp; C"),
        ("<b>gone</b> here", "", [], "<b></b>"),
        ("so Haus&shy;tür auf", "so front door open", [0, 1, 1, 2], None),
    ],
)
def test_tags_follow_their_words(source, target, links, expected):
    found = _placed(source, target, links)
    if expected is not None:
        assert found == expected
    assert Counter(_pieces(found, HTML)) == Counter(_pieces(source, HTML))


@pytest.mark.parametrize("piece", ["&shy;", "&#8203;", "<wbr>"])
@pytest.mark.parametrize(
    "source", ["Haus{}tür auf", "Auf Haus{}tür", "<b>Haus{}</b>tür a", "a{}{x} b"]
)
def test_invisible_pieces_replace_no_spaces(source, piece):
    source = source.format(piece, x="{x}")
    for links in ([0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0]):
        found = _placed(source, "front door open", links)
        assert found.count(piece) == 1
        read = re.sub(r"<.*?>", "", found.replace(piece, "").replace("{x}", ""))
        assert read.split() == ["front", "door", "open"]


def test_without_attention_words_align_by_position():
    assert place(parse("a <b>b</b> c", XML), "x y z") == "x <b>y</b> z"


def test_a_text_without_markup_is_as_the_model_wrote_it():
    assert place(parse("x", HTML), "\n a  b\x0c\n") == "\n a  b\x0c\n"
    assert place(parse("x", HTML), " ") == " "


def test_plain_text_is_not_escaped():
    assert place(parse("a < {b}", PLACEHOLDERS), "x <") == "x < {b}"


def test_tokens_of_any_vocabulary_find_their_characters():
    assert token_of_characters("ab cd", ["a", "b ", "cd", "<EOS>"]) == [0, 1, -1, 2, 2]
    assert token_of_characters("é x", ["\ufffd", "\ufffd", " ", "x", "<EOS>"])[2] == 3
    assert token_of_characters("ab", ["__de__", "ab"]) == [1, 1]
    assert token_of_characters("ab", []) == [-1, -1]


@pytest.mark.integration
def test_very_long_lines_take_bounded_memory():
    source = "<b>word</b> " * 20000
    found = place(parse(source, HTML), "wort " * 20000)
    assert found.count("<b>") == found.count("</b>") == 20000


_WORDS = st.sampled_from(["one", "two", "three", "vier", "日本", "a&amp;b", "fünf", "."])
_PIECES = st.sampled_from(["{x}", "%s", "<br/>", "😀", "<code>q r</code>", "<!-- c -->"])


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(["b", "i", "a"])
    spaces = st.sampled_from(["", " "])
    joined = st.tuples(spaces, st.lists(inner, min_size=1, max_size=4)).map(
        lambda t: t[0].join(t[1])
    )
    return st.tuples(names, joined).map(lambda pair: f"<{pair[0]}>{pair[1]}</{pair[0]}>")


_TREES = st.lists(
    st.recursive(_WORDS | _PIECES, _wrapped, max_leaves=12), min_size=1, max_size=6
).map(" ".join)


@pytest.mark.integration
@given(
    _TREES,
    st.integers(0, 8),
    st.integers(0, 2**32 - 1),
    st.sampled_from([HTML, XML]),
    st.sampled_from(["", MARKS[:2], MARKS]),
)
@example("one <b>one<b>one%s</b>one</b> one one one", 3, 0, HTML, "")  # not "%sthree"
@settings(deadline=None)
def test_any_alignment_keeps_tags_once_and_nested(source, size, seed, kind, marks):
    generator = np.random.default_rng(seed)
    segment = parse(source, kind, marks)
    tokens = [segment.text[u.start : u.end] for u in units_of(segment.text)]
    words = ["eins", "zwei", "<", "three", ".", *marks[:4]]
    target = " ".join(generator.choice(words, size))
    attention = generator.dirichlet([0.2] * max(len(tokens), 1), size)[:, : len(tokens)]
    found = place(segment, target, tokens, target.split(), attention)
    assert Counter(_pieces(found, kind)) == Counter(_pieces(source, kind))
    assert _parents(found) == _parents(source)


def _pieces(segment: str, kind: str) -> list[str]:
    """Returns tags and protected pieces, without the entities of visible characters."""
    text = (TokenKind.TEXT, TokenKind.ENTITY)
    return [token.raw for token in tokens_of(segment, kind) if token.kind not in text]


def _parents(source: str) -> Counter[tuple[str, ...]]:
    """Returns how often each path of elements is there; raises ParseError if one is malformed."""
    found: Counter[tuple[str, ...]] = Counter()

    def visit(element: ET.Element, path: tuple[str, ...]) -> None:
        for child in element:
            found[*path, child.tag] += 1
            visit(child, (*path, child.tag))

    visit(ET.fromstring(f"<root>{source}</root>"), ())
    return found


def _mutated(source: str, generator: random.Random) -> str:
    """Returns a segment with characters dropped, doubled, exchanged or put in."""
    characters = list(source)
    for _ in range(generator.randint(0, 6)):
        at = generator.randrange(len(characters) + 1)
        match generator.randrange(3):
            case 0:
                del characters[at : at + generator.randint(1, 5)]
            case 1:
                characters.insert(at, generator.choice("<>/\"'&;{}%- "))
            case _:
                other = generator.randrange(len(characters) + 1)
                characters[at:at] = characters[other : other + generator.randint(1, 20)]
    return "".join(characters)


_FRAGMENTS = [
    'Click <emph>File - <span class="menu">Open</span></emph>, or press <switchinline select="sys">'
    '<caseinline select="MAC">Command</caseinline><defaultinline>Ctrl</defaultinline>'
    "</switchinline>+O.",
    'See <link href="text/x.xhp#a" name="x">the <b>manual</b></link> of $[officename] &amp; %s.',
    "<ol><li>one<li>two</ol> <img alt='a > b'><!-- <i> --> {n, plural, one {# x} other {#}}",
]


def _check_mutants(fragments: list[str], count: int) -> None:
    generator = random.Random(5)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        source = _mutated(generator.choice(fragments), generator)
        segment = parse(source, kind, MARKS if number % 2 else "")
        words = [segment.text[u.start : u.end] for u in units_of(segment.text)]
        generator.shuffle(words)
        words = words[: generator.randint(0, len(words))]
        # Words alone: characters such as "{" might make pieces that are new.
        target = " ".join(word for word in words if word.isalnum() or word in MARKS)
        found = place(segment, target)
        # As text: beside other words, half of a mutant's piece may no longer be read as one.
        for piece, wanted in Counter(_pieces(source, kind)).items():
            assert wanted <= found.count(piece) <= source.count(piece), (source, found)


def test_mutants_lose_nothing():
    _check_mutants(_FRAGMENTS, 300)


@pytest.fixture(scope="module")
def libreoffice(shared_data: pathlib.Path) -> list[str]:
    """The segments of LibreOffice's help that have tags."""
    files = sorted((shared_data / "libreoffice").glob("*.tsv.gz"))
    if not files:
        pytest.skip("LibreOffice's help is not here")
    found = []
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found += [line.split("\t")[2] for line in lines]
    return [segment for segment in found if _TAG.search(segment)]


@pytest.mark.integration
def test_real_segments_copy_their_tags(libreoffice: list[str]):
    for source in libreoffice[:: max(len(libreoffice) // 300, 1)]:
        found = _copied(source)
        assert Counter(_pieces(found, HTML)) == Counter(_pieces(source, HTML)), source


@pytest.mark.slow
def test_ten_thousand_real_mutants_lose_nothing(libreoffice: list[str]):
    _check_mutants(libreoffice, 10_000)
