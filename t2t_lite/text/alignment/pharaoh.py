"""Word alignments in the format of Pharaoh: a line for each pair, of links such as `0-0 1-2`."""

from collections.abc import Iterable, Iterator

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.text_files import iterate_lines

Links = list[tuple[int, int]]  # source and target positions, from 0


def read_links(path: str) -> Iterator[Links]:
    """Yields the links of each line of a file.

    Raises:
        DataError: part of a line is not a link.
    """
    for number, line in enumerate(iterate_lines(path), 1):
        yield parsed_links(line, f"{path}, line {number}: ")


def parsed_links(line: str, where: str = "") -> Links:
    """Returns the links of a line.

    Args:
        line: such as "0-0 1-2".
        where: what an error says first.

    Raises:
        DataError: part of a line is not a link.
    """
    return [_link(text, where) for text in line.split()]


def written_links(links: Iterable[tuple[int, int]]) -> str:
    """Returns the line of some links."""
    return " ".join(f"{source}-{target}" for source, target in links)


def _link(text: str, where: str) -> tuple[int, int]:
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise DataError(f"{where}expected links such as 0-0 1-2, got {quoted(text)}")
    return int(parts[0]), int(parts[1])
