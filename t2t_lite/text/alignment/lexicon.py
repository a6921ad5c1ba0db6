"""Counts which ids translate which, and makes a short list of the likeliest."""

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from t2t_lite.text.alignment.diagonal_aligner import DiagonalAligner, Pair
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, RESERVED_TOKENS, TextEncoder

# Less likely translations are noise.
_LEAST_PROBABILITY = 1e-3

# Source ids, target ids and t(target | source), all [R].
Table = tuple[np.ndarray, np.ndarray, np.ndarray]


def learned_table(pairs: Sequence[Pair]) -> Table:
    """Returns the translations of an aligner trained on the pairs."""
    return DiagonalAligner.train(pairs).table()


def counted_table(links: Iterable[tuple[int, int]]) -> Table:
    """Returns the relative frequencies of links, each of a source id to a target id."""
    counts = collections.Counter(links)
    if not counts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    sources, targets = np.array([*counts]).T
    numbers = np.array([*counts.values()])
    return sources, targets, numbers / np.bincount(sources, numbers)[sources]


def make_shortlist(
    table: Table,
    pairs: Iterable[Pair],
    encoders: Mapping[str, TextEncoder],
    frequent: int,
    best: int,
) -> Shortlist:
    """Returns the short list of a table of translations.

    A source id that stands for the same text as a target id has this as a candidate, too: names
    and numbers are copied.

    Args:
        table: the translations.
        pairs: the training pairs, whose most frequent target ids are always candidates.
        encoders: the encoders of "inputs" and "targets".
        frequent: how many of these.
        best: most translations of a source id.
    """
    counts = np.zeros(encoders["targets"].vocab_size, np.int64)
    for _, target in pairs:
        np.add.at(counts, target, 1)
    always = np.argsort(-counts, kind="stable")[:frequent]
    translations = np.zeros([encoders["inputs"].vocab_size, best + 1], np.int32)
    translations[:, 0] = _copies(encoders)
    sources, targets, probabilities = table
    order = np.lexsort((-probabilities, sources))
    order = order[probabilities[order] >= _LEAST_PROBABILITY]
    sources, targets = sources[order], targets[order]
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    kept = (ranks < best) & (sources > EOS_ID)
    translations[sources[kept], ranks[kept] + 1] = targets[kept]
    return Shortlist(always.tolist(), translations, len(counts))


def _copies(encoders: Mapping[str, TextEncoder]) -> np.ndarray:
    """Returns for each source id the target id that stands for the same; 0: none."""
    inputs, targets = encoders["inputs"], encoders["targets"]
    first = len(RESERVED_TOKENS)
    ids = {targets.symbol(id_): id_ for id_ in reversed(range(first, targets.vocab_size))}
    found = [ids.get(inputs.symbol(id_), PAD_ID) for id_ in range(first, inputs.vocab_size)]
    return np.array([PAD_ID] * first + found)
