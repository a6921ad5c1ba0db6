"""Members of tar and zip archives, read as they stream by: nothing is unpacked to disk."""

import contextlib
import io
import os
import posixpath
import tarfile
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, Literal, cast

from t2t_lite.data.text_files import decoded_lines, decompressed, raw_lines
from t2t_lite.errors import DataError, did_you_mean

_TAR_MODES: dict[str, Literal["r:", "r:gz", "r:bz2"]] = {
    ".tar": "r:",
    ".tar.gz": "r:gz",
    ".tgz": "r:gz",
    ".tar.bz2": "r:bz2",
}
# Bytes read at a time; tarfile's own reader, in Python, is called once for each.
_BUFFER = 1 << 20


def iterate_member_lines(path: str | os.PathLike[str], member: str) -> Iterator[str]:
    r"""Yields the lines of a member without their "\n", as `text_files.iterate_lines` does.

    Raises:
        UserError: there is no such archive.
        DataError: the archive has no such member (names the nearest one), bytes are not UTF-8, or
            the archive is damaged or cut; names archive, member and line.
    """
    name = member_name(path, member)
    return decoded_lines(raw_lines(open_member(path, member), name), name)


def member_name(path: str | os.PathLike[str], member: str) -> str:
    """How messages call a member."""
    return f"{os.fspath(path)}:{member}"


@contextlib.contextmanager
def open_member(path: str | os.PathLike[str], member: str) -> Iterator[BinaryIO]:
    """Yields the bytes of a member, decompressed if its own name ends in `.gz` or `.bz2`.

    A tar archive is read from its start up to the member; two members may be read side by side by
    opening it twice.

    Args:
        path: a `.tar`, `.tar.gz`, `.tgz`, `.tar.bz2` or `.zip` file.
        member: the path inside the archive, without a leading `./`.

    Raises:
        DataError: the archive has no such member, or its name is not that of an archive.
    """
    archive = os.fspath(path)
    mode = next((m for suffix, m in _TAR_MODES.items() if archive.endswith(suffix)), None)
    if mode is not None:
        opened = _open_tar_member(archive, mode, member)
    elif archive.endswith(".zip"):
        opened = _open_zip_member(archive, member)
    else:
        raise DataError(
            f"{archive}: not the name of an archive; expected {', '.join(_TAR_MODES)} or .zip"
        )
    with opened as file:
        yield decompressed(file, member)


@contextlib.contextmanager
def _open_tar_member(
    path: str, mode: Literal["r:", "r:gz", "r:bz2"], member: str
) -> Iterator[io.BufferedReader]:
    names = []
    with tarfile.open(path, mode) as archive:
        for info in archive:
            names.append(posixpath.normpath(info.name))
            if names[-1] == member and info.isreg():
                file = archive.extractfile(info)
                assert file is not None  # it is a regular file
                yield io.BufferedReader(cast(io.RawIOBase, file), _BUFFER)
                return
    raise _missing(path, member, names)


@contextlib.contextmanager
def _open_zip_member(path: str, member: str) -> Iterator[io.BufferedReader]:
    with zipfile.ZipFile(path) as archive:
        if member not in archive.namelist():
            raise _missing(path, member, archive.namelist())
        with archive.open(member) as file:
            yield io.BufferedReader(cast(io.RawIOBase, file), _BUFFER)


def _missing(path: str, member: str, names: list[str]) -> DataError:
    return DataError(
        f"{path}: none of its {len(names)} members is {member!r}{did_you_mean(member, names)}"
    )
