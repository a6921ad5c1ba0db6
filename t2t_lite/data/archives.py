"""Members of tar and zip archives, read as they stream by: nothing is unpacked to disk."""

import contextlib
import functools
import io
import os
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from typing import IO, BinaryIO, Literal, cast

from t2t_lite.data.bad_input import STRICT, BadInput
from t2t_lite.data.text_files import DAMAGE, decoded_lines, decompressed, handle_damage, raw_lines
from t2t_lite.errors import DataError, UserError, did_you_mean

_TAR_MODES: dict[str, Literal["r:", "r:gz", "r:bz2"]] = {
    ".tar": "r:",
    ".tar.gz": "r:gz",
    ".tgz": "r:gz",
    ".tar.bz2": "r:bz2",
}
# Bytes read at a time; tarfile's own reader, in Python, is called once for each. Where an archive
# is cut, what was read of the last ones is lost.
_BUFFER = 1 << 16

# The path of a member that is a file, without a leading "./", and what opens it.
_Member = tuple[str, Callable[[], IO[bytes] | None]]


def iterate_member_lines(
    path: str | os.PathLike[str], member: str, bad: BadInput = STRICT
) -> Iterator[str]:
    r"""Yields the lines of a member without their "\n", as `text_files.iterate_lines` does.

    Raises:
        UserError: there is no such archive.
        DataError: the archive has no such member (names the nearest one), bytes are not UTF-8, or
            the archive is damaged or cut; names archive, member and line.
    """
    name = member_name(path, member)
    return decoded_lines(raw_lines(open_member(path, member), name, bad), name, bad)


def iterate_members(
    path: str | os.PathLike[str], suffixes: tuple[str, ...], bad: BadInput = STRICT
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yields all members whose names end so, in the order in which they lie in the archive.

    Args:
        path: an archive, as `open_member` takes it.
        suffixes: such as `(".txt", ".md")`.
        bad: as `text_files.iterate_lines` takes it; a cut archive ends at its cut.

    Yields:
        The name for messages, and the lines; they must be read before the next member is.

    Raises:
        UserError: there is no such archive.
        DataError: as `iterate_member_lines`.
    """
    archive = os.fspath(path)
    try:
        for member, open_it in _members(archive):
            if member.endswith(suffixes):
                name = member_name(archive, member)
                lines = raw_lines(_opened(open_it, member), name, bad)
                yield name, decoded_lines(lines, name, bad)
    except FileNotFoundError:
        raise UserError(f"{archive}: no such file") from None
    except DAMAGE as error:
        handle_damage(archive, error, bad)


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
    names = []
    with contextlib.closing(_members(archive)) as members:
        for name, open_it in members:
            if name == member:
                with _opened(open_it, member) as file:
                    yield file
                return
            names.append(name)
    raise DataError(
        f"{archive}: none of its {len(names)} members is {member!r}{did_you_mean(member, names)}"
    )


def _members(path: str) -> Generator[_Member, None, None]:
    """Yields the files of an archive, which stays open until then."""
    mode = next((m for suffix, m in _TAR_MODES.items() if path.endswith(suffix)), None)
    if mode is not None:
        with tarfile.open(path, mode) as tar:
            for info in tar:
                if info.isreg():
                    name = posixpath.normpath(info.name)
                    yield name, functools.partial(tar.extractfile, info)
    elif path.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, functools.partial(archive.open, name)
    else:
        raise DataError(
            f"{path}: not the name of an archive; expected {', '.join(_TAR_MODES)} or .zip"
        )


@contextlib.contextmanager
def _opened(open_it: Callable[[], IO[bytes] | None], member: str) -> Iterator[BinaryIO]:
    with contextlib.closing(cast(io.RawIOBase, open_it())) as file:
        yield decompressed(io.BufferedReader(file, _BUFFER), member)
