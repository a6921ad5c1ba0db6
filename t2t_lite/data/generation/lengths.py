"""Tables of the lengths of pairs of text, for a terminal."""

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

SIDES = ("inputs", "targets")
_BINS = 10
_BAR = 20  # characters

# Number of pairs with each (source length, target length).
Lengths = collections.Counter[tuple[int, int]]


def describe(units: Mapping[str, Lengths], sides: Sequence[str]) -> Iterator[str]:
    """Yields a table of means and quantiles, then a histogram for each unit.

    Args:
        units: the lengths in words, tokens and so on; units without a pair are left out.
        sides: those that samples have: a language model has no inputs.
    """
    counted = {unit: lengths for unit, lengths in units.items() if lengths}
    rows = [["per line", "mean", "median", "95 %", "max"]]
    for unit, lengths in counted.items():
        both, pairs = arrays(lengths)
        rows += [[f"{unit} of {s}", *_moments(both[:, SIDES.index(s)], pairs)] for s in sides]
    yield table(rows)
    for unit, lengths in counted.items():
        yield _histogram(unit, lengths, sides)


def arrays(lengths: Lengths) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lengths of source and target, int64 `[n, 2]`, and how many pairs have them."""
    return (
        np.array(list(lengths), np.int64).reshape([-1, 2]),
        np.array(list(lengths.values()), np.int64),
    )


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> int:
    """Returns the weighted quantile: the least value that `share` of the weight does not exceed."""
    order = values.argsort()
    up_to = weights[order].cumsum()
    return int(values[order][np.searchsorted(up_to, share * up_to[-1])])


def _moments(values: np.ndarray, weights: np.ndarray) -> list[str]:
    mean = np.average(values, weights=weights)
    quantiles = [_quantile(values, weights, share) for share in (0.5, 0.95, 1)]
    return [f"{mean:.1f}", *(f"{quantile:,}" for quantile in quantiles)]


def _histogram(unit: str, lengths: Lengths, sides: Sequence[str]) -> str:
    """Returns a histogram of each side's lengths; the last bin is open, with 1 % or less."""
    both, pairs = arrays(lengths)
    columns = [both[:, SIDES.index(side)] for side in sides]
    usual = max(_quantile(column, pairs, 0.99) for column in columns)
    round_numbers = (n * 10**power for power in itertools.count() for n in (1, 2, 5))
    width = next(n for n in round_numbers if n * (_BINS - 1) > usual)
    bins = [(column // width).clip(max=_BINS - 1) for column in columns]
    counts = [np.bincount(one, weights=pairs, minlength=_BINS) for one in bins]
    most = max(count.max() for count in counts)
    rows = [[unit, *itertools.chain.from_iterable((side, "") for side in sides)]]
    for number, here in enumerate(zip(*counts, strict=True)):
        start, end = number * width, (number + 1) * width - 1
        row = [f"{start:,}+" if number == _BINS - 1 else f"{start:,}-{end:,}"]
        for count in here:
            row += [f"{count:,.0f}", "#" * round(_BAR * count / most)]
        rows.append(row)
    return table(rows, left=(0, 2, 4))


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Returns aligned columns, those in `left` flush left, and an empty line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, ""])
