"""Sentences to decode, the pieces that long ones are cut into, and what is found for them."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.data.problem import Output
from t2t_lite.decoding import details, long_input
from t2t_lite.decoding.details import Details


class Source(NamedTuple):
    """One sentence to decode."""

    text: str
    ids: Sequence[int]  # EOS included; none: there is nothing to decode
    number: int = 1  # of its line or example, from 1: for messages, and the seed of samples
    prefix: Sequence[int] = ()  # how every output begins, without EOS


class Hypothesis(NamedTuple):
    """One output for one sentence."""

    output: Output
    ids: list[int]  # without EOS
    score: float  # log-probability over the length penalty
    details: Details | None = None  # if the decoder was asked for them


# Hypotheses, best first, of some sentences or pieces by their places.
Found = Mapping[int, list[Hypothesis]]

NOTHING: Mapping[int, Found] = {}


class Batch(NamedTuple):
    """What a batch has brought."""

    number: int  # the same whenever the same sources are decoded; 0: of what holds no ids
    sources: Found  # those that are done with it
    pieces: Found  # its pieces of sources that wait for their other pieces


def best_output(hypotheses: Sequence[Hypothesis]) -> Output:
    """Returns the output of the first hypothesis; "" if there is none."""
    return hypotheses[0].output if hypotheses else Output("")


class Assembly:
    """Joins what is found for pieces, in whatever order it is found.

    Args:
        sizes: of how many pieces each source is; all pieces in their order are numbered from 0.
        known: what earlier batches, by their numbers, have brought for pieces that wait.

    Attributes:
        known: the same.
    """

    def __init__(self, sizes: Sequence[int], known: Mapping[int, Found]) -> None:
        self.known = known
        self._sizes = sizes
        self._source_of = [place for place, size in enumerate(sizes) for _ in range(size)]
        self._waiting: dict[int, dict[int, list[Hypothesis]]] = defaultdict(dict)
        for pieces in known.values():
            for piece, hypotheses in pieces.items():
                self._waiting[self._source_of[piece]][piece] = hypotheses

    def add(self, number: int, found: Found) -> Batch:
        """Takes what a batch has found for its pieces; returns what it has brought."""
        done = {}
        for piece, hypotheses in found.items():
            place = self._source_of[piece]
            pieces = self._waiting[place]
            pieces[piece] = hypotheses
            if len(pieces) == self._sizes[place]:
                done[place] = _joined([pieces[i] for i in sorted(pieces)])
                del self._waiting[place]
        waiting = {i: found[i] for i in found if self._source_of[i] not in done}
        return Batch(number, done, waiting)


def collected(
    batches: Iterable[Batch], count: int, advance: Callable[[int], None]
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of all of `count` sources, in their order."""
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for batch in batches:
        for place, hypotheses in batch.sources.items():
            found[place] = hypotheses
        if batch.number:
            advance(len(batch.sources))
    return found


def _joined(pieces: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """Joins the hypotheses of a source's pieces, those of the same rank with each other."""
    if len(pieces) == 1:
        return list(pieces[0])
    return [_joined_rank(rank) for rank in zip(*filter(None, pieces), strict=False)]


def _joined_rank(rank: Sequence[Hypothesis]) -> Hypothesis:
    explained = [piece.details for piece in rank if piece.details]
    return Hypothesis(
        Output(long_input.join(piece.output.text for piece in rank)),
        list(itertools.chain.from_iterable(piece.ids for piece in rank)),
        sum(piece.score for piece in rank),
        details.joined(explained) if explained else None,
    )
