import itertools
import os
import types

import pytest

from t2t_lite.decoding import input_lines
from t2t_lite.decoding import input_lines as decoder_lines
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.input_lines import InputLine, InputLines
from t2t_lite.errors import DataError


def write(path, text: bytes) -> str:
    path.write_bytes(text)
    return str(path)


@pytest.fixture
def pipe(monkeypatch):
    """Makes standard input a pipe; returns the descriptor to write into."""
    read, write = os.pipe()
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(fileno=lambda: read))
    yield write
    os.close(read)


def sizes(rows: InputLines) -> list[int]:
    return [len(window) for window in rows.windows()]


def test_windows_grow_up_to_a_bound_and_hold_every_line(tmp_path):
    path = write(tmp_path / "in", b"".join(b"%d\n" % i for i in range(20_000)))
    rows = InputLines(DecoderConfig(decode_from_file=path))
    assert rows.count() == 20_000
    assert sizes(rows)[:3] == [16, 32, 64]
    assert max(sizes(rows)) == 4096
    assert list(itertools.chain(*rows.windows())) == [InputLine(str(i)) for i in range(20_000)]
    assert list(itertools.chain(*rows.windows()))[-1] == InputLine("19999")


def test_standard_input_is_not_waited_for(pipe):
    windows = InputLines(DecoderConfig(decode_from_file="-")).windows()
    os.write(pipe, b"eins\nzw")
    assert next(windows) == [InputLine("eins")]
    os.write(pipe, "\xf6lf\u2028\r\n\n".encode())
    assert next(windows) == [InputLine("zw\xf6lf\u2028\r"), InputLine("")]
    os.write(pipe, b"no end")
    os.close(pipe)
    assert next(windows) == [InputLine("no end")]
    assert next(windows, None) is None


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_of_standard_input_arrive_in_any_parts(pipe, monkeypatch, size):
    monkeypatch.setattr(input_lines, "_BYTES", size)
    os.write(pipe, b"\n\none long line\nb\n\nthe last one")
    os.close(pipe)
    rows = [
        InputLine(""),
        InputLine(""),
        InputLine("one long line"),
        InputLine("b"),
        InputLine(""),
        InputLine("the last one"),
    ]
    assert list(InputLines(DecoderConfig(decode_from_file="-"))) == rows


def test_only_the_line_that_has_begun_is_measured(pipe, monkeypatch):
    monkeypatch.setattr(input_lines, "_BYTES", 4)
    monkeypatch.setattr(input_lines, "MAX_LINE_BYTES", 8)
    os.write(pipe, b"abcde\n" * 10 + b"abcdefghi")
    os.close(pipe)
    rows = iter(InputLines(DecoderConfig(decode_from_file="-")))
    assert list(itertools.islice(rows, 10)) == [InputLine("abcde")] * 10
    with pytest.raises(DataError, match="standard input, line 11"):
        next(rows)


def test_bytes_other_than_text_on_standard_input_are_named(pipe):
    os.write(pipe, b"fine\n\xff\n")
    os.close(pipe)
    with pytest.raises(DataError, match="standard input, line 2: byte 0xff"):
        list(InputLines(DecoderConfig(decode_from_file="-")).windows())


@pytest.mark.parametrize("name", ["prefix_file", "score_file"])
def test_what_stands_beside_the_lines(tmp_path, name):
    source = write(tmp_path / "in", b"a\n\nc\n")
    beside = write(tmp_path / "beside", b"x\ny\tz\n\n")
    rows = InputLines(DecoderConfig(decode_from_file=source, **{name: beside}))
    assert rows.count() == 3
    assert list(rows) == [InputLine("a", "x"), InputLine("", "y\tz"), InputLine("c", "")]
    write(tmp_path / "beside", b"x\ny\n")
    with pytest.raises(DataError, match=r"in has 3 lines but .*beside has 2: they must pair"):
        rows.count()


@pytest.mark.parametrize("prefixes", [b"x\n", b"x\ny\nz\n"])
def test_standard_input_pairs_line_by_line_too(pipe, tmp_path, prefixes):
    os.write(pipe, b"a\nb\n")
    os.close(pipe)
    path = write(tmp_path / "prefixes", prefixes)
    with pytest.raises(DataError, match=r", line [23] has no line to pair with"):
        list(InputLines(DecoderConfig(decode_from_file="-", prefix_file=path)))


def test_source_and_target_in_one_line_as_in_t2t(tmp_path):
    path = write(tmp_path / "pairs", b"a b\tc\td\n\t\n")
    rows = InputLines(DecoderConfig(score_file=path))
    assert list(rows) == [InputLine("a b", "c\td"), InputLine("", "")]
    labelled = InputLines(DecoderConfig(score_file=path), has_labels=True)
    assert list(labelled) == [InputLine("a b\tc", "d"), InputLine("", "")]
    write(tmp_path / "pairs", b"a\tb\nonly\n")
    with pytest.raises(DataError, match=r"pairs, line 2: no tab between source and target"):
        list(rows)


def test_a_pipe_that_is_named_like_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    rows = InputLines(DecoderConfig(decode_from_file=str(tmp_path / "fifo")))
    with pytest.raises(DataError, match=r"fifo is not a regular file: .*--decode_from_file=-"):
        rows.count()


def test_standard_input_without_line_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(decoder_lines, "MAX_LINE_BYTES", 100)
    read, write = os.pipe()
    with open(write, "wb") as file:
        file.write(b"1\n2\n" + bytes(200))
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(fileno=lambda: read))
    found = iter(decoder_lines._StandardInput())
    assert [next(found), next(found)] == [b"1\n", b"2\n"]
    with pytest.raises(DataError, match="standard input, line 3: longer than"):
        next(found)
    os.close(read)
