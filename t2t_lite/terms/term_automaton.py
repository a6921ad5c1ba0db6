"""The automaton that tells which terms a hypothesis contains, for a search.

After Aho and Corasick (1975): a node for each beginning of a spelling, so that one step for each id
finds all spellings, wherever they begin. Here spellings count between the borders of words only. An
id is read as a column: that of its kind, or its own if it belongs to a spelling.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.terms.spelling import IdBorders, Speller
from t2t_lite.terms.term_list import Wanted, occurs
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

# Columns of the ids that no spelling has: by whether they begin and end a word (see `kinds`).
KINDS = 4
_BEGINS, _ENDS = (False, True, False, True), (False, False, True, True)

# The nodes before any spelling begins: where one may, and within a word.
_AT_BORDER, _IN_WORD = 0, 1
_FIRST = 2  # the first node after these

_NO_TERM = -1

# A spelling [ids], and its term; _NO_TERM: it is forbidden.
_Spelling = tuple[tuple[int, ...], int]


class TermTables(NamedTuple):
    """The automaton of a sentence, for C terms; or those of a batch, with another dimension B.

    A node completes what ends there if the column after it is at a border: if one of `ends` of the
    node and `begins` of the column is 1.
    """

    ids: np.ndarray  # [U], that of each column: EOS, then those in spellings; 0: the four kinds
    begins: np.ndarray  # [U], whether the column begins a word: 0 or 1
    following: np.ndarray  # [N, U], the next node for each column
    ends: np.ndarray  # [N], whether a word may end at the node: 0 or 1
    completes: np.ndarray  # [N, C], which terms end there: 0 or 1
    is_forbidden: np.ndarray  # [N], whether a forbidden word ends there: 0 or 1
    left: np.ndarray  # [N, C], how many ids of a spelling of the term are left
    needed: np.ndarray  # [C], how many times the term must appear
    cost: np.ndarray  # [C], ids of its shortest spelling

    @property
    def total(self) -> int:
        """The ids of all that must appear."""
        return int(self.needed @ self.cost)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to observe."""
        return len(self.ids) == KINDS + 1


def kinds(borders: IdBorders) -> np.ndarray:
    """Returns the kind of each id [V], its column if no spelling has it."""
    return (borders.begins + 2 * borders.ends).astype(np.int32)


def term_tables(wanted: Iterable[Wanted], forbidden: Iterable[str], speller: Speller) -> TermTables:
    """Returns the automaton of a sentence.

    Args:
        wanted: what must appear; what the vocabulary cannot spell is left out.
        forbidden: the words that must not, in all their spellings.
        speller: the vocabulary.
    """
    needed: dict[tuple[str, ...], int] = {}
    for one in wanted:
        needed[one.forms] = needed.get(one.forms, 0) + one.times
    spelled = {
        forms: [*dict.fromkeys(ids for form in _least(forms) for ids in speller.spellings(form))]
        for forms in needed
    }
    terms = [forms for forms in needed if spelled[forms]]
    spellings: list[_Spelling] = [
        (ids, c) for c, forms in enumerate(terms) for ids in spelled[forms]
    ]
    spellings += [(ids, _NO_TERM) for word in forbidden for ids in speller.spellings(word)]
    counts = np.array([needed[forms] for forms in terms], np.int32)
    cost = np.array([min(map(len, spelled[forms])) for forms in terms], np.int32)
    return _tables(spellings, speller.borders, counts, cost)


def batched(tables: Sequence[TermTables]) -> TermTables:
    """Returns the automata of a batch, filled up to the same sizes."""

    def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
        shape = np.max([part.shape for part in parts], axis=0)
        found = np.zeros([len(parts), *shape], np.int32)
        for row, part in zip(found, parts, strict=True):
            row[tuple(slice(size) for size in part.shape)] = part
        return found

    return TermTables(*map(stacked, zip(*tables, strict=True)))


def _tables(
    spellings: Sequence[_Spelling], borders: IdBorders, needed: np.ndarray, cost: np.ndarray
) -> TermTables:
    """Returns the automaton of spellings.

    From a node, an id leads to the longer beginning; where there is none, it leads where it leads
    from the longest node that the beginning ends with, its `shorter` one. Nodes are taken by
    length, so that those of the shorter ones are known.
    """
    own = sorted({i for ids, _ in spellings for i in ids} - {EOS_ID})
    columns = np.array([*[PAD_ID] * KINDS, EOS_ID, *own], np.int32)
    begins = np.array([*_BEGINS, *borders.begins[columns[KINDS:]]])
    ends = np.array([*_ENDS, *borders.ends[columns[KINDS:]]])
    before, column, paths = _nodes(spellings, {int(i): u for u, i in enumerate(columns)})

    size = len(before)
    completes = np.zeros([size, len(needed)], bool)
    is_forbidden = np.zeros(size, bool)
    left = np.tile(cost, [size, 1])
    for (ids, term), path in zip(spellings, paths, strict=True):
        if term == _NO_TERM:
            is_forbidden[path[-1]] = True
        else:
            completes[path[-1], term] = True
            left[path, term] = np.minimum(left[path, term], np.arange(len(ids))[::-1])

    following = np.zeros([size, len(columns)], np.int32)
    following[:_FIRST] = np.where(ends, _AT_BORDER, _IN_WORD)
    shorter = np.full(size, _IN_WORD)
    for length, nodes in enumerate(_by_length(paths)):
        parents, own_columns = before[nodes], column[nodes]
        shorter[nodes] = rest = following[shorter[parents], own_columns]
        following[parents, own_columns] = nodes
        if not length:
            is_begun = begins[own_columns]
            following[_IN_WORD, own_columns[is_begun]] = nodes[is_begun]
        following[nodes] = following[rest]
        completes[nodes] |= completes[rest]
        is_forbidden[nodes] |= is_forbidden[rest]
        left[nodes] = np.minimum(left[nodes], left[rest])
    node_ends = np.array([True, False, *ends[column[_FIRST:]]])
    return TermTables(
        columns, begins, following, node_ends, completes, is_forbidden, left, needed, cost
    )


def _nodes(
    spellings: Sequence[_Spelling], columns: Mapping[int, int]
) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Returns the nodes of all beginnings of spellings.

    Args:
        spellings: the spellings.
        columns: the column of each id.

    Returns:
        The node before each, and the column that leads there from it, [N]; and the nodes of each
        spelling, in order.
    """
    found: dict[tuple[int, int], int] = {}
    paths = []
    for ids, _ in spellings:
        node, path = _AT_BORDER, []
        for id_ in ids:
            node = found.setdefault((node, columns[id_]), _FIRST + len(found))
            path.append(node)
        paths.append(path)
    roots = [(_AT_BORDER, 0)] * _FIRST
    before, column = np.array([*roots, *found], int).T
    return before, column, paths


def _by_length(paths: Sequence[Sequence[int]]) -> Iterator[np.ndarray]:
    """Yields the nodes of each length, the shortest first, each once."""
    for nodes in itertools.zip_longest(*paths, fillvalue=_AT_BORDER):
        yield np.array(sorted({*nodes} - {_AT_BORDER}))


def _least(forms: Sequence[str]) -> list[str]:
    """Returns the forms that do not contain another one, which is then met, too."""
    return [
        form
        for form in forms
        if not any(other != form and other in form and occurs(other, form) for other in forms)
    ]
