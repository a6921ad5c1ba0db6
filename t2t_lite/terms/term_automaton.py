"""The automaton that tells which terms a hypothesis contains, for a search.

After Aho and Corasick (1975): a node for each beginning of a spelling, so that one step for each id
finds all spellings, wherever they begin. Here spellings count between the borders of words only. An
id is read as a column: that of its kind, or its own if it belongs to a spelling.
"""

from collections.abc import Iterable, Sequence
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

_NO_TERM = -1

# A spelling [ids], and its term; _NO_TERM: it is forbidden.
_Spelling = tuple[tuple[int, ...], int]


class TermTables(NamedTuple):
    """The automaton of a sentence, for C terms; or those of a batch, with another dimension B."""

    ids: np.ndarray  # [U], that of each column: EOS, then those in spellings; 0: the four kinds
    following: np.ndarray  # [N, U], the next node for each column
    completes: np.ndarray  # [N, U, C], which terms it completes: 0 or 1
    is_forbidden: np.ndarray  # [N, U], whether it completes a forbidden word: 0 or 1
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
    return _Automaton(spellings, speller.borders, cost).tables(counts)


def batched(tables: Sequence[TermTables]) -> TermTables:
    """Returns the automata of a batch, filled up to the same sizes."""

    def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
        shape = np.max([part.shape for part in parts], axis=0)
        found = np.zeros([len(parts), *shape], np.int32)
        for row, part in zip(found, parts, strict=True):
            row[tuple(slice(size) for size in part.shape)] = part
        return found

    return TermTables(*map(stacked, zip(*tables, strict=True)))


class _Automaton:
    """Nodes are beginnings of spellings; the first two, before any spelling, are the empty one."""

    def __init__(
        self, spellings: Sequence[_Spelling], borders: IdBorders, cost: np.ndarray
    ) -> None:
        self._spellings = spellings
        self._borders = borders
        self._cost = cost
        paths = {ids[:end] for ids, _ in spellings for end in range(1, len(ids) + 1)}
        self._paths = [(), (), *sorted(paths, key=lambda path: (len(path), path))]
        self._nodes = {path: node for node, path in enumerate(self._paths) if path}

    def tables(self, needed: np.ndarray) -> TermTables:
        """Returns the tables."""
        own = [EOS_ID, *sorted({i for path in self._paths for i in path} - {EOS_ID})]
        begins = [*_BEGINS, *self._borders.begins[own]]
        ends = [*_ENDS, *self._borders.ends[own]]
        columns = [*[PAD_ID] * KINDS, *own]
        shape = len(self._paths), len(columns)
        following = np.zeros(shape, np.int32)
        completes = np.zeros([*shape, len(needed)], np.int32)
        is_forbidden = np.zeros(shape, np.int32)
        left = np.tile(self._cost, [shape[0], 1])
        for node, path in enumerate(self._paths):
            reading = self._reading(path)
            for term, more in reading:
                if term != _NO_TERM:
                    left[node, term] = min(left[node, term], more)
            complete = {term for term, more in reading if not more}
            for column, id_ in enumerate(columns):
                is_border = begins[column] or self._ends(node)
                following[node, column] = self._next(path, id_, is_border, ends[column])
                if is_border:
                    completes[node, column, [*complete - {_NO_TERM}]] = 1
                    is_forbidden[node, column] = _NO_TERM in complete
        tables = (np.array(columns, np.int32), following, completes, is_forbidden, left)
        return TermTables(*tables, needed, self._cost)

    def _ends(self, node: int) -> bool:
        """Whether a word may end at a node."""
        path = self._paths[node]
        return bool(self._borders.ends[path[-1]]) if path else node == _AT_BORDER

    def _reading(self, path: tuple[int, ...]) -> list[tuple[int, int]]:
        """Returns the term of each spelling that is being read at a node, and how much is left."""
        suffixes = [path[i:] for i in range(len(path)) if self._may_begin(path, i)]
        return [
            (term, len(ids) - len(suffix))
            for suffix in suffixes
            for ids, term in self._spellings
            if ids[: len(suffix)] == suffix
        ]

    def _may_begin(self, path: tuple[int, ...], place: int) -> bool:
        """Whether a spelling may begin at a place of a path."""
        if not place:
            return True
        return bool(self._borders.ends[path[place - 1]] or self._borders.begins[path[place]])

    def _next(self, path: tuple[int, ...], id_: int, is_border: bool, ends: bool) -> int:
        """Returns the node of the longest beginning of a spelling that ends with this id."""
        longer = (*path, id_)
        for i in range(len(longer)):
            may_begin = is_border if i == len(path) else self._may_begin(longer, i)
            if may_begin and longer[i:] in self._nodes:
                return self._nodes[longer[i:]]
        return _AT_BORDER if ends else _IN_WORD


def _least(forms: Sequence[str]) -> list[str]:
    """Returns the forms that do not contain another one, which is then met, too."""
    return [
        form for form in forms if not any(other != form and occurs(other, form) for other in forms)
    ]
