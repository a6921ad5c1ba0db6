"""Marks that a model has carried from a source to its translation, or has not."""

import re
from collections.abc import Container

from t2t_lite.text.marks import PLACEHOLDERS
from t2t_lite.text.tags.segment import Segment, parse

_MARKS = re.compile(f"([{PLACEHOLDERS}])")


def agreeing(segment: Segment, target: str) -> tuple[Segment, str]:
    """Returns source and target with the same marks, each once.

    A piece whose mark the target lacks becomes an atom; what more of a mark there is goes.
    """
    missing = {mark for mark, _ in segment.marked if mark not in target}
    return _with_atoms(segment, missing) if missing else segment, _clean(segment, target)


def without(segment: Segment, target: str, marks: Container[str]) -> tuple[Segment, str]:
    """Returns a source in which the pieces of some marks are atoms, and its target."""
    segment = _with_atoms(segment, marks)
    return segment, _clean(segment, target)


def restored(segment: Segment, written: str) -> str:
    """Returns a text with the pieces of the source in the places of their marks."""
    return written.translate({ord(mark): piece for mark, piece in segment.marked if mark})


def _with_atoms(segment: Segment, marks: Container[str]) -> Segment:
    kept = ["" if mark in marks else mark for mark, _ in segment.marked]
    return parse(segment.source, segment.kind, kept)


def _clean(segment: Segment, target: str) -> str:
    """Returns a target without marks that its source lacks, and with one of each other."""
    own = {mark for mark, _ in segment.marked}
    known = {*_MARKS.findall(segment.text)}
    seen: set[str] = set()
    parts = _MARKS.split(target)  # every other one is a mark
    for i in range(1, len(parts), 2):
        mark = parts[i]
        if mark not in known or (mark in own and mark in seen):
            parts[i] = ""
            parts[i - 1] = parts[i - 1].removesuffix(" ")
        seen.add(mark)
    cleaned = "".join(parts)
    return cleaned if target[:1].isspace() else cleaned.lstrip()
