"""Which sentences are decoded together: those of similar length, within a budget of ids."""

from collections.abc import Iterator, Sequence

import numpy as np

# Largest batch, in ids: hypotheses times source length. A shorter source counts as LEAST_LENGTH,
# because a step costs the same whatever the source's length.
BATCH_CELLS = 8192
LEAST_LENGTH = 32


def batches_by_length(
    lengths: Sequence[int], beam_size: int, batch_size: int = 0
) -> Iterator[list[int]]:
    """Yields the indices of sentences to decode together, the longest sentences first.

    Args:
        lengths: of the sentences, in ids; those of length 0 are in no batch.
        beam_size: hypotheses per sentence.
        batch_size: sentences per batch; 0: as many as the budget allows.
    """
    order = [i for i in np.argsort(lengths, kind="stable")[::-1].tolist() if lengths[i]]
    while order:
        longest = max(lengths[order[0]], LEAST_LENGTH)
        size = batch_size or max(1, BATCH_CELLS // (longest * beam_size))
        yield order[:size]
        order = order[size:]
