"""Members of archives are read back line by line; errors name archive, member and line."""

import bz2
import functools
import gzip
import io
import os
import struct
import tarfile
import tracemalloc
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.archives import write_archive
from t2t_lite.data.corpora.archives import (
    iterate_member_lines,
    iterate_members,
    members,
    open_member,
)
from t2t_lite.errors import DataError, UserError
from t2t_lite.text import text_files
from t2t_lite.text.bad_input import BadInput

ARCHIVES = ["a.tar", "a.tgz", "a.tar.gz", "a.tar.bz2", "a.zip"]
LINES = ["first", "", "a\u2028b\u0085c\x0bd\re", "last"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_member_is_read_wherever_it_lies_and_twice_side_by_side(tmp_path, name):
    path = write_archive(tmp_path / name, {"x/a": TEXT, "x/b": b"other\n", "x/c": TEXT[::-1]})
    both = zip(iterate_member_lines(path, "x/a"), iterate_member_lines(path, "x/a"), strict=True)
    assert list(both) == [(line, line) for line in LINES]
    assert list(iterate_member_lines(path, "x/b")) == ["other"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_hard_link_is_read_as_the_member_that_it_names(tmp_path):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        for name, kind, target in [("./x/a", tarfile.REGTYPE, ""), ("x/b", tarfile.LNKTYPE, "x/a")]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, 0 if target else len(TEXT)
            archive.addfile(info, io.BytesIO(TEXT))
    assert list(iterate_member_lines(tmp_path / "a.tgz", "x/b")) == LINES
    found = [(name, list(lines)) for name, lines in iterate_members(tmp_path / "a.tgz", ("a", "b"))]
    assert [lines for _, lines in found] == [LINES, LINES]


def test_a_hard_link_to_nothing_is_an_error(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("b")
        info.type, info.linkname = tarfile.LNKTYPE, "a"
        archive.addfile(info)
    with pytest.raises(DataError, match=r"a\.tar:b.*a hard link to a, which is missing"):
        list(iterate_member_lines(tmp_path / "a.tar", "b"))


@pytest.mark.integration
@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"))))
@settings(max_examples=30, deadline=None)
def test_lines_survive_a_round_trip(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("archive")
    contents = b"".join(line.encode() + b"\n" for line in lines)
    if lines and lines[0].startswith("\ufeff"):
        lines[0] = lines[0][1:]
    for name in ("a.tgz", "a.zip"):
        path = write_archive(folder / name, {"before": b"\xff" * 600, "text": contents})
        assert list(iterate_member_lines(path, "text")) == lines


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize(("member", "compress"), [("t.gz", gzip.compress), ("t.bz2", bz2.compress)])
def test_a_compressed_member_is_decompressed(tmp_path, name, member, compress):
    path = write_archive(tmp_path / name, {member: compress(TEXT), "z": b""})
    assert list(iterate_member_lines(path, member)) == LINES
    assert list(iterate_member_lines(path, "z")) == []


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("read", [io.BufferedReader.read, io.BufferedReader.read1])
def test_a_member_may_be_read_in_pieces_of_any_size(tmp_path, name, read):
    contents = os.urandom(2**18)
    path = write_archive(tmp_path / name, {"a": contents, "b": contents})
    for size in (2**16, 2**17, 2**20):
        with open_member(path, "b") as file:
            assert b"".join(iter(functools.partial(read, file, size), b"")) == contents


@pytest.mark.parametrize("name", ARCHIVES)
def test_long_compressed_members_are_read_one_after_the_other(tmp_path, name):
    text = os.urandom(2**18).hex("\n", 64).encode()
    path = write_archive(
        tmp_path / name, {"a.gz": gzip.compress(text), "b.bz2": bz2.compress(text)}
    )
    for _, lines in iterate_members(path, (".gz", ".bz2")):
        assert list(lines) == text.decode().split("\n")


def test_names_in_a_tar_may_begin_with_a_dot(tmp_path):
    path = write_archive(tmp_path / "a.tgz", {"./x/a": TEXT})
    assert list(iterate_member_lines(path, "x/a")) == LINES


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_missing_member_is_an_error_with_the_nearest_name(tmp_path, name):
    path = write_archive(tmp_path / name, {"training/nc-v9.de-en.de": b"", "README": b""})
    expected = (
        rf"{path}: none of its 2 members is 'nc-v9.de-en.de'; "
        "did you mean 'training/nc-v9.de-en.de'"
    )
    with pytest.raises(DataError, match=expected):
        list(iterate_member_lines(path, "nc-v9.de-en.de"))


def test_a_folder_is_not_text(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        folder = tarfile.TarInfo("x")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    with pytest.raises(DataError, match="none of its 0 members is 'x'"):
        list(iterate_member_lines(path, "x"))


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_cut_anywhere_is_an_error_that_names_archive_and_member(tmp_path, name):
    contents = "".join(f"line {i}, {i * i % 8191}\n" for i in range(3000)).encode()
    whole = write_archive(tmp_path / name, {"text": contents}).read_bytes()
    # The trailer of a tar file, and of a compressed one, may be missing: the member is whole.
    within = (
        len(whole) if name == "a.zip" else len(contents) if name == "a.tar" else len(whole) - 200
    )
    path = tmp_path / f"cut-{name}"
    for size in (0, 1, 100, 300, within // 2, within - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(
            DataError, match=rf"{path}:text, after line \d+: damaged or truncated \(.+\)"
        ) as caught:
            list(iterate_member_lines(path, "text"))
        assert "\n" not in str(caught.value)


def test_wrong_bytes_in_a_member_are_an_error(tmp_path):
    damaged = bytearray(write_archive(tmp_path / "a.zip", {"text": TEXT * 100}).read_bytes())
    damaged[60] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(damaged)
    with pytest.raises(DataError, match=r"a\.zip:text, after line \d+: damaged or truncated"):
        list(iterate_member_lines(tmp_path / "a.zip", "text"))


@pytest.mark.parametrize("contents", [b"", gzip.compress(TEXT, mtime=0)[:-9]])
def test_a_cut_gzip_inside_an_archive_is_an_error(tmp_path, contents):
    path = write_archive(tmp_path / "a.tar", {"t.gz": contents})
    with pytest.raises(DataError, match=r"a\.tar:t\.gz, after line \d+: damaged or truncated"):
        list(iterate_member_lines(path, "t.gz"))


def test_undecodable_bytes_are_named_by_archive_member_and_line(tmp_path):
    path = write_archive(tmp_path / "a.tgz", {"text": b"good\nf\xfcr\n"})
    with pytest.raises(DataError, match=r"a\.tgz:text, line 2: byte 0xfc at column 2 is not UTF-8"):
        list(iterate_member_lines(path, "text"))


def test_a_byte_order_mark_is_dropped(tmp_path):
    path = write_archive(tmp_path / "a.zip", {"text": b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"})
    assert list(iterate_member_lines(path, "text")) == ["a", "\ufeffb"]


def test_a_missing_file_or_one_that_is_not_an_archive_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"absent\.tgz:x: no such file"):
        list(iterate_member_lines(tmp_path / "absent.tgz", "x"))
    with pytest.raises(DataError, match=r"a\.rar: not the name of an archive"):
        list(iterate_member_lines(tmp_path / "a.rar", "x"))


def test_reading_is_lazy_and_leaves_no_file_open(tmp_path):
    path = write_archive(tmp_path / "a.tgz", {"text": b"first\n\xff\n"})
    lines = iterate_member_lines(path, "text")
    assert next(lines) == "first"
    assert str(path) in open_files()
    lines.close()
    assert str(path) not in open_files()


def open_files() -> set[str]:
    return {os.path.realpath(link) for link in os.scandir("/proc/self/fd")}


@pytest.mark.parametrize("stored", ["./x/a", "x\\a", "x//a", ".\\x\\a"])
def test_a_zip_archives_names_are_paths(tmp_path, stored):
    path = write_archive(tmp_path / "a.zip", {"x/": b"", stored: TEXT})
    assert list(iterate_member_lines(path, "x/a")) == LINES
    assert members(path) == ["x/a"]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.zip"])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "zip"])
def test_the_contents_of_an_archive_say_how_it_is_compressed(tmp_path, name, mode):
    path = tmp_path / name
    if mode == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("x.txt", "one\ntwo\n")
    elif mode == "w" and name == "a.zip":
        pytest.skip("a plain tar has no first bytes of its own")
    else:
        with tarfile.open(path, mode) as packed:
            info = tarfile.TarInfo("x.txt")
            info.size = 8
            packed.addfile(info, io.BytesIO(b"one\ntwo\n"))
    assert list(iterate_member_lines(path, "x.txt")) == ["one", "two"]


def tar(path, members, kind="w:"):
    with tarfile.open(path, kind) as archive:
        for name, contents, type_ in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(contents), type_
            archive.addfile(info, io.BytesIO(contents))
    return path


def zipped(contents: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", contents)
    return file.getvalue()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.txt", bytes), ("a.gz", gzip.compress), ("a.bz2", bz2.compress), ("a.zip", zipped)],
)
@pytest.mark.parametrize("skip", [False, True])
def test_a_file_without_line_ends_is_named_in_bounded_memory(
    tmp_path, monkeypatch, name, compress, skip
):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 2**18)
    path = tmp_path / name
    path.write_bytes(compress(b"1\n2\n" + bytes(2**25)))
    shown = f"{path}:a" if name == "a.zip" else f"{path}"
    lines = (
        iterate_member_lines(path, "a", BadInput(skip))
        if name == "a.zip"
        else text_files.iterate_lines(path, BadInput(skip))
    )
    assert [next(lines), next(lines)] == ["1", "2"]
    tracemalloc.start()
    with pytest.raises(DataError, match=f"^{shown}, line 3: longer than 262,144 bytes; expected"):
        next(lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23


def test_an_encrypted_member_is_named(tmp_path):
    path = tmp_path / "a.zip"
    contents = bytearray(zipped(b"text\n"))
    directory = contents.index(b"PK\x01\x02")
    for flags in (6, directory + 8):
        contents[flags] |= 1
    path.write_bytes(contents)
    for skip in (False, True):
        with pytest.raises(DataError, match=rf"^{path}:a: encrypted; repack the archive without"):
            list(iterate_member_lines(path, "a", BadInput(skip)))
        with pytest.raises(DataError, match=rf"^{path}:a: encrypted"):
            [list(lines) for _, lines in iterate_members(path, ("a",), BadInput(skip))]


def test_an_unknown_method_is_named(tmp_path):
    path = tmp_path / "a.zip"
    contents = bytearray(zipped(b"text\n"))
    directory = contents.index(b"PK\x01\x02")
    for method in (8, directory + 10):
        struct.pack_into("<H", contents, method, 93)
    path.write_bytes(contents)
    with pytest.raises(
        DataError,
        match=r"a\.zip:a: compressed with method 93; repack the archive with one of stored, "
        "deflate, bzip2, lzma",
    ):
        list(iterate_member_lines(path, "a"))


def test_a_name_in_a_zip_that_is_not_utf_8_is_an_error(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ü", b"")
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xff\xff"))
    with pytest.raises(DataError, match=r"a\.zip:a, after line 0: damaged or truncated"):
        list(iterate_member_lines(path, "a"))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("before", [[], [("b", b"text\n", tarfile.REGTYPE)]])
def test_a_large_header_of_an_archive_is_not_read_into_memory(tmp_path, kind, before):
    path = tar(tmp_path / "a.tgz", [*before, ("x", bytes(2**25), kind)], "w:gz")
    tracemalloc.start()
    expected = r"the header of a member has 33,554,432 bytes; at most 32,768 are expected"
    with pytest.raises(DataError, match=rf"damaged or truncated \({expected}\)"):
        list(iterate_member_lines(path, "a"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23


def test_headers_that_follow_each_other_without_end_do_not_overflow(tmp_path):
    path = tar(tmp_path / "a.tar", [("x", b"name\0", tarfile.GNUTYPE_LONGNAME)] * 2000)
    with pytest.raises(DataError, match=r"a\.tar:a, after line 0: damaged or truncated"):
        list(iterate_member_lines(path, "a"))


def test_invalid_numbers_of_a_sparse_member_are_an_error(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        info.size = 512
        archive.addfile(info, io.BytesIO(b"many\n" + bytes(507)))
    with pytest.raises(DataError, match=r"a\.tar:a, after line 0: damaged or truncated"):
        list(iterate_member_lines(path, "a"))
