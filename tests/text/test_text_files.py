"""Lines end only at a line feed; errors in damaged files name file and line."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import DataError, UserError
from t2t_lite.text import text_files
from t2t_lite.text.text_files import iterate_lines, read_lines


@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"))))
def test_written_lines_are_read_back(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    if lines and lines[0].startswith("\ufeff"):
        lines[0] = lines[0][1:]
    assert read_lines(path) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        ("a\u2028b\u0085c\x0b\x0cd\re\n".encode(), ["a\u2028b\u0085c\x0b\x0cd\re"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_lines(tmp_path, name, content, lines):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_lines(path) == lines


def test_undecodable_bytes_are_named_by_file_and_line(tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"good\nf\xfcr\n")
    with pytest.raises(DataError, match=r"latin1\.txt, line 2: byte 0xfc at column 2"):
        read_lines(path)


@pytest.mark.parametrize("size", [0, 1, 5, 40, 90])
def test_a_cut_gzip_file_is_an_error(tmp_path, size):
    whole = gzip.compress(bytes(range(32, 127)) * 3 + b"\n", mtime=0)
    assert size < len(whole)
    path = tmp_path / "text.gz"
    path.write_bytes(whole[:size])
    with pytest.raises(DataError, match=r"text\.gz, after line \d+: damaged or truncated"):
        read_lines(path)


def test_a_gzip_file_with_wrong_bytes_is_an_error(tmp_path):
    damaged = bytearray(gzip.compress(b"some text\n" * 50))
    damaged[20] ^= 0xFF
    path = tmp_path / "text.gz"
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"text\.gz, after line \d+: damaged or truncated"):
        read_lines(path)


def test_a_missing_file_or_a_folder_is_an_error(tmp_path):
    for path in (tmp_path / "nothing", tmp_path / "nothing.gz"):
        with pytest.raises(UserError, match=f"{path.name}: no such file"):
            read_lines(path)
    with pytest.raises(UserError, match=f"{tmp_path} is a folder: name a file"):
        read_lines(tmp_path)


def test_reading_is_lazy(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"first\n\xff\n")
    assert next(iterate_lines(path)) == "first"


@pytest.mark.parametrize(("compress", "suffix"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2")])
def test_a_compressed_file_of_another_name_is_named(tmp_path, compress, suffix):
    path = tmp_path / "text"
    path.write_bytes(compress(b"one\ntwo\n"))
    with pytest.raises(DataError, match=rf"text: compressed; rename it, .* ends in \{suffix}$"):
        read_lines(path)


def zipped() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("one.txt", "one")
    return written.getvalue()


def tarred() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("one.txt"))
    return written.getvalue()


@pytest.mark.parametrize("name", ["text", "text.xz"])
@pytest.mark.parametrize(
    ("contents", "program"),
    [
        (lzma.compress(b"one\n"), "xz -d"),
        (lzma.compress(b"one\n", lzma.FORMAT_ALONE), "unlzma"),
        (b"\x28\xb5\x2f\xfd\x04\x58\x19\x00\x00one\n", "zstd -d"),
        (b"\x1f\x9d\x90ab\n", "uncompress"),
        (zipped(), "unzip"),
        (tarred(), "tar -xf"),
    ],
)
def test_packed_files_that_are_not_read_name_the_program(tmp_path, name, contents, program):
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(DataError, match=rf"{name}: compressed or an archive; .* {program}$"):
        read_lines(path)


@pytest.mark.parametrize("name", ["text.gz", "text.bz2"])
@pytest.mark.parametrize("contents", [b"one line of text\n", lzma.compress(b"one\n")])
def test_a_plain_file_with_a_compressed_name_is_named(tmp_path, name, contents):
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(DataError, match=rf"{name}: does not start as .* rename it if it is text"):
        read_lines(path)


@pytest.mark.parametrize(
    "contents", [b"one\rtwo\r", b"one\rtwo", b"\ra\r\rb", b"one\rtwo\rthree\n", b"a\rb\rc\r\n"]
)
def test_cr_alone_ends_no_line(tmp_path, contents):
    path = tmp_path / "text"
    path.write_bytes(contents)
    with pytest.raises(DataError, match="text: its lines end in CR alone; convert it"):
        read_lines(path)


@pytest.mark.parametrize("contents", [b"one\r", b"one\rtwo\n", b"one\nt\rwo"])
def test_a_cr_may_be_in_a_line(tmp_path, contents):
    path = tmp_path / "text"
    path.write_bytes(contents)
    assert read_lines(path) == contents.decode().removesuffix("\n").split("\n")


def test_the_longest_line_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 10)
    (tmp_path / "a").write_bytes(b"123456789\n1234567890")
    assert text_files.read_lines(tmp_path / "a") == ["123456789", "1234567890"]
    (tmp_path / "a").write_bytes(b"1234567890\n")
    with pytest.raises(DataError, match="a, line 1: longer than 10 bytes"):
        text_files.read_lines(tmp_path / "a")
