r"""Text files, line by line: UTF-8, plain or gzip, lines end at "\n" and nowhere else.

U+2028, U+0085 and their like stay inside a line, so that parallel files never slip against each
other.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from t2t_lite.errors import DataError, UserError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def iterate_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    r"""Yields the lines of a file without their "\n", reading as it goes.

    Args:
        path: a UTF-8 file; gzip if its name ends in `.gz`. A byte order mark is dropped.

    Raises:
        UserError: there is no such file.
        DataError: bytes that are not UTF-8, or a damaged or cut gzip file; names file and line.
        OSError: the file may not be read.
    """
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").decode("utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"{os.fspath(path)}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{os.fspath(path)}, line {number}: byte {error.object[error.start]:#04x} at column "
            f"{error.start + 1} is not UTF-8; convert the file, for example with iconv"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{os.fspath(path)}: damaged or cut gzip file after line {number} ({error}); "
            "fetch it again"
        ) from None


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Returns all lines of a file; arguments and errors as in `iterate_lines`."""
    return list(iterate_lines(path))


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    # Binary files split lines at b"\n" only, and no other UTF-8 character contains that byte.
    if not os.fspath(path).endswith(".gz"):
        return open(path, "rb")
    if not os.path.getsize(path):
        raise EOFError("it is empty")  # gzip would read it as no lines
    return cast(BinaryIO, gzip.open(path, "rb"))
