r"""Text files, line by line: UTF-8, plain or compressed; lines end only at "\n".

U+2028, U+0085 and similar characters do not end a line, so that parallel files stay aligned.
"""

import bz2
import codecs
import contextlib
import errno
import functools
import gzip
import io
import lzma
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, cast

from t2t_lite.errors import DataError, UserError, first_line
from t2t_lite.text.bad_input import STRICT, BadInput

# Bytes of the longest line, and of what is held of a file without line ends, even if compressed.
MAX_LINE_BYTES = 2**24

# How compressed files start.
_PACKED = {".gz": re.compile(rb"\x1f\x8b\x08"), ".bz2": re.compile(rb"BZh[1-9]1AY&SY")}
_START = 10  # bytes

# How files start that are not read as text whatever their names, and the programs that unpack them.
_UNREAD = {
    "xz -d": re.compile(rb"\xfd7zXZ\0"),
    "unlzma": re.compile(rb"\]\0\0"),
    "zstd -d": re.compile(rb"\x28\xb5\x2f\xfd"),
    "uncompress": re.compile(rb"\x1f\x9d"),
    "unzip": re.compile(rb"PK\x03\x04"),
    "tar -xf": re.compile(rb"(?s).{257}ustar"),
}

# Bytes of the longest piece of `raw_pieces`. Parsers rescan an unfinished tag at each piece.
_PIECE = 2**16

# What the readers of compressed files and archives raise if bytes are missing or wrong; `OSError`
# (bz2) and its subclass `gzip.BadGzipFile` then have no errno. The exceptions of the last line stem
# from malformed numbers and names in headers: tarfile and zipfile pass them on or recurse too deep.
DAMAGE = (
    *(EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
    *(ValueError, RuntimeError, LookupError, ArithmeticError, struct.error),
)


def iterate_lines(path: str | os.PathLike[str], bad: BadInput = STRICT) -> Iterator[str]:
    r"""Yields the lines of a file without their "\n", as a stream.

    Args:
        path: a UTF-8 file; compressed if its name ends in `.gz` or `.bz2`. A byte order mark is
            dropped.
        bad: receives bytes that are not UTF-8, and truncated files. If it skips, those bytes
            become lone surrogates (see `BadInput.is_usable`), and a truncated file ends at its cut.

    Raises:
        UserError: the file does not exist.
        DataError: an error that `bad` does not skip, with file and line; also a damaged file,
            UTF-16, a compressed file of another name, lines that end in CR alone, or a line of more
            than `MAX_LINE_BYTES`.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    return decoded_lines(raw_lines(open_file(path), name, bad), name, bad)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Returns all lines of a file; errors as in `iterate_lines`."""
    return list(iterate_lines(path))


@contextlib.contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a binary file, decompressed according to the suffix of its name."""
    with open(path, "rb") as file:
        yield decompressed(file, os.fspath(path))


def decompressed(file: io.BufferedReader, name: str) -> BinaryIO:
    """Returns `file`, read through gzip or bzip2 if the suffix of `name` says so.

    Raises:
        EOFError: the file is empty.
        DataError: it is not compressed as its name says.
    """
    if not name.endswith((".gz", ".bz2")):
        return file
    if not file.peek(1):
        raise EOFError("it is empty")  # gzip and bz2 would accept it as a file without lines
    start, suffix = file.peek(_START)[:_START], os.path.splitext(name)[1]
    if len(start) == _START and not _PACKED[suffix].match(start):
        raise DataError(
            f"{name}: does not start as a compressed file does whose name ends in {suffix}: rename "
            "it if it is text or compressed otherwise, else download it again"
        )
    return cast(BinaryIO, gzip.open(file) if name.endswith(".gz") else bz2.open(file))


def raw_lines(
    opened: contextlib.AbstractContextManager[BinaryIO], name: str, bad: BadInput = STRICT
) -> Iterator[bytes]:
    r"""Yields the lines of an opened file with their "\n"; errors as in `iterate_lines`.

    Args:
        opened: entered before the first line, exited after the last.
        name: the file's name, for messages.
        bad: receives truncated files; if it skips, the lines end at the cut.
    """
    return _guarded(opened, name, bad, functools.partial(bounded_lines, name=name))


def raw_pieces(
    opened: contextlib.AbstractContextManager[BinaryIO], name: str, bad: BadInput = STRICT
) -> Iterator[bytes]:
    """Yields an opened file in pieces of any size, for formats that are not line-based."""
    return _guarded(opened, name, bad, _pieces)


def bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    r"""Yields lines with their "\n", in bounded memory.

    Raises:
        DataError: a line has more than `MAX_LINE_BYTES`; never skipped, since the file is probably
            not text. Or the file is compressed, or its lines end in CR alone.
    """
    # Binary files split lines at b"\n" only; no other UTF-8 character contains that byte.
    lines = iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b"")
    number, inner = 0, 0
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE_BYTES:
            raise overlong_line(name, number)
        if number == 1:
            _check_start(line, name)
            inner = line.rstrip(b"\r\n").count(b"\r")
        yield line
    if number == 1 and inner > 1:  # the last one alone ends in LF; one CR may be part of a text
        raise _lines_end_in_cr(name)


def _check_start(line: bytes, name: str) -> None:
    """Raises DataError if the first line shows that a file is not text with one line at each LF."""
    if suffix := next((suffix for suffix, start in _PACKED.items() if start.match(line)), None):
        raise DataError(f"{name}: compressed; rename it, so that its name ends in {suffix}")
    if program := next((program for program, start in _UNREAD.items() if start.match(line)), None):
        raise DataError(f"{name}: compressed or an archive; unpack it with {program}")
    if b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):  # the whole file
        raise _lines_end_in_cr(name)


def _lines_end_in_cr(name: str) -> DataError:
    return DataError(
        f"{name}: its lines end in CR alone; convert it, for example with tr '\\r' '\\n'"
    )


def unpacking_program(start: bytes) -> str | None:
    """Returns the program that unpacks a file, by the first 512 bytes of the file."""
    packed = {"gzip -d": _PACKED[".gz"], "bzip2 -d": _PACKED[".bz2"], **_UNREAD}
    return next((program for program, form in packed.items() if form.match(start)), None)


def overlong_line(name: str, number: int) -> DataError:
    """Returns the error of a line of more than `MAX_LINE_BYTES`."""
    return DataError(
        f"{name}, line {number}: longer than {MAX_LINE_BYTES:,} bytes; expected text with one "
        "sentence per line"
    )


def not_of_training(path: str | os.PathLike[str], kind: str, task: str) -> DataError:
    """Returns the error for a file that has not one line for each training pair.

    Args:
        path: the file.
        kind: "more" or "fewer": lines than there are pairs.
        task: what to do with the text to get the file: "align" or "score".
    """
    return DataError(
        f"{os.fspath(path)} has {kind} lines than the training text has pairs: {task} that text, "
        "whole and in its order. Lines without text on a side, and those that are held out as dev "
        "split, are not training pairs"
    )


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    # Not `read`: in a truncated file, it would lose the bytes before the cut.
    return iter(functools.partial(cast(io.BufferedReader, file).read1, _PIECE), b"")


def _guarded(
    opened: contextlib.AbstractContextManager[BinaryIO],
    name: str,
    bad: BadInput,
    pieces: Callable[[BinaryIO], Iterator[bytes]],
) -> Iterator[bytes]:
    """Yields the results of `pieces`; reports damage with the number of complete lines."""
    number = 0
    try:
        with opened as file:
            for piece in pieces(file):
                yield piece
                number += piece.count(b"\n")
    except FileNotFoundError:
        raise UserError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{name} is a folder: name a file") from None
    except DAMAGE as error:
        handle_damage(f"{name}, after line {number}", error, bad)


def handle_damage(place: str, error: Exception, bad: BadInput) -> None:
    """Passes an exception of `DAMAGE` to `bad` if the file is truncated; else raises DataError.

    What was read before a cut is valid. Corruption is detected only after it may have changed
    lines or their number, so that nothing in such a file can be used.
    """
    # EINVAL: a damaged archive can make its reader seek to an invalid position.
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        raise error  # the file system is at fault
    damage = DataError(f"{place}: damaged or truncated ({first_line(error)}); download it again")
    if not isinstance(error, (EOFError, tarfile.ReadError)):
        raise damage from None
    bad.cut(damage)


def decoded_lines(lines: Iterable[bytes], name: str, bad: BadInput = STRICT) -> Iterator[str]:
    r"""Yields raw lines as text without their "\n"; arguments and errors as in `iterate_lines`."""
    for number, line in enumerate(lines, 1):
        if number == 1:
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise DataError(
                    f"{name}, line 1: the byte order mark of UTF-16; convert the file to UTF-8, "
                    "for example with iconv"
                )
            line = line.removeprefix(codecs.BOM_UTF8)
        line = line.removesuffix(b"\n")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            bad(
                DataError(
                    f"{name}, line {number}: byte {line[error.start]:#04x} at column "
                    f"{error.start + 1} is not UTF-8; convert the file, for example with iconv"
                )
            )
            text = line.decode("utf-8", "surrogateescape")
        yield text
