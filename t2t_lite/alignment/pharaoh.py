"""Word alignments in the format of Pharaoh: a line for each pair, of links such as `0-0 1-2`."""

from collections.abc import Iterator

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.text_files import iterate_lines

Links = list[tuple[int, int]]  # source and target positions, from 0


def read_links(path: str) -> Iterator[Links]:
    """Yields the links of each line of a file.

    Raises:
        DataError: something is no link.
    """
    for number, line in enumerate(iterate_lines(path), 1):
        yield [_link(text, path, number) for text in line.split()]


def _link(text: str, path: str, number: int) -> tuple[int, int]:
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise DataError(
            f"{path}, line {number}: expected links such as 0-0 1-2, got {quoted(text)}"
        )
    return int(parts[0]), int(parts[1])
