"""Puts the tags of a segment into its translation, by an alignment of words.

Each element gets the contiguous span of target words that agrees best with the alignment, within
the span of the element around it and outside those of its siblings: so tags never cross, and each
is there once. Atoms go to the gap between words whose neighbours align to their own.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from t2t_lite.text.alignment.units import Unit, align_units, units_of
from t2t_lite.text.source_form import has_text
from t2t_lite.text.tags.carried import agreeing, restored, without
from t2t_lite.text.tags.codes import in_order
from t2t_lite.text.tags.kinds import XML
from t2t_lite.text.tags.segment import Node, Segment
from t2t_lite.text.tags.writer import Placed, Writer

_HARD = 0.9  # how much the best word of an alignment counts; the rest is its soft weights
_THRESHOLD = 0.5  # a word joins an element if more of it than this aligns to the element
_TAKEN = -1e9
_NEARNESS = 1e-3  # what position counts where the alignment does not decide


def place(
    segment: Segment,
    target: str,
    source_tokens: Sequence[str] = (),
    target_tokens: Sequence[str] = (),
    attention: np.ndarray | None = None,
) -> str:
    """Returns a translation with the tags and placeholders of its source.

    Args:
        segment: the source.
        target: the translation of its `text`.
        source_tokens: S tokens that the model read, as text.
        target_tokens: T tokens that it wrote.
        attention: [T, S], or another soft alignment; None: words align by their position.
    """
    if not has_text(segment.text):
        return segment.source.strip()
    segment, target = agreeing(segment, target)
    source_units = units_of(segment.text, _borders(segment.nodes))
    target_units = units_of(target)
    alignment = align_units(
        segment.text,
        source_units,
        target,
        target_units,
        source_tokens,
        target_tokens,
        attention,
    )
    target_units, alignment = _split_copies(
        segment.text, source_units, target, target_units, alignment
    )
    placer = _Placer(source_units, _sharpened(alignment))
    placed = placer.place(segment.nodes, 0, len(target_units))
    if astray := _astray(segment, placed, target, target_units):
        segment, target = without(segment, target, astray)
        return place(segment, target, source_tokens, target_tokens, attention)
    written = restored(segment, Writer(segment, target, target_units).write(placed))
    return in_order(written, segment.source) if segment.kind == XML else written


def _astray(segment: Segment, placed: Sequence[Placed], target: str, units: Sequence[Unit]) -> set:
    """Returns the marks that have left their element in the source, or come into another."""
    found = set()
    for mark in (mark for mark, _ in segment.marked if mark):
        at, there = segment.text.index(mark), target.index(mark)
        unit = next(i for i, (start, end) in enumerate(units) if start <= there < end)
        if _around(segment.nodes, at) != _around_placed(placed, unit):
            found.add(mark)
    return found


def _around(nodes: Sequence[Node], at: int) -> list[int]:
    """Returns the identities of the elements around a character of the source, from outside."""
    for node in nodes:
        if node.start <= at < node.end:
            return [id(node), *_around(node.children, at)]
    return []


def _around_placed(placed: Sequence[Placed], unit: int) -> list[int]:
    """Returns those around a word of the target."""
    for node, start, end, children in placed:
        if start <= unit < end:
            return [id(node), *_around_placed(children, unit)]
    return []


def _borders(nodes: Iterable[Node]) -> set[int]:
    """Returns where elements begin and end and atoms are, in characters of the text."""
    found: set[int] = set()
    for node in nodes:
        found |= {node.start, node.end} | _borders(node.children)
    return found


def _split_copies(
    source: str,
    source_units: Sequence[Unit],
    target: str,
    target_units: Sequence[Unit],
    alignment: np.ndarray,
) -> tuple[list[Unit], np.ndarray]:
    """Cuts target words where a tag cuts the equal source word, such as H<sub>2</sub>O."""
    if not alignment.size:
        return list(target_units), alignment
    words = _whole_words(source_units)
    cut = {(first, last): source[start:end] for first, last, start, end in words if first < last}
    units: list[Unit] = []
    rows: list[np.ndarray] = []
    for unit, row, best in zip(target_units, alignment, alignment.argmax(axis=1), strict=True):
        first, last, start, _ = words[best]
        if cut.get((first, last)) != target[unit.start : unit.end]:
            units.append(unit)
            rows.append(row)
            continue
        shift = unit.start - start
        for i in range(first, last + 1):
            units.append(Unit(source_units[i].start + shift, source_units[i].end + shift))
            rows.append(np.eye(1, row.size, i)[0])
    return units, np.array(rows)


def _whole_words(units: Sequence[Unit]) -> list[tuple[int, int, int, int]]:
    """Returns for each part of a word the first and the last part, and where these begin and end.

    The places are those of units, and of characters.
    """
    starts = [i for i, unit in enumerate(units) if not i or units[i - 1].end < unit.start]
    words = []
    for first, following in itertools.pairwise([*starts, len(units)]):
        word = first, following - 1, units[first].start, units[following - 1].end
        words += [word] * (following - first)
    return words


def _sharpened(alignment: np.ndarray) -> np.ndarray:
    """Returns an alignment [U, V] in which the best source word of each row has most weight.

    Best is what is best for both sides: a comma or the last word, to which many words attend, has
    a large sum over its column, which its weights are divided by.
    """
    if not alignment.size:
        return alignment
    mutual = alignment**2 / np.maximum(alignment.sum(axis=0), 1e-9)
    best = np.zeros_like(alignment)
    best[np.arange(len(alignment)), mutual.argmax(axis=1)] = 1.0
    return _HARD * best + (1 - _HARD) * alignment


class _Placer:
    """Chooses the places of nodes.

    Args:
        source_units: the V words of the source.
        alignment: [U, V].
    """

    def __init__(self, source_units: Sequence[Unit], alignment: np.ndarray) -> None:
        self._starts = np.array([unit.start for unit in source_units], int)
        self._ends = np.array([unit.end for unit in source_units], int)
        self._alignment = alignment
        zeros = np.zeros([len(alignment), 1])
        self._sums = np.concatenate([zeros, np.cumsum(alignment, axis=1)], axis=1)  # [U, V + 1]

    def place(self, nodes: Sequence[Node], low: int, high: int) -> list[Placed]:
        """Returns sibling nodes in the order of the target, within its words low to high."""
        placed: dict[int, tuple[int, int]] = {}
        is_free = np.ones(high - low, bool)  # not in a sibling
        is_gap = np.ones(high - low + 1, bool)  # not within a sibling
        elements = [i for i, node in enumerate(nodes) if not node.is_atom]
        # What covers most of the text has the first choice; sorting keeps the order of equals.
        for i in sorted(elements, key=lambda i: nodes[i].start - nodes[i].end):
            start, end = self._span(nodes[i], low, is_free)
            if start < end:
                is_free[start - low : end - low] = False
                is_gap[start - low + 1 : end - low] = False
                placed[i] = start, end
        for i, node in enumerate(nodes):
            if i not in placed:
                gap = self._gap(node, low, high, is_gap)
                placed[i] = gap, gap
        order = sorted(placed, key=lambda i: (placed[i][0], placed[i][0] < placed[i][1], i))
        return [
            Placed(nodes[i], *placed[i], self.place(nodes[i].children, *placed[i])) for i in order
        ]

    def _span(self, node: Node, low: int, is_free: np.ndarray) -> tuple[int, int]:
        """Returns the target words of an element; none if none is free."""
        if not is_free.any():
            return low, low
        first, last = self._columns(node.start, node.end)
        rows = self._sums[low : low + len(is_free)]
        shares = np.where(is_free, rows[:, last] - rows[:, first] - _THRESHOLD, _TAKEN)  # [U']
        best = int(shares.argmax())
        if shares[best] <= 0:  # no word is the element's own: take the likeliest
            return low + best, low + best + 1
        sums = np.concatenate([[0.0], np.cumsum(shares)])
        # The greatest sum of neighbours: from the least sum before each place.
        gains = sums[1:] - np.minimum.accumulate(sums)[:-1]
        end = int(gains.argmax()) + 1
        start = int(sums[:end].argmin())
        return low + start, low + end

    def _gap(self, node: Node, low: int, high: int, is_gap: np.ndarray) -> int:
        """Returns the number of the word before which a node without words of its own goes."""
        before, after = self._columns(node.start, node.end)
        rows = self._alignment[low:high]
        columns = rows.shape[1]
        scores = np.zeros(high - low + 1)
        edge = 1.0  # what is at the start or end of a text mostly stays there
        if before > 0:
            scores[1:] += rows[:, before - 1]
        else:
            scores[0] += edge if low == 0 else 0.0
        if after < columns:
            scores[:-1] += rows[:, after]
        else:
            scores[-1] += edge if high == len(self._alignment) else 0.0
        here = (before + after) / 2 / max(columns, 1)
        there = np.arange(low, high + 1) / max(len(self._alignment), 1)
        scores -= _NEARNESS * np.abs(there - here)
        return low + int(np.where(is_gap, scores, _TAKEN).argmax())

    def _columns(self, start: int, end: int) -> tuple[int, int]:
        """Returns the first source word at or after `start`, and the first at or after `end`."""
        first = int(np.searchsorted(self._ends, start, side="right"))
        return first, max(first, int(np.searchsorted(self._starts, end, side="left")))
