"""Segments are read in order; errors in malformed markup name file and line."""

import contextlib
import io
import tracemalloc
from collections.abc import Sequence
from xml.sax import saxutils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from t2t_lite.data.corpora import segments, xml_files
from t2t_lite.data.corpora.segments import sgm_segments, tsv_pairs
from t2t_lite.data.corpora.xml_files import tmx_pairs, xml_pairs, xml_segments
from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import UNREADABLE, BadInput
from t2t_lite.text.text_files import raw_pieces

HEAD = '<refset setid="newstest2014" srclang="any" trglang="de">\n<doc docid="1">\n<p>\n'
TAIL = "</p>\n</doc>\n</refset>\n"
# Of any text but what would be white space at an end, or no XML.
words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"])
)


def sgm(text: str) -> list[str]:
    return list(sgm_segments(text.split("\n"), "f.sgm"))


def tmx(*units: str, encoding: str = "utf-8") -> list[tuple[str, str]]:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n<tmx version="1.4">\n<header/>\n<body>\n'
    text += "\n".join(units) + "\n</body>\n</tmx>\n"
    lines = text.encode(encoding).splitlines(keepends=True)
    return list(tmx_pairs(lines, "f.tmx", ("en", "de")))


def unit(*variants: tuple[str, str]) -> str:
    tuvs = (f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in variants)
    return f"<tu>{''.join(tuvs)}</tu>"


# ---- SGM


@given(st.lists(words))
def test_sgm_segments_keep_their_order(texts):
    segs = (f'<seg id="{i}">{saxutils.escape(text)}</seg>\n' for i, text in enumerate(texts, 1))
    assert sgm(HEAD + "".join(segs) + TAIL) == texts


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            '<seg id="1"> A &amp; B &lt;C&gt; &quot;D&quot; &#39;E&#x27; </seg>\r',
            ["A & B <C> \"D\" 'E'"],
        ),
        (
            "<seg id=1>AT&T, R&D; 3 < 5, ?a=1&copy=2 &amp;amp;</seg>",
            ["AT&T, R&D; 3 < 5, ?a=1&copy=2 &amp;"],
        ),
        ("<SEG ID='1'>x</SEG><seg>y</seg> <seg></seg>", ["x", "y", ""]),
        ("<hl>\n<seg id=1>two \r\n lines</seg>\n<segment>no</segment>", ["two lines"]),
        ("<seg>a\u2028b\u0085c\u00a0d</seg>", ["a\u2028b\u0085c\u00a0d"]),
        ("", []),
    ],
)
def test_sgm_as_wmt_writes_it(line, found):
    assert sgm(HEAD + line + "\n" + TAIL) == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<seg>a</seg>\n<seg>b\n<seg>c</seg>\n", 2),
        ("<seg>a</seg> <seg>b\n", 1),
        ("<doc>\n\n<seg>a\n", 3),
        ("<seg>a\n</seg><seg>b\n\n", 2),
    ],
)
def test_an_unclosed_sgm_segment_is_named_by_its_line(text, line):
    with pytest.raises(DataError, match=rf"f\.sgm, line {line}: <seg> without </seg>"):
        sgm(text)


# ---- TMX


@given(st.lists(st.tuples(words, words)))
def test_tmx_pairs_keep_their_order(pairs):
    units = (
        unit(("en", saxutils.escape(source)), ("de", saxutils.escape(target)))
        for source, target in pairs
    )
    assert tmx(*units) == pairs


def test_tmx_takes_the_two_languages_in_any_order_and_spelling():
    assert tmx(
        unit(("de", "1"), ("fr", "2"), ("en", "3")),
        unit(("EN-us", "4"), ("de_AT", "5")),
        unit(("eng", "6"), ("de", "7"), ("de", "8")),
        '<tu><tuv lang="en"><seg>9</seg></tuv><tuv lang="de"><note>10</note></tuv></tu>',
    ) == [("3", "1"), ("4", "5"), ("", "7"), ("9", "")]


def test_tmx_may_name_its_namespace():
    text = '<tmx xmlns="http://www.lisa.org/tmx14"><body>%s</body></tmx>'
    whole = text % unit(("en", "1"), ("de", "<hi>2</hi>"))
    assert list(tmx_pairs([whole.encode()], "memory.tmx", ("en", "de"))) == [("1", "2")]


def test_tmx_codes_are_no_text_but_highlights_are():
    coded = '<bpt i="1">&lt;b></bpt>bold<ept i="1">&lt;/b></ept> and <hi>high<ph>{}</ph></hi>\n x '
    assert tmx(unit(("en", coded), ("de", "y"))) == [("bold and high x", "y")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_tmx_names_its_own_encoding(encoding):
    declared = encoding.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{declared}"?><tmx><body>'
    text += unit(("en", "ü"), ("de", "ß")) + "\n</body></tmx>"
    lines = io.BytesIO(text.encode(encoding))
    assert list(tmx_pairs(lines, "f.tmx", ("en", "de"))) == [("ü", "ß")]


@pytest.mark.parametrize(
    ("lines", "line"), [([b"<tmx>\n", b"<body>\n", b"<tu></body>"], 3), ([b"<tmx>\n"], 2), ([], 1)]
)
def test_tmx_that_is_cut_or_no_xml_is_named_by_its_line(lines, line):
    with pytest.raises(DataError, match=rf"f\.tmx, line {line}: not well-formed XML"):
        list(tmx_pairs(lines, "f.tmx", ("en", "de")))


def test_tmx_memory_does_not_grow_with_the_file():
    def lines(units: int):
        yield b"<tmx><body>\n"
        for i in range(units):
            yield unit(("en", f"source {i}"), ("de", f"target {i}")).encode() + b"\n"
        yield b"</body></tmx>\n"

    def peak(units: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in tmx_pairs(lines(units), "f.tmx", ("en", "de"))) == units
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(4000) < 1.5 * peak(400)


# ---- XML test sets


def xml(*documents: str) -> bytes:
    inner = "\n".join(f"<doc id='{i}'>{text}</doc>" for i, text in enumerate(documents))
    return (
        f"<?xml version='1.0'?><dataset><collection id='n'>{inner}</collection></dataset>".encode()
    )


def part(tag: str, texts: Sequence[str], first: int = 1) -> str:
    segs = (f'<seg id="{i}">{saxutils.escape(t)}</seg>\n' for i, t in enumerate(texts, first))
    return f"<{tag} lang='x'><p>{''.join(segs)}</p></{tag}>"


@pytest.mark.integration
@given(st.lists(st.lists(st.tuples(words, words))), st.integers(1, 50))
def test_an_xml_test_set_survives_a_round_trip(documents, size):
    sides = [([source for source, _ in doc], [target for _, target in doc]) for doc in documents]
    data = xml(*(part("src", sources) + part("ref", targets) for sources, targets in sides))
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    assert list(xml_pairs(pieces, "f.xml")) == [pair for doc in documents for pair in doc]


@pytest.mark.parametrize(
    ("document", "pairs"),
    [
        (part("ref", ["B"]) + part("src", ["A"]), [("A", "B")]),
        (part("src", ["A"]) + part("ref", ["B"]) + part("ref", ["second"]), [("A", "B")]),
        (part("hyp", ["no"]) + part("src", ["A"]) + part("ref", ["B"]), [("A", "B")]),
        (part("src", ["A"]) + part("hyp", ["no"]), [("A", "")]),
        (
            part("src", ["1", "2", "3"]) + part("ref", ["II"], 2),
            [("1", ""), ("2", "II"), ("3", "")],
        ),
        ("<src><seg>a</seg><seg>b</seg></src><ref><seg>A</seg><seg>B</seg></ref>", ["aA", "bB"]),
        ("<src><seg>a\n <b>b</b></seg></src><ref><p><seg>&amp;</seg></p></ref>", [("a b", "&")]),
        ("<p><seg id='1'>as in SGM</seg></p>", [("as in SGM", "")]),
    ],
)
def test_segments_belong_together_by_their_ids(document, pairs):
    found = list(xml_pairs([xml(document, part("src", ["next"]))], "f.xml"))
    assert found == [*map(tuple, pairs), ("next", "")]


def test_one_side_of_an_xml_test_set_may_have_its_own_file():
    for tag in ("src", "ref"):
        data = xml(part(tag, ["A", ""]), part("hyp", ["no"]), part(tag, ["B"]))
        assert list(xml_segments([data], "f.xml")) == ["A", "", "B"]
    both = xml(part("src", ["A"]) + part("ref", ["B"]))
    with pytest.raises(DataError, match=r"f\.xml: has sources and references; give it as the inp"):
        list(xml_segments([both], "f.xml"))


def test_xml_that_is_not_well_formed_is_named_by_its_line():
    with pytest.raises(DataError, match=r"f\.xml, line 2: not well-formed XML \(mismatched tag"):
        list(xml_pairs([b"<dataset>\n<doc><src><seg>AT&amp;T</src></doc>"], "f.xml"))


# ---- TSV


@pytest.mark.parametrize(
    ("columns", "pairs"),
    [((0, 1), [("a", "b"), ("", ""), ("c", "")]), ((2, 0), [("x", "a"), ("", ""), ("y", "c")])],
)
def test_tsv_columns_are_counted_from_0_and_blank_lines_are_empty(columns, pairs):
    lines = ["a\tb\tx", "", "c\t\ty\tz"]
    assert list(tsv_pairs(lines, "f.tsv", columns)) == pairs


def test_a_tsv_line_with_too_few_columns_is_named():
    with pytest.raises(DataError, match=r"f\.tsv, line 2: 1 columns; at least 2 needed"):
        list(tsv_pairs(["a\tb", "c"], "f.tsv", (0, 1)))


# ---- markup without end, in linear time and bounded memory


def tmx_of(contents: bytes, bad: BadInput | None = None) -> list[tuple[str, str]]:
    opened = contextlib.nullcontext(io.BufferedReader(io.BytesIO(contents)))
    pieces = raw_pieces(opened, "f.tmx")
    return list(tmx_pairs(pieces, "f.tmx", ("en", "de"), bad or BadInput()))


@pytest.mark.parametrize(
    "lines",
    [
        lambda n: ["<seg>open", *["x" * 50] * n],
        lambda n: ["<seg " + "x" * (20 * n), *["x" * 50] * n],
        lambda n: ["<seg>" + "</seg " * n] * 10 + ["<seg>"],
    ],
)
def test_an_unclosed_segment_is_found_in_linear_time(lines):
    def read(lines):
        with pytest.raises(DataError, match=r"f\.sgm, line \d+: <seg> without </seg>"):
            list(sgm_segments(lines, "f.sgm"))

    assert_grows_gently(lines, read, 5000)


def test_many_unclosed_segments_keep_their_places():
    def read(lines):
        return list(sgm_segments(lines, "f.sgm", BadInput(skip=True)))

    def lines(n):
        return ["<seg>a"] * n + ["</seg>"]

    assert read(lines(50_000)) == [UNREADABLE] * 49_999 + ["a"]
    assert_grows_gently(lines, read, 5000)


def test_an_endless_segment_is_held_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(segments, "MAX_SEGMENT", 1000)
    bad = BadInput(skip=True)
    lines = ["<seg>", *["x" * 100] * 20, "</seg>", "<seg>good</seg>"]
    assert list(sgm_segments(lines, "f.sgm", bad)) == [UNREADABLE, "good"]
    assert bad.skipped == 1


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["<seg", "id=1", ">a</seg", "><seg>b</seg  >"], ["a", "b"]),
        (["</seg><seg>a</seg></seg>"], ["a"]),
        (["<seg>a <segment> b</seg>"], ["a <segment> b"]),
        (["<seg>&#xD800; &#" + "9" * 5000 + "; &#1114112;</seg>"], None),
    ],
)
def test_odd_sgm(lines, found):
    texts = list(sgm_segments(lines, "f.sgm"))
    "".join(texts).encode()
    assert found is None or texts == found


def test_a_run_of_spaces_takes_linear_time():
    def read(text):
        assert list(sgm_segments([f"<seg>{text}</seg>"], "f")) == [text]

    assert_grows_gently(lambda n: f"a{' ' * n}b", read, 10**5)


UNIT = (
    b"<tu><tuv lang='en'><seg>%s</seg></tuv><tuv lang='de'><seg>b</seg></tuv><tuv/><tuv lang='en'>"
    b"<seg>no</seg></tuv></tu>"
)


def test_a_segment_nested_3000_deep_is_read():
    nested = b"<hi>" * 3000 + b"a" + b"</hi>" * 3000
    assert tmx_of(b"<tmx><body>" + UNIT % nested + b"</body></tmx>") == [("a", "b")]


def test_nesting_without_end_is_named():
    with pytest.raises(
        DataError, match=r"f\.tmx, after line 0: elements nested more than 10,000 deep"
    ):
        tmx_of(b"<tmx>\n" + b"<a>" * 10**6)


@pytest.mark.parametrize("start", [b"<!-- ", b"<tu a='", b"<?pi ", b"<", b"<!DOCTYPE a [\n"])
def test_markup_that_never_ends_is_named_in_linear_time(start):
    def read(contents):
        with pytest.raises(DataError, match=r"f\.tmx, .*1,048,576 bytes|not well"):
            tmx_of(contents)

    before = b"" if b"DOCTYPE" in start else b"<tmx>\n"
    read(before + start + b"x\n" * 5_000_000)
    assert_grows_gently(lambda n: before + start + b"x\n" * n, read, 50_000)


def test_a_segment_that_never_ends_is_named(monkeypatch):
    monkeypatch.setattr(xml_files, "MAX_SEGMENT", 2**20)
    with pytest.raises(DataError, match="a segment of more than 1,048,576 characters"):
        tmx_of(b"<tmx><body><tu><tuv lang='en'><seg>" + b"x\n" * 2_000_000)


def test_entities_that_multiply_are_refused():
    entities = [b'<!ENTITY e0 "aaaaaaaaaa">']
    entities += [b'<!ENTITY e%d "%s">' % (i, b"&e%d;" % (i - 1) * 10) for i in range(1, 12)]
    head = b"<!DOCTYPE tmx [" + b"".join(entities) + b"]>"
    with pytest.raises(DataError, match=r"not well-formed XML .*amplification"):
        tmx_of(head + b"<tmx><body>" + UNIT % b"&e11;" + b"</body></tmx>")


@pytest.mark.parametrize("encoding", ["klingon", "shift_jis", "utf-7"])
def test_an_encoding_that_cannot_be_read_is_named(encoding):
    with pytest.raises(DataError, match=r"f\.tmx, line 1: not well-formed XML \(.*encoding"):
        tmx_of(f'<?xml version="1.0" encoding="{encoding}"?><tmx/>'.encode())


@pytest.mark.integration
def test_a_file_on_one_line_is_read_in_memory_that_does_not_grow():
    contents = b"<tmx><body>" + UNIT % b"a" * 10_000 + b"</body></tmx>"
    opened = contextlib.nullcontext(io.BufferedReader(io.BytesIO(contents)))
    tracemalloc.start()
    count = sum(1 for _ in tmx_pairs(raw_pieces(opened, "f"), "f", ("en", "de")))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 2**21


def test_units_before_the_fault_are_used():
    good = UNIT % b"a"
    bad = BadInput(skip=True)
    contents = b"<tmx><body>" + good * 3 + b"<a>" * 20_000
    assert tmx_of(contents, bad) == [("a", "b")] * 3
    assert bad.cuts == 1
