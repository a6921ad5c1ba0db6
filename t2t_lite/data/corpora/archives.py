"""Members of tar and zip archives and of Debian packages, read as a stream.

Nothing is unpacked to disk.
"""

import bz2
import contextlib
import functools
import gzip
import io
import os
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import IO, Any, BinaryIO, cast

from t2t_lite.data.corpora import debian_packages
from t2t_lite.errors import DataError, UserError, did_you_mean
from t2t_lite.text.bad_input import STRICT, BadInput
from t2t_lite.text.text_files import DAMAGE, decoded_lines, decompressed, handle_damage, raw_lines

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2")
_PACKAGE = ".deb"
# Opens an archive by its first bytes: names often say something else.
_COMPRESSED: Mapping[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
_ZIP = b"PK\x03\x04"
# Bytes per read; each read calls tarfile's reader, which is in Python. If an archive is truncated,
# the incomplete last buffer is lost. Also the longest member header: tarfile would read a gigabyte
# of headers at once, and its regular expressions take time quadratic in their size.
_BUFFER = 1 << 15

_ZIP_METHODS = {
    zipfile.ZIP_STORED: "stored",
    zipfile.ZIP_DEFLATED: "deflate",
    zipfile.ZIP_BZIP2: "bzip2",
    zipfile.ZIP_LZMA: "lzma",
}
_ENCRYPTED = 1  # bit of a zip member's flags

# The path of a member that is a file, without a leading "./", and a function that opens it.
_Member = tuple[str, Callable[[], IO[bytes] | None]]


def iterate_member_lines(
    path: str | os.PathLike[str], member: str, bad: BadInput = STRICT
) -> Iterator[str]:
    r"""Yields the lines of a member without their "\n", as `text_files.iterate_lines` does.

    Raises:
        UserError: the archive does not exist.
        DataError: the archive has no such member (the message suggests the closest one), the text
            is not UTF-8, or the archive is damaged or truncated; names archive, member and line.
    """
    name = member_name(path, member)
    return decoded_lines(raw_lines(open_member(path, member), name, bad), name, bad)


def iterate_members(
    path: str | os.PathLike[str], suffixes: tuple[str, ...], bad: BadInput = STRICT
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yields all members whose names have one of the suffixes, in the order of the archive.

    Args:
        path: an archive, as for `open_member`.
        suffixes: such as `(".txt", ".md")`.
        bad: as for `text_files.iterate_lines`; a truncated archive ends where it is cut.

    Yields:
        The member's name for messages, and its lines, to be read before the next member.

    Raises:
        UserError: the archive does not exist.
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


def members(path: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the files in an archive.

    Raises:
        UserError: the archive does not exist.
        DataError: it is damaged, or its name is not that of an archive.
    """
    archive = os.fspath(path)
    try:
        return [name for name, _ in _members(archive)]
    except FileNotFoundError:
        raise UserError(f"{archive}: no such file") from None
    except DAMAGE as error:
        raise DataError(f"{archive}: {error}") from error


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.endswith((*_TARS, _PACKAGE, ".zip"))


def member_name(path: str | os.PathLike[str], member: str) -> str:
    """Returns the name of a member in messages."""
    return f"{os.fspath(path)}:{member}"


@contextlib.contextmanager
def open_member(path: str | os.PathLike[str], member: str) -> Iterator[BinaryIO]:
    """Yields the bytes of a member, decompressed if its own name ends in `.gz` or `.bz2`.

    A tar archive is read from its start up to the member; to read two members in parallel, open
    it twice.

    Args:
        path: a `.tar`, `.tar.gz`, `.tgz`, `.tar.bz2`, `.deb` or `.zip` file.
        member: the path inside the archive, without a leading `./`.

    Raises:
        DataError: the archive has no such member, or `path` does not have an archive's suffix.
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
    """Yields the files of an archive, which stays open meanwhile."""
    if not is_archive(path):
        expected = ", ".join((*_TARS, _PACKAGE))
        raise DataError(f"{path}: not the name of an archive; expected {expected} or .zip")
    is_package = path.endswith(_PACKAGE)
    with open(path, "rb") as file:
        start = file.read(len(_ZIP))
    open_tar = next((f for magic, f in _COMPRESSED.items() if start.startswith(magic)), open)
    is_zip = start == _ZIP or (path.endswith(".zip") and open_tar is open)
    if is_package or not is_zip:
        with debian_packages.open_data(path) if is_package else open_tar(path, "rb") as file:
            reads = _TarReads(file)
            with tarfile.open(fileobj=reads, mode="r:") as tar:
                files: dict[str, tarfile.TarInfo] = {}
                for info in tar:
                    if is_package and tar.offset > debian_packages.MAX_UNPACKED:
                        raise tarfile.TarError(
                            f"its files have more than {debian_packages.MAX_UNPACKED:,} bytes"
                        )
                    name = posixpath.normpath(info.name)
                    if info.isreg():
                        files[name] = info
                    elif info.islnk():  # another name of an earlier member
                        target = posixpath.normpath(info.linkname)
                        if target not in files:
                            raise tarfile.TarError(f"a hard link to {target}, which is missing")
                        files[name] = files[target]
                    else:
                        continue
                    reads.of_headers = False  # the caller reads the member meanwhile
                    yield name, functools.partial(tar.extractfile, files[name])
                    reads.of_headers = True
    else:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                # Windows' own archives may have backslashes.
                name = posixpath.normpath(entry.filename.replace("\\", "/"))
                yield name, functools.partial(_open_zipped, archive, entry)


class _TarReads(io.RawIOBase):
    """The file object through which tarfile reads an archive.

    Attributes:
        of_headers: whether the next reads are headers, which are bounded, not member contents.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.of_headers = True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position; returns it, from the start."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Returns the position, from the start."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes; refuses a header of more than `_BUFFER`."""
        if self.of_headers and not 0 <= size <= _BUFFER:
            raise tarfile.TarError(
                f"the header of a member has {size:,} bytes; at most {_BUFFER:,} are expected"
            )
        return self._file.read(size)


def _open_zipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> IO[bytes]:
    """Opens a member of a zip archive.

    Raises:
        DataError: the member is encrypted or compressed with an unknown method.
    """
    name = member_name(archive.filename or "", entry.filename)
    if entry.flag_bits & _ENCRYPTED:
        raise DataError(f"{name}: encrypted; repack the archive without a password")
    if entry.compress_type not in _ZIP_METHODS:
        raise DataError(
            f"{name}: compressed with method {entry.compress_type}; repack the archive with "
            f"one of {', '.join(_ZIP_METHODS.values())}"
        )
    return archive.open(entry)


@contextlib.contextmanager
def _opened(open_it: Callable[[], IO[bytes] | None], member: str) -> Iterator[BinaryIO]:
    with contextlib.closing(cast(io.RawIOBase, open_it())) as file:
        yield decompressed(io.BufferedReader(file, _BUFFER), member)
