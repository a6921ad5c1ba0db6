"""Targets that are numbers: the id of a number is made of the bits of its float32.

So numbers go, exactly, where ids go: through batches, searches and journals. Padding (0) and EOS
(1) are two of the bit patterns of NaN, which targets cannot be.
"""

import math
import os
import struct
from collections.abc import Iterable, Sequence

from t2t_lite.errors import DataError, quoted
from t2t_lite.protocol_buffers import pack_floats
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TextEncoder

# The bits of NaN: an id is a number's bits, each inverted that is set here.
NAN_BITS = 0x7FC00000
_FLOAT, _INT = struct.Struct("<f"), struct.Struct("<i")
MOST_DIGITS = 9  # tell any two float32 apart


def number_id(number: float) -> int:
    """Returns the id of a number, an int32."""
    return int(_INT.unpack(_FLOAT.pack(number))[0]) ^ NAN_BITS


def number_of(id_: int) -> float:
    """Returns the number of an id; NaN for padding and EOS."""
    return float(_FLOAT.unpack(_INT.pack(int(id_) ^ NAN_BITS))[0])


def number_text(number: float) -> str:
    """Returns the shortest text that is the same float32."""
    texts = (f"{number:.{digits}g}" for digits in range(1, MOST_DIGITS))
    wanted = _FLOAT.pack(number)
    return next(
        (text for text in texts if _is_float32(text) and _FLOAT.pack(float(text)) == wanted),
        f"{number:.{MOST_DIGITS}g}",
    )


def parsed_numbers(text: str) -> list[float]:
    """Returns the numbers of a text, which white space separates.

    Raises:
        DataError: a word is not a finite float32.
    """
    for word in text.split():
        if not _is_float32(word):
            raise DataError(f"expected numbers, got {quoted(word)}")
    return [float(word) for word in text.split()]


def numbers_of_line(
    text: str, path: str | os.PathLike[str], line: int, separator: str | None = None
) -> list[float]:
    """Returns the numbers of a line of a file.

    Args:
        text: the line.
        path: the file, for messages.
        line: its number there, likewise.
        separator: what separates the numbers; None: white space.

    Raises:
        DataError: there are none, or something else; the message names file and line.
    """
    fields = [field.strip() for field in text.strip().split(separator)] or [""]
    for field in fields:
        if not _is_float32(field):
            several = "; tabs separate several numbers" if len(field.split()) > 1 else ""
            raise DataError(
                f"{os.fspath(path)}, line {line}: expected numbers, got {quoted(field)}{several}"
            )
    return [float(field) for field in fields]


def _is_float32(word: str) -> bool:
    """Whether a word is a finite number that a float32 can hold, rounded."""
    try:
        return "_" not in word and math.isfinite(number_of(number_id(float(word))))
    except (ValueError, OverflowError):
        return False


class NumberEncoder(TextEncoder):
    """Numbers, separated by white space; T2T's `RealEncoder`.

    Its `vocab_size` is that of the model: an output symbol for each number. The ids are bits.

    Args:
        count: how many numbers a line has.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def vocab_size(self) -> int:
        """The number of numbers, with pad and EOS."""
        return len(RESERVED_TOKENS) + self.count

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the numbers of a line; none for a line without text.

        Raises:
            DataError: they are not numbers, or more or fewer than `count`.
        """
        return [number_id(number) for number in self._numbers(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the numbers, separated by spaces."""
        numbers = map(number_of, ids)  # NaN are padding and EOS
        return " ".join(number_text(number) for number in numbers if not math.isnan(number))

    def symbol(self, id_: int) -> str:
        """Returns what an output symbol of the model stands for."""
        return f"number {id_ - EOS_ID}"

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed numbers of each line: examples have floats, as T2T's."""
        return [pack_floats(self._numbers(line)) for line in lines]

    def _numbers(self, text: str) -> list[float]:
        numbers = parsed_numbers(text)
        if numbers and len(numbers) != self.count:
            raise DataError(f"expected {counted(self.count)}, got {quoted(text)}")
        return numbers


def counted(count: int) -> str:
    """Returns how many numbers there are, in words."""
    return "1 number" if count == 1 else f"{count} numbers"


def text_of(numbers: Iterable[float]) -> str:
    """Returns the line of some numbers, each of them in full."""
    return " ".join(repr(float(number)) for number in numbers)
