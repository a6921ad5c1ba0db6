"""Debian packages are read as archives; damaged and hostile ones are refused by name."""

import contextlib
import io
import lzma
import tarfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.packages import ar_bytes, package_bytes, tar_bytes
from t2t_lite.data.corpora import debian_packages
from t2t_lite.data.corpora.archives import iterate_member_lines, iterate_members, members
from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import BadInput

FILES = {"usr/a.html": "first\nlast\n", "usr/b.txt": "other\n"}
VERSION = {"debian-binary": b"2.0\n"}
DATA = lzma.compress(tar_bytes(FILES))
PACKAGE = package_bytes(FILES)


def pages(path) -> list[list[str]]:
    return [list(lines) for _, lines in iterate_members(path, (".html",))]


@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_files_are_read_without_unpacking(tmp_path, compression):
    path = tmp_path / "a_1_all.deb"
    path.write_bytes(package_bytes(FILES, compression))
    assert members(path) == list(FILES)
    assert list(iterate_member_lines(path, "usr/b.txt")) == ["other"]
    found = {name: list(lines) for name, lines in iterate_members(path, (".html",))}
    assert found == {f"{path}:usr/a.html": ["first", "last"]}
    assert list(tmp_path.iterdir()) == [path]


def test_members_may_have_odd_sizes_and_names_that_end_in_a_slash(tmp_path):
    path = tmp_path / "a.deb"
    path.write_bytes(ar_bytes({"debian-binary/": b"2.0\n", "_odd": b"123", "data.tar.xz/": DATA}))
    assert members(path) == list(FILES)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", r"not a Debian package: it does not begin with '!<arch>\\n'"),
        (b"PK\x03\x04" + bytes(100), "not a Debian package"),
        (b"!<arch>\n", "no member 'data.tar.xz' among its members: none"),
        (ar_bytes(VERSION), "among its members: 'debian-binary'"),
        (ar_bytes({"x": b"2.0\n"}), "not a Debian package of format 2"),
        (ar_bytes({"debian-binary": b"1.0\n"}), "not a Debian package of format 2"),
        (ar_bytes(VERSION | {"data.tar.zst": b"x"}), r"its files are in 'data.tar.zst'; expected"),
        (ar_bytes(VERSION | {"data.tar": tar_bytes(FILES)}), "its files are in 'data.tar'"),
        (ar_bytes(VERSION) + b"data.tar.xz", "truncated at byte 83, in a header"),
        (PACKAGE[:-9], "truncated: the member 'data.tar.xz' has"),
        (ar_bytes(VERSION) + b"x" * 60, "header of a member at byte 72 is damaged"),
        (ar_bytes(VERSION | {str(i): b"" for i in range(20)}), "more than 16 members"),
        (ar_bytes(VERSION | {"data.tar.xz": DATA[:100]}), "damaged or truncated"),
        (ar_bytes(VERSION | {"data.tar.xz": b"not xz"}), "damaged or truncated"),
    ],
)
def test_damaged_packages_are_refused(tmp_path, contents, message):
    path = tmp_path / "a.deb"
    path.write_bytes(contents)
    with pytest.raises(DataError, match=message) as caught:
        pages(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("size", ["-1", "+5", "9999999999", "0x10", "", "1 2", "1_0", "\u0661"])
def test_sizes_are_decimal_and_within_the_file(tmp_path, size):
    header = f"{'data.tar.xz':16}{0:<32}{size:<10}`\n".encode()
    path = tmp_path / "a.deb"
    path.write_bytes(ar_bytes(VERSION) + header + bytes(100))
    with pytest.raises(DataError, match=r"truncated|damaged"):
        members(path)


def test_unpacked_size_is_bounded_before_anything_is_unpacked(tmp_path):
    info = tarfile.TarInfo("usr/a.html")
    info.size = debian_packages.MAX_UNPACKED
    path = tmp_path / "a.deb"
    path.write_bytes(ar_bytes(VERSION | {"data.tar.xz": lzma.compress(info.tobuf())}))
    with pytest.raises(DataError, match="files have more than 268,435,456 bytes"):
        list(iterate_members(path, (".html",), BadInput(skip=True)))


@pytest.mark.integration
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=12), st.booleans())
@example(8, b"\xff" * 12, False)
def test_any_changed_or_cut_package_is_read_or_refused(tmp_path_factory, position, change, cut):
    end = position if cut else position + len(change)
    path = tmp_path_factory.getbasetemp() / "changed.deb"
    path.write_bytes(PACKAGE[:position] + change + (b"" if cut else PACKAGE[end:]))
    with contextlib.suppress(DataError):
        assert pages(path) in ([["first", "last"]], [])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_after_the_mark_of_ar_are_read_or_refused(tmp_path_factory, rest):
    path = tmp_path_factory.getbasetemp() / "any.deb"
    path.write_bytes(b"!<arch>\n" + rest)
    with pytest.raises(DataError):
        members(path)


def test_a_part_of_a_file_is_read_as_a_file():
    part = debian_packages._Part(io.BytesIO(b"0123456789"), 2, 5)
    assert part.read() == b"23456"
    assert part.read() == b""
    assert (part.seek(-2, io.SEEK_END), part.read(9)) == (3, b"56")
    assert (part.seek(1), part.read(2), part.seek(1, io.SEEK_CUR), part.read()) == (
        *(1, b"34"),
        *(4, b"6"),
    )
