"""IBM model 1 with a prior for the diagonal: which source token each target token translates.

The model of Dyer, Chahuneau & Smith (NAACL 2013), section 2, known as fast_align: of a sentence
pair of S and T tokens, target token j is made by no source token with probability p0, else by token
i with a probability proportional to exp(-λ |i / S - j / T|); token e then becomes f by the table
t(f | e). The table is learned by variational Bayes with a sparse Dirichlet prior, λ by gradient
ascent, as there.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.progress import progress

log = logging.getLogger(__name__)

Pair = tuple[np.ndarray, np.ndarray]  # the ids of a source [S] and of its target [T], none below 0

_NO_SOURCE = 0.08  # p0
_FIRST_TENSION = 4.0  # λ
_LEAST_TENSION, _MOST_TENSION = 0.1, 14.0
_TENSION_STEPS, _TENSION_RATE = 8, 20.0
_CONCENTRATION = 0.01  # of the Dirichlet prior
_ITERATIONS = 5

# Possible links of the pairs that train the table, 20 bytes for each: 400,000 sentences of WMT.
_MOST_LINKS = 2 * 10**8
# Of a pair; a longer one, such as a text in one line, would take more memory than all others.
_MOST_LINKS_OF_PAIR = 10**6
# Links computed at a time.
_CHUNK = 4 * 10**6
# Probability of a translation that training has not seen.
_UNSEEN = 1e-9


class _Chunk(NamedTuple):
    """All possible links of some pairs; those of a target token are neighbours."""

    entries: np.ndarray  # [N], the row of the table; `none` rows are the first of each target token
    starts: np.ndarray  # [targets], the first link of each target token
    distances: np.ndarray  # [N], |i / S - j / T|
    is_none: np.ndarray  # [N], whether the link is to no source token


class DiagonalAligner:
    """A trained model.

    Args:
        codes: [R], sorted: source id · `targets` + target id of each entry of the table; source ids
            are those of the pairs + 1, and 0 stands for no source token.
        probabilities: [R], t(target | source).
        targets: greater than any target id.
        tension: λ.

    Attributes:
        tension: as above.
    """

    def __init__(
        self, codes: np.ndarray, probabilities: np.ndarray, targets: int, tension: float
    ) -> None:
        self._codes = codes
        self._probabilities = probabilities
        self._targets = targets
        self.tension = tension

    @classmethod
    def train(cls, pairs: Sequence[Pair], iterations: int = _ITERATIONS) -> Self:
        """Learns table and tension.

        Of a corpus with more than 200 million possible links, pairs at equal distances are used.
        Pairs that are too long to align are left out, with a warning.

        Args:
            pairs: ids of sources and targets; pairs with an empty side are left out.
            iterations: of expectation and maximisation.

        Raises:
            DataError: no pair can be aligned.
        """
        long = [i for i, pair in enumerate(pairs, 1) if _links(pair) > _MOST_LINKS_OF_PAIR]
        if long:
            log.warning(
                "%d pairs, first pair %d, are too long to align, with more than %s possible links "
                "between subwords: split their texts at the ends of sentences",
                *(len(long), long[0], f"{_MOST_LINKS_OF_PAIR:,}"),
            )
        pairs = [*filter(_can_be_aligned, pairs)]
        if not pairs:
            short = ", and few enough subwords to align" if long else ""
            raise DataError(f"there is nothing to align: no pair has text on both sides{short}")
        links = sum(map(_links, pairs))
        pairs = pairs[:: -(-links // _MOST_LINKS)]
        targets = 1 + max(int(target.max()) for _, target in pairs)
        chunks = [_chunk(part, targets) for part in _parts(pairs)]
        codes = np.unique(np.concatenate([np.unique(chunk.entries) for chunk in chunks]))
        chunks = [
            chunk._replace(entries=np.searchsorted(codes, chunk.entries).astype(np.int32))
            for chunk in chunks
        ]
        sources = codes // targets
        learned = cls(codes, np.full(len(codes), 1.0 / targets), targets, _FIRST_TENSION)
        with progress("aligning", iterations, "iterations") as advance:
            for _ in range(iterations):
                learned._improve(chunks, sources)
                advance(1)
        return learned

    def _improve(self, chunks: Sequence[_Chunk], sources: np.ndarray) -> None:
        """Takes one step of expectation and maximisation."""
        counts = np.zeros(len(self._codes))
        distance = tokens = 0.0
        for chunk in chunks:
            found = self._posteriors(chunk)
            counts += np.bincount(chunk.entries, found, len(counts))
            distance += float(np.sum(found * chunk.distances))
            tokens += len(chunk.starts)
        self._improve_tension(chunks[0], distance / tokens)
        totals = np.bincount(sources, counts)
        sizes = np.bincount(sources)  # the entries of each source id
        self._probabilities = np.exp(
            _digamma(counts + _CONCENTRATION)
            - _digamma(totals + _CONCENTRATION * np.maximum(sizes, 1))[sources]
        )

    def _improve_tension(self, chunk: _Chunk, distance: float) -> None:
        """Moves λ until the prior's mean distance from the diagonal is the one that was found."""
        for _ in range(_TENSION_STEPS):
            prior = self._prior(chunk)
            expected = float(np.sum(prior * chunk.distances)) / len(chunk.starts)
            moved = self.tension + _TENSION_RATE * (expected - distance)
            self.tension = min(max(moved, _LEAST_TENSION), _MOST_TENSION)

    def _prior(self, chunk: _Chunk) -> np.ndarray:
        """Returns the probability [N] of each link before the words are seen."""
        weights = np.where(chunk.is_none, 0.0, np.exp(-self.tension * chunk.distances))
        return np.where(chunk.is_none, _NO_SOURCE, (1.0 - _NO_SOURCE) * _shares(chunk, weights))

    def _posteriors(self, chunk: _Chunk) -> np.ndarray:
        """Returns the probability [N] of each link."""
        return _shares(chunk, self._prior(chunk) * self._probabilities[chunk.entries])

    def align(self, pairs: Sequence[Pair]) -> Iterator[np.ndarray]:
        """Yields for each pair the source position [T] of each target token; -1: none.

        Args:
            pairs: any pairs, also unseen ones, with an empty side, or with unknown ids. Of those
                that are too long to align, no token has a source.
        """
        for part in _parts(pairs):
            whole = [*filter(_can_be_aligned, part)]
            found = self._aligned(whole) if whole else iter(())
            for pair in part:
                yield next(found) if _can_be_aligned(pair) else np.full(len(pair[1]), -1)

    def _aligned(self, pairs: Sequence[Pair]) -> Iterator[np.ndarray]:
        chunk = _chunk(pairs, self._targets)
        places = np.minimum(np.searchsorted(self._codes, chunk.entries), len(self._codes) - 1)
        is_known = self._codes[places] == chunk.entries
        table = np.where(is_known, self._probabilities[places], _UNSEEN)
        weights = self._prior(chunk) * table
        first = 0
        for pair in pairs:
            size = _links(pair)
            links = weights[first : first + size].reshape(len(pair[1]), -1)
            yield np.argmax(links, axis=1) - 1
            first += size

    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns source ids, target ids and t(target | source), all [R], of what was seen."""
        is_word = self._codes >= self._targets
        codes = self._codes[is_word]
        return codes // self._targets - 1, codes % self._targets, self._probabilities[is_word]


def _links(pair: Pair) -> int:
    """Returns the number of possible links of a pair."""
    return (len(pair[0]) + 1) * len(pair[1])


def _can_be_aligned(pair: Pair) -> bool:
    """Whether a pair has text on both sides, and not too much."""
    return bool(len(pair[0]) and len(pair[1])) and _links(pair) <= _MOST_LINKS_OF_PAIR


def _parts(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """Yields the pairs in parts with limited numbers of links."""
    first = links = 0
    for i, pair in enumerate(pairs):
        more = _links(pair)
        if i > first and links + more > _CHUNK:
            yield pairs[first:i]
            first, links = i, 0
        links += more
    if first < len(pairs):
        yield pairs[first:]


def _chunk(pairs: Sequence[Pair], targets: int) -> _Chunk:
    """Returns all possible links of pairs, none of which has an empty side; entries are codes."""
    sources = [np.concatenate([[0], np.asarray(source, np.int64) + 1]) for source, _ in pairs]
    lengths = np.array([len(target) for _, target in pairs])
    sizes = np.repeat([len(source) for source in sources], lengths)  # links of each target token
    starts = np.cumsum(sizes) - sizes
    target = np.concatenate([target for _, target in pairs]).astype(np.int64)
    target = np.where(target < targets, target, -1)  # of unseen ids, no entry
    links = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)  # position in the source, from 1
    first = np.repeat(np.cumsum([0, *map(len, sources[:-1])]), lengths)  # of the pair's source
    source = np.concatenate(sources)[np.repeat(first, sizes) + links]
    before = np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = (np.arange(len(target)) - before + 1) / np.repeat(lengths, lengths)  # j / T
    by_link = np.repeat(target, sizes)
    distances = np.abs(links / np.repeat(sizes - 1, sizes) - np.repeat(places, sizes))
    is_none = links == 0
    codes = np.where(by_link < 0, -1, source * targets + by_link)
    return _Chunk(codes, starts, np.where(is_none, 0.0, distances), is_none)


def _shares(chunk: _Chunk, weights: np.ndarray) -> np.ndarray:
    """Returns weights [N] divided by their sum over each target token's links."""
    sums = np.add.reduceat(weights, chunk.starts)
    sizes = np.diff(chunk.starts, append=len(weights))
    return weights / np.repeat(np.maximum(sums, np.finfo(float).tiny), sizes)


def _digamma(x: np.ndarray) -> np.ndarray:
    """Returns the derivative of log Γ for x > 0, within 1e-9.

    By recurrence up to 6, then by the asymptotic series (Abramowitz & Stegun, 6.3.5 and 6.3.18).
    """
    shift = np.zeros_like(x)
    for _ in range(6):
        is_small = x < 6.0
        shift -= np.where(is_small, 1.0 / x, 0.0)
        x = np.where(is_small, x + 1.0, x)
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return shift + np.log(x) - 0.5 / x - series
