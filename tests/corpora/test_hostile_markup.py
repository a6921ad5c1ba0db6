"""Endless or endlessly nested markup raises an error with its place, in linear time and memory."""

import contextlib
import io
import time
import tracemalloc

import pytest

from t2t_lite.corpora import segments
from t2t_lite.corpora.segments import sgm_segments, tmx_pairs
from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import UNREADABLE, BadInput
from t2t_lite.text.text_files import raw_pieces


@contextlib.contextmanager
def within(seconds: float):
    start = time.thread_time()
    yield
    assert time.thread_time() - start < seconds


def tmx(contents: bytes, bad: BadInput | None = None) -> list[tuple[str, str]]:
    opened = contextlib.nullcontext(io.BufferedReader(io.BytesIO(contents)))
    pieces = raw_pieces(opened, "f.tmx")
    return list(tmx_pairs(pieces, "f.tmx", ("en", "de"), bad or BadInput()))


# ---- SGM


@pytest.mark.parametrize(
    "lines",
    [
        ["<seg>open", *["x" * 50] * 100_000],
        ["<seg " + "x" * 10**6, *["x" * 50] * 50_000],
        ["<seg>" + "</seg " * 10_000] * 10 + ["<seg>"],
    ],
)
def test_an_unclosed_segment_is_found_in_linear_time(lines):
    with within(5), pytest.raises(DataError, match=r"f\.sgm, line \d+: <seg> without </seg>"):
        list(sgm_segments(lines, "f.sgm"))


def test_many_unclosed_segments_keep_their_places():
    with within(5):
        found = list(sgm_segments(["<seg>a"] * 50_000 + ["</seg>"], "f.sgm", BadInput(skip=True)))
    assert found == [UNREADABLE] * 49_999 + ["a"]


def test_an_endless_segment_is_held_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(segments, "_MAX_SEGMENT", 1000)
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
    with within(2):
        assert list(sgm_segments(["<seg>a" + " " * 10**6 + "b</seg>"], "f")) == [
            "a" + " " * 10**6 + "b"
        ]


# ---- TMX

UNIT = (
    b"<tu><tuv lang='en'><seg>%s</seg></tuv><tuv lang='de'><seg>b</seg></tuv><tuv/><tuv lang='en'>"
    b"<seg>no</seg></tuv></tu>"
)


def test_a_segment_nested_3000_deep_is_read():
    nested = b"<hi>" * 3000 + b"a" + b"</hi>" * 3000
    assert tmx(b"<tmx><body>" + UNIT % nested + b"</body></tmx>") == [("a", "b")]


def test_nesting_without_end_is_named():
    with pytest.raises(
        DataError, match=r"f\.tmx, after line 0: elements nested more than 10,000 deep"
    ):
        tmx(b"<tmx>\n" + b"<a>" * 10**6)


@pytest.mark.parametrize("start", [b"<!-- ", b"<tu a='", b"<?pi ", b"<", b"<!DOCTYPE a [\n"])
def test_markup_that_never_ends_is_named_in_linear_time(start):
    with within(5), pytest.raises(DataError, match=r"f\.tmx, .*1,048,576 bytes|not well"):
        tmx(b"<tmx>\n"[: 0 if b"DOCTYPE" in start else None] + start + b"x\n" * 5_000_000)


def test_a_segment_that_never_ends_is_named(monkeypatch):
    monkeypatch.setattr(segments, "_MAX_SEGMENT", 2**20)
    with within(5), pytest.raises(DataError, match="a segment of more than 1,048,576 characters"):
        tmx(b"<tmx><body><tu><tuv lang='en'><seg>" + b"x\n" * 2_000_000)


def test_entities_that_multiply_are_refused():
    entities = [b'<!ENTITY e0 "aaaaaaaaaa">']
    entities += [b'<!ENTITY e%d "%s">' % (i, b"&e%d;" % (i - 1) * 10) for i in range(1, 12)]
    head = b"<!DOCTYPE tmx [" + b"".join(entities) + b"]>"
    with within(5), pytest.raises(DataError, match=r"not well-formed XML .*amplification"):
        tmx(head + b"<tmx><body>" + UNIT % b"&e11;" + b"</body></tmx>")


@pytest.mark.parametrize("encoding", ["klingon", "shift_jis", "utf-7"])
def test_an_encoding_that_cannot_be_read_is_named(encoding):
    with pytest.raises(DataError, match=r"f\.tmx, line 1: not well-formed XML \(.*encoding"):
        tmx(f'<?xml version="1.0" encoding="{encoding}"?><tmx/>'.encode())


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
    assert tmx(contents, bad) == [("a", "b")] * 3
    assert bad.cuts == 1
