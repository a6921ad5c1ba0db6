"""Searches as recordings name them, and the outputs that are compared."""

import functools
from collections.abc import Callable, Iterable

from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.search_loop import SearchLoop
from t2t_lite.search.stopping import T2TStopping

EOS = 1


def up_to_eos(ids: Iterable[int]) -> list[int]:
    """Returns ids up to the first EOS, which is included."""
    ids = list(ids)
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


def searches(model: Seq2Seq) -> Callable[[int, float, bool], SearchLoop]:
    """Returns what makes a search by beam size, alpha and whether it stops early, each once."""

    @functools.cache
    def make(beam_size: int, alpha: float, stop_early: bool) -> SearchLoop:
        if beam_size == 1:
            return greedy_search(model)
        return BeamSearch(model, beam_size, Penalty(alpha), T2TStopping(stop_early))

    return make
