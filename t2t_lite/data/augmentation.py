"""Pairs for training that show what decoding may add to a source: target words, placeholders.

Both choose among the words that the alignment of the pair (`text.sample.ALIGNMENT`) allows.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from t2t_lite.text.alignment.aligned_spans import AlignedSpan, aligned_spans, equal_spans
from t2t_lite.text.alignment.edited_text import Edit, EditedText, moved_alignment, with_spaces
from t2t_lite.text.alignment.units import Unit, token_of_characters, units_of
from t2t_lite.text.marks import PLACEHOLDERS, TERM_MARKS, require_spelled, suggestion
from t2t_lite.text.subword_sampler import RANGE, Draw
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder

_SIDES = ("inputs", "targets")
_MOST_SPANS = 3  # of a pair


class Pair(NamedTuple):
    """The ids of a pair, with EOS, and its alignment; [] where the data has none."""

    source: list[int]
    target: list[int]
    alignment: list[int]  # see `text.sample.ALIGNMENT`


class PairAugmentation(abc.ABC):
    """Changes some of the pairs, in up to three spans of words each.

    Args:
        encoders: the vocabularies of `inputs` and `targets`.
        share: of the pairs that are changed; one without a fitting span stays.

    Raises:
        UsageError: a vocabulary cannot spell the marks.

    Attributes:
        hparam: the hyperparameter that asks for it, whose value is the share.
        marks: the characters that it writes.
        sides: where it writes them.
        needs_alignment: whether it does nothing without one.
    """

    hparam: ClassVar[str]
    marks: ClassVar[str]
    sides: ClassVar[Sequence[str]]
    needs_alignment: ClassVar[bool] = False

    def __init__(self, encoders: Mapping[str, TextEncoder], share: float) -> None:
        self._share = share
        self._encoders = [encoders[side] for side in _SIDES]
        for side in self.sides:
            require_spelled(self.marks, encoders[side], f"{self.hparam}={share:g}", side)
        self._texts = [_id_texts(encoder) for encoder in self._encoders]

    def __call__(
        self, pairs: Sequence[Pair], draw: Draw, keeps_alignment: bool = True
    ) -> list[Pair]:
        """Returns the pairs after the changes.

        Args:
            pairs: as they are in the data.
            draw: the source of randomness.
            keeps_alignment: whether anybody reads the alignment of changed pairs, which else have
                none.
        """
        counts = np.full(len(pairs), 3 + _MOST_SPANS)
        numbers = draw(counts).reshape(len(pairs), -1) / RANGE  # [n, 6]
        is_chosen = (numbers[:, 0] < self._share).tolist()
        return [
            self._changed(pair, own[1:].tolist(), keeps_alignment) if is_one else pair
            for pair, own, is_one in zip(pairs, numbers, is_chosen, strict=True)
        ]

    def _changed(self, pair: Pair, numbers: Sequence[float], keeps_alignment: bool) -> Pair:
        """Changes a pair by random numbers: how many spans, which; and one more."""
        sides = [pair.source[:-1], pair.target[:-1]]
        if any(e.unknown_id in ids for e, ids in zip(self._encoders, sides, strict=True)):
            return pair  # not all of its text is known
        texts = [encoder.decode(ids) for encoder, ids in zip(self._encoders, sides, strict=True)]
        tokens = self._tokens(sides)
        words = units_of(texts[0]), units_of(texts[1])
        links = _links(texts, words, tokens, pair.alignment)
        count, *picks = numbers[: 1 + _MOST_SPANS]
        left = self._spans(texts[0], texts[1], words, links)
        chosen: list[AlignedSpan] = []
        for pick in picks[: 1 + int(count * _MOST_SPANS)]:
            if left:
                chosen.append(left[int(pick * len(left))])
                left = [span for span in left if not _overlap(span, chosen[-1])]
        if not chosen:
            return pair
        edits = self._edits(texts[1], sorted(chosen), numbers[-1])
        edited = [EditedText(text, own) for text, own in zip(texts, edits, strict=True)]
        new = [
            [*encoder.start_of(ids), *encoder.encode_text(after.text)] if own else ids
            for encoder, ids, after, own in zip(self._encoders, sides, edited, edits, strict=True)
        ]
        alignment: list[int] = []
        if pair.alignment and keeps_alignment:
            moves = zip(edited, tokens, self._tokens(new), strict=True)
            sources, targets = (text.moved_tokens(*both) for text, *both in moves)
            sizes = len(new[0]) + 1, len(new[1]) + 1
            alignment = moved_alignment(pair.alignment, sources, targets, *sizes)
        return Pair([*new[0], EOS_ID], [*new[1], EOS_ID], alignment)

    def _tokens(self, sides: Sequence[Sequence[int]]) -> list[list[str]]:
        """Returns the ids of both sides as text."""
        return [[*map(text, ids)] for text, ids in zip(self._texts, sides, strict=True)]

    @abc.abstractmethod
    def _spans(
        self,
        source: str,
        target: str,
        words: tuple[Sequence[Unit], Sequence[Unit]],
        links: set[tuple[int, int]],
    ) -> list[AlignedSpan]:
        """Returns the spans to choose from, in a fixed order.

        Args:
            source: the source text.
            target: the target text.
            words: those of both.
            links: between the places of the words.
        """

    @abc.abstractmethod
    def _edits(
        self, target: str, spans: Sequence[AlignedSpan], number: float
    ) -> tuple[list[Edit], list[Edit]]:
        """Returns the edits of both sides for some spans, in the order of the source.

        Args:
            target: the target text.
            spans: these.
            number: at random.
        """


class TermAugmentation(PairAugmentation):
    """Writes the target words of a span behind its source words (Dinu et al. 2019: append)."""

    hparam = "term_augmentation"
    marks = TERM_MARKS
    sides = _SIDES[:1]
    needs_alignment = True

    def _spans(
        self,
        source: str,
        target: str,
        words: tuple[Sequence[Unit], Sequence[Unit]],
        links: set[tuple[int, int]],
    ) -> list[AlignedSpan]:
        return aligned_spans(source, words[0], target, words[1], links)

    def _edits(
        self, target: str, spans: Sequence[AlignedSpan], number: float
    ) -> tuple[list[Edit], list[Edit]]:
        edits = [
            Edit(source.end, source.end, suggestion(target[start:end]))
            for source, (start, end) in spans
        ]
        return edits, []


class MarkupAugmentation(PairAugmentation):
    """Puts placeholders into the places of words that are equal, or aligned one to one."""

    hparam = "markup_augmentation"
    marks = PLACEHOLDERS
    sides = _SIDES

    def _spans(
        self,
        source: str,
        target: str,
        words: tuple[Sequence[Unit], Sequence[Unit]],
        links: set[tuple[int, int]],
    ) -> list[AlignedSpan]:
        is_word = [set(side) for side in words]
        aligned = aligned_spans(source, words[0], target, words[1], links)
        single = [s for s in aligned if s.source in is_word[0] and s.target in is_word[1]]
        return sorted({*single, *equal_spans(source, words[0], target, words[1])})

    def _edits(
        self, target: str, spans: Sequence[AlignedSpan], number: float
    ) -> tuple[list[Edit], list[Edit]]:
        first = int(number * len(PLACEHOLDERS))  # so that each is seen as often
        marks = [PLACEHOLDERS[(first + i) % len(PLACEHOLDERS)] for i in range(len(spans))]
        edits = [
            [Edit(*unit, mark) for unit in span] for span, mark in zip(spans, marks, strict=True)
        ]
        source, other = zip(*edits, strict=True)
        return [*source], [*other]


def _id_texts(encoder: TextEncoder) -> Callable[[int], str]:
    """Returns a function that shows an id as text."""
    return functools.cache(lambda id_: encoder.decode([id_]))


def _links(
    texts: Sequence[str],
    words: Sequence[Sequence[Unit]],
    tokens: Sequence[Sequence[str]],
    alignment: Sequence[int],
) -> set[tuple[int, int]]:
    """Returns the links between the places of the words of both sides."""
    if len(alignment) != len(tokens[1]) + 1:
        return set()
    sources, targets = (_words_of_tokens(*side) for side in zip(texts, words, tokens, strict=True))
    return {
        (one, other)
        for token, place in enumerate(alignment[:-1])
        if place - 1 in sources  # neither EOS nor white space
        for one in sources[place - 1]
        for other in targets.get(token, ())
    }


def _words_of_tokens(
    text: str, words: Sequence[Unit], tokens: Sequence[str]
) -> dict[int, list[int]]:
    """Returns the places of the words that each token has characters of."""
    owner = token_of_characters(text, tokens)
    found: dict[int, list[int]] = {}
    for place, (start, end) in enumerate(words):
        for token in dict.fromkeys(owner[start:end]):
            found.setdefault(token, []).append(place)
    with_spaces(found, tokens)
    return found


def _overlap(one: AlignedSpan, other: AlignedSpan) -> bool:
    return any(a.start < b.end and b.start < a.end for a, b in zip(one, other, strict=True))
