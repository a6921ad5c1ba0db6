"""Files are edited in their own charset, and all bytes outside the edits are their own."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import DataError
from t2t_lite.text.charsets import Charset, spliced

CHARSETS = [
    "utf-8",
    "latin-1",
    "cp932",
    "big5hkscs",
    "euc_jp",
    "gb18030",
    "euc_kr",
    "utf-16-le",
    "utf-16-be",
]
_BOMS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}


@given(st.sampled_from(CHARSETS), st.text("a\\\n\xe4\u8868\U0001f600"), st.data())
def test_edits_are_where_they_should_be(name, text, data):
    text = text.encode(name, "ignore").decode(name)
    bom = _BOMS.get(name, b"")
    contents = bom + text.encode(name)
    charset = Charset.of(contents, "utf-8" if bom else name)
    assert charset.decoded(contents) == text
    first, last = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    start, end = charset.places(contents, text, [first, last])
    assert contents[start:end] == text[first:last].encode(name)
    found = spliced(contents, [(start, end, charset.encoded("x"))])
    assert charset.edited(contents, text, [(first, last, "x")]) == found
    assert found == bom + (text[:first] + "x" + text[last:]).encode(name)


def test_characters_written_in_two_ways_keep_theirs():
    contents = b"\x81\xe6 \xfa\x5b \x87\x9a."
    charset = Charset.of(contents, "cp932")
    text = charset.decoded(contents)
    assert text.encode("cp932") != contents
    start, end = charset.places(contents, text, [text.index("."), len(text)])
    assert spliced(contents, [(start, end, b"!")]) == contents[:-1] + b"!"


def test_euc_jp_has_the_characters_of_windows():
    contents = b"\xad\xa1\xad\xdf\xad\xe2\xad\xea\xad\xf0\xad\xf8\xfc\xf1\xfc\xe2\xf9\xa1"
    text = "①㍻№㈱≒∟ⅰ髙纊"
    others = "~\\ 表ä〜ｱ"
    contents, text = contents + others.encode("euc_jp"), text + others
    charset = Charset.of(contents, "euc-jp")
    assert charset.decoded(contents) == text
    for place in range(len(text)):
        start, end = charset.places(contents, text, [place, place + 1])
        assert charset.decoded(contents[start:end]) == text[place]
    place = text.index("表")
    edited = charset.edited(contents, text, [(place, place + 1, "ä①")], "xmlcharrefreplace")
    assert edited == contents.replace("表".encode("euc_jp"), b"\x8f\xab\xa3&#9312;")


@pytest.mark.parametrize("damaged", [b"\xad", b"\xad\x20", b"\xa9\xa1", b"\xad\xbf", b"\xff\xa1"])
def test_what_no_browser_reads_in_euc_jp_is_an_error(damaged):
    with pytest.raises(DataError, match="not in EUC_JP"):
        Charset.of(damaged, "euc-jp").decoded(damaged)


def test_the_byte_order_mark_wins():
    contents = codecs.BOM_UTF8 + "ä".encode()
    charset = Charset.of(contents, "latin-1")
    assert charset.decoded(contents) == "ä"
    assert charset.encoded("ö") == "ö".encode()
    assert charset.places(contents, "ä", [0, 1]) == [3, 5]


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be"])
def test_utf_16_needs_no_byte_order_mark_before_a_tag(name):
    contents = "<p>Ж".encode(name)
    charset = Charset.of(contents)
    assert charset.decoded(contents) == "<p>Ж"
    assert charset.edited(contents, "<p>Ж", [(3, 4, "ä")]) == "<p>ä".encode(name)


def test_shifts_are_refused():
    contents = "\u8868\u8868".encode("iso2022_jp")
    charset = Charset.of(contents, "iso2022_jp")
    with pytest.raises(DataError, match="ISO2022_JP has shifts: convert it to UTF-8"):
        charset.places(contents, charset.decoded(contents), [1])


def test_what_is_not_in_a_charset_is_an_error():
    with pytest.raises(DataError, match=r"not in UTF-8 .*: convert it"):
        Charset.of(b"\xff").decoded(b"\xff")
    with pytest.raises(DataError, match="LATIN-1, lacks 'Ж' of a translation: convert the file"):
        Charset("latin-1").encoded("Ж")
    assert Charset("latin-1").encoded("Ж", "xmlcharrefreplace") == b"&#1046;"
