"""The files of a Debian package (`.deb`), read as a stream: nothing is unpacked to disk.

A package is an `ar` archive of three members: `debian-binary`, `control.tar.*` and `data.tar.*`,
the last of which holds the files (deb(5)). A header of `ar` has 60 bytes (ar(5)): name, time,
owner, group and mode, then at byte 48 the size in decimal digits and at byte 58 a mark.
"""

import contextlib
import gzip
import io
import lzma
import os
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

from t2t_lite.errors import DataError, quoted

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_HEADER = re.compile(rb"([ -~]{16})[ -~]{32}([0-9]{1,10}) *`\n")
_MOST_MEMBERS = 16  # a package has three
_FORMAT = re.compile(rb"2\.[0-9]+\n")
_READERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "data.tar.xz": lzma.open,
    "data.tar.gz": gzip.open,
}

# Bytes that a package may unpack to: eight times as many as LibreOffice's help has.
MAX_UNPACKED = 2**28


@contextlib.contextmanager
def open_data(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields the decompressed tar archive of a package's files.

    Raises:
        DataError: the file is not a Debian package, is truncated, or has its files in another form
            than `data.tar.xz` or `data.tar.gz`.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        name, start, size = _find_data(file, os.fspath(path))
        reader = _READERS.get(name)
        if reader is None:
            raise DataError(
                f"{os.fspath(path)}: its files are in {name!r}; expected "
                f"{' or '.join(map(repr, _READERS))}: repack it with dpkg-deb -R and "
                "dpkg-deb -Zxz -b"
            )
        with reader(io.BufferedReader(_Part(file, start, size))) as data:
            yield data


def _find_data(file: IO[bytes], path: str) -> tuple[str, int, int]:
    """Returns the name of the member `data.tar.*`, its position and its size."""
    names: list[str] = []
    for name, start, size in _members(file, path):
        if not names:
            file.seek(start)
            if name != "debian-binary" or not _FORMAT.fullmatch(file.read(min(size, 16))):
                raise DataError(
                    f"{path}: an ar archive, but not a Debian package of format 2: it does not "
                    "begin with the member 'debian-binary' and a version 2.x"
                )
        if name.startswith("data.tar"):
            return name, start, size
        names.append(name)
    has = ", ".join(map(quoted, names)) or "none"
    raise DataError(f"{path}: no member 'data.tar.xz' among its members: {has}")


def _members(file: IO[bytes], path: str) -> Iterator[tuple[str, int, int]]:
    """Yields name, position and size in bytes of each member of an `ar` archive."""
    end = file.seek(0, io.SEEK_END)
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise DataError(
            f"{path}: not a Debian package: it does not begin with {_MAGIC.decode()!r}; download "
            "it again"
        )
    position = len(_MAGIC)
    for _ in range(_MOST_MEMBERS):
        if position >= end:
            return
        file.seek(position)
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            raise DataError(f"{path}: truncated at byte {end:,}, in a header; download it again")
        match = _HEADER.fullmatch(header)
        if not match:
            raise DataError(
                f"{path}: the header of a member at byte {position:,} is damaged "
                f"({quoted(header)}); download it again"
            )
        name, size = match[1].decode("ascii").rstrip().removesuffix("/"), int(match[2])
        start = position + _HEADER_BYTES
        if size > end - start:
            raise DataError(
                f"{path}: truncated: the member {name!r} has {size:,} bytes, of which "
                f"{end - start:,} are there; download it again"
            )
        yield name, start, size
        position = start + size + size % 2  # members begin at even positions
    if position < end:
        raise DataError(f"{path}: more than {_MOST_MEMBERS} members; a Debian package has three")


class _Part(io.RawIOBase):
    """A range of an open file, as a file.

    Args:
        file: the whole.
        start: position of the first byte.
        size: number of bytes.
    """

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True: archives are skipped through, and hard links lead back."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position; returns it, from the start of the range."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Reads up to the end of the range; returns the number of bytes."""
        count = max(0, min(len(buffer), self._size - self._position))
        self._file.seek(self._start + self._position)
        data = self._file.read(count)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
