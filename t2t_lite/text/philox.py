"""Random numbers as a function of a key and a counter: Philox4x32-10, vectorised.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". There is no state: what
is drawn for an example depends neither on what was drawn for others nor on the order of drawing.
"""

import numpy as np

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LANES = 4  # numbers per counter
_LOW, _BITS = np.uint64(2**32 - 1), np.uint64(32)


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Returns four random numbers for each counter.

    Args:
        counters: 32-bit words in uint64 `[n, 4]`.
        key: two integers, of which the lowest 32 bits count.

    Returns:
        uint32 `[n, 4]`.
    """
    one, two, three, four = counters.T  # each [n]
    for number in range(_ROUNDS):
        words = [np.uint64((k + number * w) % 2**32) for k, w in zip(key, _WEYL, strict=True)]
        first, second = one * _MULTIPLIERS[0], three * _MULTIPLIERS[1]
        one, two, three, four = (
            (second >> _BITS) ^ two ^ words[0],
            second & _LOW,
            (first >> _BITS) ^ four ^ words[1],
            first & _LOW,
        )
    return np.stack([one, two, three, four], axis=1).astype(np.uint32)


def draw(key: tuple[int, int], stream: int, examples: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns random numbers for some examples, a function of key, stream and example alone.

    Args:
        key: two integers, such as seed and epoch.
        stream: what the numbers are for; other streams are independent.
        examples: numbers of the examples, int64 `[n]`.
        counts: how many random numbers each of them gets, int64 `[n]`.

    Returns:
        uint32 `[sum of counts]`, example after example.
    """
    blocks = -(-counts // _LANES)  # [n]
    block = np.arange(blocks.sum()) - np.repeat(blocks.cumsum() - blocks, blocks)  # [m]
    example = np.repeat(examples, blocks)  # [m]
    words = [block, np.full_like(block, stream), example & 0xFFFFFFFF, example >> 32]
    numbers = philox(np.stack(words, axis=1).astype(np.uint64), key)  # [m, 4]
    wanted = np.repeat(counts, blocks)  # [m]
    position = block[:, None] * _LANES + np.arange(_LANES)  # [m, 4]
    drawn: np.ndarray = numbers[position < wanted[:, None]]
    return drawn
