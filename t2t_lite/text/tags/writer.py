"""Writes words and the tags that are placed between them, with white space at the right places."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_lite.text.alignment.units import Unit
from t2t_lite.text.tags.segment import Node, Segment


class Placed(NamedTuple):
    """A node at target words `start` to `end`, excluded; between words where these are equal."""

    node: Node
    start: int
    end: int
    children: list["Placed"]


class _Event(NamedTuple):
    """What stands between two words: a tag or an atom."""

    kind: str  # "open", "close" or "atom"
    node: Node


class Writer:
    """Writes target words and what is placed between them.

    Args:
        segment: says how to escape text, and where atoms have white space.
        target: the translation.
        units: its words.
    """

    def __init__(self, segment: Segment, target: str, units: Sequence[Unit]) -> None:
        self._segment = segment
        self._target = target
        self._units = units
        self._runs: list[list[_Event]] = [[] for _ in range(len(units) + 1)]

    def write(self, placed: Sequence[Placed]) -> str:
        """Returns the text with its tags and placeholders."""
        self._collect(placed)
        last = self._units[0].start if self._units else 0
        parts = [self._target[:last]]
        for number, run in enumerate(self._runs):
            is_end = number == len(self._units)
            start = len(self._target) if is_end else self._units[number].start
            is_start = number == 0
            space = "" if is_start or is_end else self._target[last:start]
            parts += _run(run, space, is_start, is_end, self._parted(run, space, last, start))
            if not is_end:
                last = self._units[number].end
                parts.append(self._segment.escaped(self._target[start:last]))
        return "".join([*parts, self._target[last:]])

    def _parted(self, events: Sequence[_Event], space: str, last: int, start: int) -> set[int]:
        """Returns before which events white space parts atoms from words.

        In the source they need none, if punctuation stands there: "the icon <img>, and". Where
        there are not two words, a word is parted only from an atom that it would change: "%s, a"
        does not become "%sa".

        Args:
            events: what stands between two words.
            space: the white space between these.
            last: where the first one ends, in characters.
            start: where the second one begins.
        """
        atoms = [i for i, event in enumerate(events) if event.kind == "atom"]
        if not atoms:
            return set()
        text, first, final = self._segment.text, events[atoms[0]].node, events[atoms[-1]].node
        before, after = self._target[max(0, last - 1) : last], self._target[start : start + 1]
        are_words = bool(space) and (before + after).isalnum()
        found = set()
        source = text[max(0, first.start - 1) : first.start]
        # Where tags part the two, white space does so only if the source has no word there.
        beside = first.before if not atoms[0] else before if first.is_glued else source
        if (are_words and _is_no_word(source)) or _changes(before, first.opening[:1], beside):
            found.add(_before(events, atoms[0]))
        source = text[final.start : final.start + 1]
        is_last = atoms[-1] == len(events) - 1
        beside = final.after if is_last else after if final.is_glued else source
        if (are_words and _is_no_word(source)) or _changes(after, final.opening[-1:], beside):
            found.add(_after(events, atoms[-1]))
        return found

    def _collect(self, placed: Iterable[Placed]) -> None:
        """Notes for each gap what stands there, in order."""
        for node, start, end, children in placed:
            if node.is_atom:
                self._runs[start].append(_Event("atom", node))
                continue
            self._runs[start].append(_Event("open", node))
            self._collect(children)
            self._runs[end].append(_Event("close", node))


def _run(
    events: Sequence[_Event], space: str, is_start: bool, is_end: bool, parted: set[int]
) -> list[str]:
    """Returns the strings between two words, with white space at the right places.

    Args:
        events: what stands there.
        space: the white space between the words.
        is_start: whether no word comes before.
        is_end: whether no word comes after.
        parted: before which events there is white space though the source has none.
    """
    places = _spaces_of_atoms(events) | parted
    if is_start or is_end:
        places |= set(_spaces_in_elements(events)[:1])
        places -= ({0} if is_start else set()) | ({len(events)} if is_end else set())
    elif space and not places and not any(node.is_glued for _, node in events):
        places = {_place_of_space(events)}
    first = min(places, default=0)
    parts = []
    for i in range(len(events) + 1):
        if i in places:
            parts.append(space if space and i == first else " ")
        if i < len(events):
            kind, node = events[i]
            parts.append(node.closing if kind == "close" else node.opening)
    return parts


def _spaces_of_atoms(events: Sequence[_Event]) -> set[int]:
    """Returns before which events white space stands because atoms have it in the source.

    It stands outside the tags around an atom.
    """
    places = set()
    for i, (kind, node) in enumerate(events):
        if kind != "atom":
            continue
        if node.space_before:
            places.add(_before(events, i))
        if node.space_after:
            places.add(_after(events, i))
    return places


def _changes(character: str, edge: str, beside: str) -> bool:
    """Whether an atom with this edge would be another one beside a character of the target.

    Placeholders are made of ASCII's letters and digits. If such a letter stands beside the atom in
    the source, the atom is known to end there.
    """
    is_ascii = [one.isascii() and one.isalnum() for one in (character, edge, beside)]
    return is_ascii == [True, True, False]


def _is_no_word(character: str) -> bool:
    """Whether a character is punctuation, or there is none."""
    return not (character.isalnum() or character.isspace())


def _before(events: Sequence[_Event], i: int) -> int:
    """Returns the first of the tags around an atom that begin before it."""
    while i and events[i - 1].kind == "open":
        i -= 1
    return i


def _after(events: Sequence[_Event], i: int) -> int:
    """Returns what follows the tags around an atom that end after it."""
    i += 1
    while i < len(events) and events[i].kind == "close":
        i += 1
    return i


def _place_of_space(events: Sequence[_Event]) -> int:
    """Returns before which event white space stands: outside elements, unless it was inside."""
    closes = [i + 1 for i, event in enumerate(events) if event.kind == "close"]
    return [*_spaces_in_elements(events), max(closes, default=0)][0]


def _spaces_in_elements(events: Sequence[_Event]) -> list[int]:
    """Returns before which events white space stands that is within elements in the source."""
    ends = [i for i, (kind, node) in enumerate(events) if kind == "close" and node.space_after]
    starts = [
        i + 1 for i, (kind, node) in enumerate(events) if kind == "open" and node.space_before
    ]
    return [*ends[:1], *starts[-1:]]
