"""Which rows of another run's weights those of a new vocabulary start from.

An id that stands for the same in both vocabularies takes its row. One that the other vocabulary
lacks takes the mean of the rows of the pieces that spell its text there; the token of a language,
which no text spells, the mean of the tokens of the languages that the other knows.
"""

import collections
import logging
from collections.abc import Container, Mapping, Sequence

import numpy as np

from t2t_lite.models.seq2seq import VocabularyRows
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.text_encoder import RESERVED_TOKENS, TextEncoder

log = logging.getLogger(__name__)

# For each row here, the rows there whose mean it takes; none: it keeps its initial value.
Origins = Sequence[tuple[int, ...]]

# A weight's declaration here and there.
Pair = tuple[VocabularyRows, VocabularyRows]


class Vocabularies:
    """Matches the ids of two runs by what they stand for.

    Args:
        run: the new run; None: its vocabularies are those of the other.
        other: the other run.
    """

    def __init__(self, run: RunFolder | None, other: RunFolder) -> None:
        self._encoders = None if run is None else (run.encoders, other.encoders)
        self._ours = {} if run is None else _symbols(run)
        self._theirs = {} if run is None else _symbols(other)

    def origins(self, pairs: Sequence[Pair]) -> Origins:
        """Returns where the rows of a weight come from.

        Args:
            pairs: the declarations of the weight here and there. Where there are several, as for a
                matrix that both sides share, those that know an origin of a row must agree.
        """
        found = [self._rows(ours, theirs) for ours, theirs in pairs]
        agreed = [set(filter(None, origins)) for origins in zip(*found, strict=True)]
        return [origins.pop() if len(origins) == 1 else () for origins in agreed]

    def _rows(self, ours: VocabularyRows, theirs: VocabularyRows) -> Origins:
        """Returns the origins that one side knows."""
        size = ours.weight.shape[ours.axis]
        there = theirs.weight.shape[theirs.axis]
        ids = self._ids(ours.side, theirs.side)
        origins = []
        for id_ in range(ours.first_id, ours.first_id + size):
            others = (id_,) if ids is None else ids.get(id_, ())
            rows = tuple(other - theirs.first_id for other in others)
            origins.append(rows if all(0 <= row < there for row in rows) else ())
        return origins

    def _ids(self, side: str, other_side: str) -> Mapping[int, tuple[int, ...]] | None:
        """Returns the ids there whose mean each id here takes; None: they are the same."""
        if self._encoders is None:
            return None
        ours, theirs = self._ours[side], self._theirs[other_side]
        if ours == theirs and ours:
            return None
        origins: dict[int, tuple[int, ...]] = {id_: (id_,) for id_ in range(len(RESERVED_TOKENS))}
        if ours and theirs:
            encoders = self._encoders[0][side], self._encoders[1][other_side]
            origins |= _same(ours, theirs)
            origins = _languages(*encoders) | origins
            origins = _spelled(*encoders, origins) | origins
        return origins


def gathered(pair: Pair, origins: Origins) -> np.ndarray | None:
    """Returns the new value of a weight; None where a row has another shape there."""
    ours, theirs = pair
    value = np.moveaxis(ours.weight.numpy(), ours.axis, 0)
    there = np.moveaxis(theirs.weight.numpy(), theirs.axis, 0)
    if value.shape[1:] != there.shape[1:]:
        return None
    value = value.copy()
    for row, others in enumerate(origins):
        if len(others) == 1:
            value[row] = there[others[0]]
        elif others:
            value[row] = there[list(others)].mean(axis=0, dtype=np.float32)
    return np.moveaxis(value, 0, ours.axis)


def loses_rows(pair: Pair, origins: Origins) -> bool:
    """Whether a row there is none here, so that the vocabulary there is not merely extended."""
    theirs = pair[1]
    copied = {rows[0] for rows in origins if len(rows) == 1}
    return len(copied) < theirs.weight.shape[theirs.axis]


def _same(ours: Sequence[str], theirs: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """Returns the id there of each id here that stands for the same, and for nothing else."""
    ids = {symbol: id_ for id_, symbol in enumerate(theirs)}
    repeated = {
        symbol
        for symbols in (ours, theirs)
        for symbol, count in collections.Counter(symbols).items()
        if count > 1
    }
    reserved = len(RESERVED_TOKENS)
    return {
        id_: (ids[symbol],)
        for id_, symbol in enumerate(ours)
        if symbol in ids and symbol not in repeated and min(id_, ids[symbol]) >= reserved
    }


def _spelled(
    ours: TextEncoder, theirs: TextEncoder, known: Container[int]
) -> dict[int, tuple[int, ...]]:
    """Returns the ids there that spell the text of each id here that is not known yet."""
    found = {}
    for id_ in range(ours.vocab_size):
        text = "" if id_ in known else ours.part_text(id_)
        if text and (ids := theirs.spell(text)):
            found[id_] = tuple(ids)
    return found


def _languages(ours: TextEncoder, theirs: TextEncoder) -> dict[int, tuple[int, ...]]:
    """Returns, for each language token here, that of the same language there, or else all."""
    known = theirs.languages
    all_known = tuple(known.values())
    return {
        id_: (known[code],) if code in known else all_known
        for code, id_ in ours.languages.items()
        if known
    }


def _symbols(run: RunFolder) -> dict[str, list[str]]:
    """Returns what each id of each side stands for; of a side where that is unknown, nothing."""
    return {side: _symbols_of(encoder, side) for side, encoder in run.encoders.items()}


def _symbols_of(encoder: TextEncoder, side: str) -> list[str]:
    symbols = list(RESERVED_TOKENS)  # a user's encoder need not decode them
    try:
        symbols += map(encoder.symbol, range(len(symbols), encoder.vocab_size))
    except Exception as error:  # a user's encoder may raise anything
        log.warning(
            "%s of the %s cannot decode id %d by itself (%s: %s): of its rows, only those of "
            "padding and EOS match",
            type(encoder).__name__,
            side,
            len(symbols),
            type(error).__name__,
            error,
        )
        return []
    return symbols
