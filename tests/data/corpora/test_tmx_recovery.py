"""A unit of a translation memory that is not well-formed is skipped; the others are read."""

import codecs

import pytest

from t2t_lite.data.corpora import tmx_recovery
from t2t_lite.data.corpora.xml_files import tmx_pairs
from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import BadInput

HEAD = '<?xml version="1.0" encoding="{}"?>\n<tmx version="1.4">\n<header srclang="cy"/>\n<body>\n'
END = "</body>\n</tmx>\n"


def unit(one: str, other: str = "") -> str:
    variants = f'<tuv xml:lang="cy"><seg>{one}</seg></tuv><tuv xml:lang="ga"><seg>{other or one}'
    return f"<tu>\n  {variants}</seg></tuv>\n</tu>\n"


def read(contents: bytes, piece: int = 10**6) -> tuple[list[str], BadInput]:
    bad = BadInput(skip=True)
    pieces = [contents[start : start + piece] for start in range(0, len(contents), piece)]
    return [source for source, _ in tmx_pairs(pieces, "m.tmx", ("cy", "ga"), bad)], bad


@pytest.mark.parametrize("piece", [1, 7, 10**6])
@pytest.mark.parametrize(
    "broken",
    [
        unit("te \udcff"),  # a byte that is not UTF-8
        unit("\x0bte"),
        unit("te & coffi"),
        unit("te &nbsp; coffi"),
        unit("te &#2; coffi"),
        unit("3 < 4"),
        unit("<b>te"),
        unit("te").replace("</seg>", "", 1),
        unit("te").replace("</tuv>", "", 1),
        unit("te").replace("</tu>\n", ""),
        unit("te").replace('lang="cy"', 'lang="cy'),
        unit("te").replace("cy", 'cy" xml:lang="cy'),
        "<tu><tuv\n",
        unit("te").replace("<tu>", "<tu><!-- a -- b -->"),
    ],
)
def test_one_broken_unit_is_one_bad_line(broken, piece):
    text = HEAD.format("utf-8") + unit("un") + unit("dau") + broken + unit("tri") + unit("pedwar")
    found, bad = read((text + END).encode("utf-8", "surrogateescape"), piece)
    assert found == ["un", "dau", "tri", "pedwar"]
    assert (bad.skipped, bad.cuts) == (1, 0)


def test_each_broken_unit_is_counted_and_named_by_its_line(caplog):
    units = [unit("&"), unit("a"), unit("&"), unit("&"), unit("b"), unit("c").replace("</tu>", "")]
    found, bad = read(
        (HEAD.format("utf-8") + "".join(units) + unit("&") + unit("d") + END).encode()
    )
    assert found == ["a", "b", "d"]
    assert bad.skipped == 5
    places = [record.getMessage().partition(": not")[0] for record in caplog.records]
    lines = [6, 12, 15, 24, 24]  # the fourth lacks its end, which shows at the next error
    assert places == [f"skipped: m.tmx, line {line}" for line in lines]


@pytest.mark.parametrize("place", [0, 4])
def test_without_skipping_the_error_has_file_and_line(place):
    units = [unit(str(number)) for number in range(5)]
    units[place] = unit("R&D")
    contents = (HEAD.format("utf-8") + "".join(units) + END).encode()
    with pytest.raises(DataError, match=rf"m\.tmx, line {6 + 3 * place}: not well-formed XML"):
        list(tmx_pairs([contents], "m.tmx", ("cy", "ga")))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "iso-8859-1"])
def test_other_encodings(encoding):
    declared = encoding.removesuffix("-le").removesuffix("-be")
    mark = {"le": codecs.BOM_UTF16_LE, "be": codecs.BOM_UTF16_BE}.get(encoding[-2:], b"")
    text = HEAD.format(declared) + unit("tâ") + unit("a & b") + unit("ê") + END
    found, bad = read(mark + text.encode(encoding), 5)
    assert found == ["tâ", "ê"]
    assert bad.skipped == 1


def test_an_error_before_the_units_is_counted_and_all_units_are_read():
    head = HEAD.format("utf-8").replace("<header", '<header o-tmf="A & B"')
    found, bad = read((head + unit("â") + unit("b") + END).encode())
    assert found == ["â", "b"]
    assert bad.skipped == 1


def test_text_that_only_looks_like_a_unit_stays_text():
    inner = "<![CDATA[x <tu> y]]>"
    text = HEAD.format("utf-8") + unit(inner) + f"<!-- {unit('old')} -->" + unit("b") + END
    found, bad = read(text.encode())
    assert found == ["x <tu> y", "b"]
    assert bad.skipped == 0


@pytest.mark.parametrize("rest", ["", "<tu><tuv"])
def test_a_file_that_ends_early_is_cut_once(rest):
    found, bad = read((HEAD.format("utf-8") + unit("a & b") + unit("c") + rest).encode())
    assert found == ["c"]
    assert (bad.skipped, bad.cuts) == (2, 1)


def test_no_xml_at_all_is_one_bad_line():
    found, bad = read(b"\x00\x01 & no markup <<")
    assert found == []
    assert bad.skipped == 1


def test_a_long_broken_unit_is_skipped_in_parts(monkeypatch):
    monkeypatch.setattr(tmx_recovery, "_MAX_HELD", 100)
    text = HEAD.format("utf-8") + unit("a") + unit("& x" * 500) + unit("long " * 100) + unit("b")
    found, bad = read((text + END).encode(), 64)
    assert found == ["a", ("long " * 100).strip(), "b"]
    assert bad.skipped == 1
