"""Splits lines that are too long for the model, and joins the hypotheses of their pieces."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.data.problem import Output
from t2t_lite.decoding.hypotheses import Details, Hypothesis

# Where to break, best first: after a sentence, a clause, a word.
_BREAKS = (
    re.compile(r"""[.!?;]["'”’»)\]]*\s+|[。！？；｡]["'”’»）」』]*\s*"""),
    re.compile(r",\s+|[，、]\s*"),
    re.compile(r"\s+"),
)

_OTHER_BREAKS = re.compile(r"\r\n?")

# Characters with no space after them: Chinese and Japanese ones, full-width punctuation.
_NO_SPACE_AFTER = re.compile(
    "[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff9f"
    "\U00020000-\U0003ffff]"
)


# Most numbers of a joined attention, almost all of which are 0.
_MOST_ATTENTION = 2**22

# The hypotheses, best first, of some sentences or pieces, by their index.
HypothesesByIndex = Mapping[int, list[Hypothesis]]

_EMPTY = Hypothesis(Output(""), [], 0.0)

NO_BATCHES: Mapping[int, HypothesesByIndex] = {}


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halves a text until every piece fits.

    It is broken at the sentence end nearest to its middle; without one at a comma; without one at a
    space; failing that, in the middle.

    Args:
        text: without surrounding white space.
        fits: whether a piece is short enough; not called for single characters.

    Returns:
        The pieces in order, without the white space between them.
    """
    if len(text) < 2 or fits(text):
        return [text]
    at = _nearest_break(text)
    halves = (text[:at].strip(), text[at:].strip())
    return [piece for half in halves if half for piece in split(half, fits)]


def with_plain_breaks(text: str) -> str:
    r"""Writes every line break of a text, "\r\n" or "\r", as "\n"."""
    return _OTHER_BREAKS.sub("\n", text)


def join(outputs: Iterable[str]) -> str:
    """Joins the outputs of a text's pieces, with spaces if the language uses them."""
    joined = ""
    for output in filter(None, outputs):
        if joined and not _NO_SPACE_AFTER.match(joined[-1]):
            joined += " "
        joined += output
    return joined


def _nearest_break(text: str) -> int:
    """Returns where to break a text of at least two characters, leaving both sides non-empty."""
    for pattern in _BREAKS:
        breaks = [match for match in pattern.finditer(text) if match.end() < len(text)]
        if breaks:
            return min(breaks, key=lambda match: abs(sum(match.span()) - len(text))).end()
    return len(text) // 2


class BatchResult(NamedTuple):
    """The hypotheses from one batch."""

    number: int  # the same whenever the same sources are decoded; 0: the sources without ids
    sources: HypothesesByIndex  # the sources that this batch completes
    pieces: HypothesesByIndex  # its pieces of sources that are still incomplete


class PieceJoiner:
    """Joins the hypotheses of pieces, which may arrive in any order.

    Args:
        sizes: the number of pieces of each line of each source; pieces are numbered from 0 over all
            sources.
        known: the pieces of incomplete sources from earlier batches, by batch number.

    Attributes:
        known: the same.
    """

    def __init__(
        self, sizes: Sequence[Sequence[int]], known: Mapping[int, HypothesesByIndex]
    ) -> None:
        self.known = known
        self._sizes = sizes
        self._source_of = [index for index, size in enumerate(sizes) for _ in range(sum(size))]
        self._waiting: dict[int, dict[int, list[Hypothesis]]] = defaultdict(dict)
        for pieces in known.values():
            for piece, hypotheses in pieces.items():
                self._waiting[self._source_of[piece]][piece] = hypotheses

    def add(self, number: int, found: HypothesesByIndex) -> BatchResult:
        """Adds the hypotheses of a batch's pieces; returns the result of the batch."""
        done = {}
        for piece, hypotheses in found.items():
            source = self._source_of[piece]
            pieces = self._waiting[source]
            pieces[piece] = hypotheses
            if len(pieces) == sum(self._sizes[source]):
                ordered = iter([pieces[i] for i in sorted(pieces)])
                lines = [list(itertools.islice(ordered, size)) for size in self._sizes[source]]
                done[source] = _join_lines([_join_pieces(line) for line in lines])
                del self._waiting[source]
        waiting = {i: found[i] for i in found if self._source_of[i] not in done}
        return BatchResult(number, done, waiting)


def join_details(pieces: Sequence[Details]) -> Details:
    """Joins the details of a source's pieces into those of the whole source."""
    return Details(
        [token for piece in pieces for token in piece.source_tokens],
        [token for piece in pieces for token in piece.tokens],
        np.concatenate([piece.log_probs for piece in pieces]),
        _join_attention([piece.attention for piece in pieces]),
        pieces[0].is_aligned,
    )


def _join_attention(pieces: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Returns a matrix with those of the pieces along its diagonal; None if it is too large."""
    known = [piece for piece in pieces if piece is not None]
    if not known:
        return None
    sizes = np.sum([piece.shape for piece in known], axis=0)
    if sizes.prod() > _MOST_ATTENTION:
        return None
    joined = np.zeros(sizes)
    row = column = 0
    for piece in known:
        rows, columns = piece.shape
        joined[row : row + rows, column : column + columns] = piece
        row, column = row + rows, column + columns
    return joined


def _join_lines(lines: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """Joins the hypotheses of a text's lines by rank; a line without any is an empty line."""
    if len(lines) == 1 or not any(lines):
        return list(lines[0])
    ranks = zip(*(line or itertools.repeat(_EMPTY) for line in lines), strict=False)
    return [_join_rank(rank, "\n".join) for rank in ranks]


def _join_pieces(pieces: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """Joins the hypotheses of a source's pieces by rank: best with best, second with second."""
    if len(pieces) == 1:
        return list(pieces[0])
    ranks = zip(*filter(None, pieces), strict=False)
    return [_join_rank(rank, join) for rank in ranks]


def _join_rank(rank: Sequence[Hypothesis], join: Callable[[Iterable[str]], str]) -> Hypothesis:
    details = [piece.details for piece in rank if piece.details]
    return Hypothesis(
        Output(join(piece.output.text for piece in rank)),
        list(itertools.chain.from_iterable(piece.ids for piece in rank)),
        sum(piece.score for piece in rank),
        join_details(details) if details else None,
    )
