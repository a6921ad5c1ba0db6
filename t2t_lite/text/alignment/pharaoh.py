"""Word alignments in the format of Pharaoh: a line for each pair, of links such as `0-0 1-2`."""

import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Sequence

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.text_files import iterate_lines, not_of_training

log = logging.getLogger(__name__)

Links = list[tuple[int, int]]  # source and target positions, from 0

_WORD = re.compile(r"[^ \t]+")  # of fast_align
_PLACE = re.compile(r"[0-9]{1,9}")  # of a word; Python reads no number of thousands of digits


def links_of_pairs(pairs: Iterable[tuple[str, str]], path: str) -> Iterator[Links]:
    """Yields the links of pairs of lines, between words as `str.split` finds them.

    eflomal splits words at Unicode's white space, as we do, but fast_align only at spaces and tabs.
    Where the two differ, as at a no-break space, a pair has no links, unless those of the file so
    far show that its aligner splits at both.

    Args:
        pairs: source and target of each line.
        path: the file, with a line for each pair.

    Raises:
        DataError: a link is not between words of its pair, or the file has more lines or fewer.
    """
    ignored = first = 0
    is_known = False  # that the aligner splits as we do
    for number, (pair, links) in enumerate(itertools.zip_longest(pairs, read_links(path)), 1):
        if pair is None or links is None:
            raise not_of_training(path, "more" if pair is None else "fewer", "align")
        words = [side.split() for side in pair]
        sizes = [*map(len, words)]
        for link in links:
            if _is_outside(link, sizes):
                raise DataError(
                    f"{path}, line {number}: link {link[0]}-{link[1]} is outside of the pair, of "
                    f"{sizes[0]} and {sizes[1]} words between spaces"
                )
        blank = [_WORD.findall(side) for side in pair]
        if words != [[word.strip() for word in side] for side in blank]:
            is_known = is_known or any(_is_outside(link, [*map(len, blank)]) for link in links)
            if not is_known:
                ignored, first, links = ignored + 1, first or number, []
        yield links
    if ignored:
        log.warning(
            "%s: ignored the links of %d pairs, first on line %d: their words are separated by "
            "white space other than spaces and tabs (such as a no-break space), which some "
            "aligners treat as part of a word; replace it with spaces, and align again",
            path,
            ignored,
            first,
        )


def _is_outside(link: tuple[int, int], sizes: Sequence[int]) -> bool:
    return any(place >= size for place, size in zip(link, sizes, strict=True))


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
    if len(parts) != 2 or not all(map(_PLACE.fullmatch, parts)):
        raise DataError(f"{where}expected links such as 0-0 1-2, got {quoted(text)}")
    return int(parts[0]), int(parts[1])
