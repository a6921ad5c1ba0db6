"""Searches again, with terms, for the sources whose outputs lack them.

Most outputs have the terms of their sources without any help: what is best among all outputs, and
has the terms, is best among those that have them.
"""

import collections
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.term_beams import beam_with_terms
from t2t_lite.search.decode_hparams import SOFT_TERMS, DecodeHParams
from t2t_lite.search.term_search import TermSearch
from t2t_lite.terms.spelling import Speller
from t2t_lite.terms.term_automaton import TermTables, batched, kinds, term_tables
from t2t_lite.terms.term_list import MOST_FORBIDDEN, Wanted, uses
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder

# From this search on, all forbidden words are minded, if they are few.
_SEARCH_WITH_ALL = 3

# Runs a search on some sources, with their limits and what the search needs of each.
RunSearch = Callable[
    [TermSearch, Sequence[Source], Sequence[int], Sequence[np.ndarray]], list[list[Target]]
]


class TermGuide:
    """Makes outputs meet the terms of their sources.

    Args:
        encoders: the encoders of "inputs" and "targets", in the languages of the hparams.
        hparams: search settings.
        make_search: makes a search for the kinds of all ids, with a beam size.
        run: runs a search.
    """

    def __init__(
        self,
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
        make_search: Callable[[np.ndarray, int], TermSearch],
        run: RunSearch,
    ) -> None:
        self._encoder = encoders["targets"]
        self._hparams = hparams
        self._run = run
        self._speller = Speller(self._encoder)
        self._search = functools.cache(
            lambda beam_size: make_search(kinds(self._speller.borders), beam_size)
        )

    def guided(
        self, sources: Sequence[Source], limits: Sequence[int], found: Sequence[list[Target]]
    ) -> list[list[Target]]:
        """Returns hypotheses of each source that meet its terms, as far as they can be met.

        A search minds the forbidden words that earlier outputs of its source had, rather than all,
        of which there may be many. Where these have new ones again, the next search minds all, so
        that there are few searches; of a very long list, again those that outputs had.

        Args:
            sources: those without terms keep their hypotheses.
            limits: the most ids of each output.
            found: the hypotheses that a search without terms has found.
        """
        found = list(found)
        forbidden: dict[int, set[str]] = {i: set() for i, s in enumerate(sources) if s.terms}
        pending = [i for i in forbidden if self._missing(sources[i], found[i])]
        number = 0
        while True:
            number += 1
            for i, known in forbidden.items():
                if new := self._forbidden_in(sources[i], found[i]) - known:
                    known |= new
                    if number >= _SEARCH_WITH_ALL:
                        known |= self._all_forbidden(sources[i])
                    pending.append(i)
            tables = {i: self._tables(sources[i], forbidden[i]) for i in sorted({*pending})}
            tables = {i: own for i, own in tables.items() if not own.is_empty}
            if not tables:
                return found
            for i, targets in self._searched(sources, limits, tables).items():
                found[i] = targets or found[i]
            pending = []

    def _searched(
        self,
        sources: Sequence[Source],
        limits: Sequence[int],
        tables: Mapping[int, TermTables],
    ) -> dict[int, list[Target]]:
        """Searches for the sources that have tables, with beams that suit their terms."""
        by_beam = collections.defaultdict(list)
        for i, own in tables.items():
            by_beam[beam_with_terms(own.total, self._hparams.beam_size)].append(i)
        found = {}
        for beam_size, places in by_beam.items():
            # No more hypotheses at a time than in the search without terms.
            size = max(1, len(sources) * self._hparams.beam_size // beam_size)
            for start in range(0, len(places), size):
                chunk = places[start : start + size]
                results = self._run(
                    self._search(beam_size),
                    [sources[i] for i in chunk],
                    [limits[i] for i in chunk],
                    batched([tables[i] for i in chunk]),
                )
                for i, targets in zip(chunk, results, strict=True):
                    targets.sort(key=lambda target: self._missing(sources[i], [target]))
                    found[i] = targets[: self._hparams.beam_size]
        return found

    def _tables(self, source: Source, forbidden: set[str]) -> TermTables:
        return term_tables(self._wanted(source), sorted(forbidden), self._speller)

    def _wanted(self, source: Source) -> Sequence[Wanted]:
        """Returns what the search minds: nothing that the source only suggests."""
        if source.terms is None or self._hparams.term_mode == SOFT_TERMS:
            return []
        return source.terms.wanted(source.text)

    def _missing(self, source: Source, targets: Sequence[Target]) -> int:
        """Returns how many terms the shown hypotheses lack."""
        wanted = self._wanted(source)
        if not wanted:
            return 0
        return sum(
            use.wanted.times - use.met
            for target in self._shown(targets)
            for use in uses(wanted, self._text(target))
        )

    def _forbidden_in(self, source: Source, targets: Sequence[Target]) -> set[str]:
        assert source.terms is not None
        shown = self._shown(targets) if source.terms.forbidden else []
        return {
            word for target in shown for word in source.terms.found_forbidden(self._text(target))
        }

    def _all_forbidden(self, source: Source) -> set[str]:
        """Returns all forbidden words; none if they are too many for a search."""
        assert source.terms is not None
        size = sum(map(len, source.terms.forbidden))
        return {*source.terms.spellings} if size <= MOST_FORBIDDEN else set()

    def _shown(self, targets: Sequence[Target]) -> Sequence[Target]:
        return targets if self._hparams.return_beams else targets[:1]

    def _text(self, target: Target) -> str:
        ids = target.ids[:-1] if target.ids[-1:] == [EOS_ID] else target.ids
        return self._encoder.decode(ids)
