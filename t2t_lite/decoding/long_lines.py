"""Cuts sources into the pieces that a model reads, and joins the hypotheses of these pieces."""

import bisect
import itertools
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import regex

from t2t_lite.data.problem import Output
from t2t_lite.decoding.encoding import StagedCodec
from t2t_lite.decoding.hypotheses import (
    BatchResult,
    Details,
    HypothesesByIndex,
    Hypothesis,
    Source,
)
from t2t_lite.decoding.request import TextOptions
from t2t_lite.text.source_form import ZERO_WIDTH_SPACE, has_text
from t2t_lite.text.text_encoder import EOS_ID

log = logging.getLogger(__name__)

_WHITE = r"[\s\u200b]"
_CLOSING = r"[\p{Pe}\p{Pf}\"']*+"
# A dot that may end an abbreviation or an ordinal, as in "Dr. Smith", "z. B." and "3. Mai".
_NO_END = r"(?<!(?<![\p{L}\p{Nd}])(?:\p{L}|\p{Lu}\p{Ll}{1,2}|\p{Nd}{1,2})\.)"
# Where to break, best first: after a sentence, a clause, white space, a word with another border,
# a syllable. What ends sentences in Latin script is in numbers and addresses, too: white space must
# follow it.
_BREAKS = tuple(
    regex.compile(pattern, regex.V1)
    for pattern in (
        rf"[.!?;…]+{_NO_END}{_CLOSING}{_WHITE}+"
        rf"|(?:[\p{{Sentence_Terminal}}；--[.!?]]++{_CLOSING}(?!\p{{Nd}}){_WHITE}*+)++",
        rf"[,:]{_CLOSING}{_WHITE}+"
        rf"|(?:[\p{{Terminal_Punctuation}}--[\p{{Sentence_Terminal}}\p{{ASCII}}\u1361]]++"
        rf"{_CLOSING}(?!\p{{Nd}}){_WHITE}*+)++",
        r"\s++(?!\p{Terminal_Punctuation})",  # French writes one before "!"
        r"[\u200b\u0f0b\u1361]+",
        # In Thai and Lao, vowels with which syllables begin or end, and what ends words.
        r"(?=\p{Logical_Order_Exception})|[\u0e2f\u0e30\u0e33\u0e46\u0eaf\u0eb0\u0eb3\u0ec6]+",
    )
)
_EDGES = regex.compile(rf"^{_WHITE}+(?![\p{{M}}\u200c\u200d])|{_WHITE}+$")

# What no break may divide: a character with its marks; consonants that are written as one; in Thai
# and Lao, the vowels around their consonant; in Burmese, what closes a syllable.
_UNBROKEN = regex.compile(
    r"\p{Logical_Order_Exception}*\X"
    r"(?:(?<=[\p{InSC=Virama}\p{InSC=Invisible_Stacker}][\u200c\u200d]?)\X"
    r"|[\p{M}\u0e2f\u0e30\u0e32\u0e33\u0e45\u0e46\u0eaf\u0eb0\u0eb2\u0eb3\u0ec6]"
    r"|[\u1000-\u102a]\u1037?\u103a)*",
    regex.V1,
)

_OTHER_BREAKS = re.compile(r"\r\n?")

# What has no space after it: characters of scripts without spaces, full-width punctuation, and
# quotation marks or dots after them.
_NO_SPACE_AFTER = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tibetan}\u3000-\u30ff\uff00-\uff9f][\p{Pf}…—]*+\Z"
)

# Most numbers of a joined attention, almost all of which are 0.
_MOST_ATTENTION = 2**22

_EMPTY = Hypothesis(Output(""), [], 0.0)

# By how much the numbers of two lines' pieces differ, so that sampling draws others for each line.
_LINE_STRIDE = 1 << 16


class FramedText(NamedTuple):
    """A text without the line breaks around it, which no model reads."""

    before: str
    text: str
    after: str

    @classmethod
    def of(cls, text: str) -> "FramedText":
        """Takes a text out of its line breaks; of one that nobody sees, these alone are left."""
        if "\n" not in text:
            return cls("", text, "")
        if not has_text(text):
            return cls("\n" * text.count("\n"), "", "")
        start = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
        end = text.find("\n", len(text.rstrip()))
        before, after = text[:start], text[end:] if end >= 0 else ""
        within = text[start : len(text) - len(after)]
        return cls("\n" * before.count("\n"), within, "\n" * after.count("\n"))

    def framed(self, output: str) -> str:
        """Returns an output with the line breaks of the text."""
        return f"{self.before}{output}{self.after}"

    def all_framed(self, hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
        """Returns hypotheses with the line breaks of the text."""
        if self.before == self.after == "":
            return [*hypotheses]
        return [
            h._replace(output=h.output._replace(text=self.framed(h.output.text)))
            for h in hypotheses
        ]


class Cutter:
    """Cuts sources into pieces.

    Args:
        codec: encodes them.
        long_input: what becomes of lines that are too long: "split" or "truncate".
    """

    def __init__(self, codec: StagedCodec, long_input: str) -> None:
        self._codec = codec
        self._has_lines = codec.problem.can_split_sources
        self._splits = long_input == "split" and self._has_lines

    def framed(self, text: str, options: TextOptions) -> FramedText:
        """Returns a text without its outer line breaks; where lines do not count, none are kept.

        Args:
            text: with plain line breaks.
            options: what is asked of it.
        """
        counts = self._has_lines and not options.are_html
        return FramedText.of(text) if counts else FramedText("", text, "")

    def pieces(self, source: Source, name: str) -> list[list[Source]]:
        r"""Returns the pieces to decode of each line, split at "\n" and where a line is too long.

        Neither happens unless the problem's sources may be split. What is still too long is cut.
        With markup, its blocks or lines are.

        Args:
            source: the source.
            name: what messages call it, before its number.
        """
        if source.parts:
            parts = [
                part._replace(prefix=() if line else source.prefix, piece=line * _LINE_STRIDE)
                for line, part in enumerate(source.parts)
            ]
            return [self._split(part, name) for part in parts]
        lines = self._spaced(source).split("\n") if self._has_lines else [source.text]
        if len(lines) == 1:
            return [self._split(source, name)]
        pieces = [
            self._piece(source, text.strip(), name, line * _LINE_STRIDE)
            for line, text in enumerate(lines)
        ]
        return [self._split(piece, name) for piece in pieces]

    def truncated(self, source: Source, name: str) -> Source:
        """Cuts the ids of a source that is too long; its text stays, since users see all of it."""
        if not self._codec.is_too_long(source.ids):
            return source
        size, limit = len(source.ids), self._codec.max_input_size
        log.warning("%s %d has %d subwords: cut to %d", name, source.number, size, limit)
        return source._replace(ids=[*source.ids[: limit - 1], EOS_ID])

    def _spaced(self, source: Source) -> str:
        """Returns the text of a source, with zero-width spaces that models do not read."""
        if ZERO_WIDTH_SPACE not in source.given:
            return source.text
        return self._codec.as_source(source.given, ZERO_WIDTH_SPACE + source.kept)

    def _piece(self, source: Source, spaced: str, name: str, piece: int = 0) -> Source:
        """Returns a piece of a source, cut out of `_spaced`; a prefix applies to the first one."""
        text = self._codec.as_source(spaced, source.kept) if has_text(spaced) else ""
        source = source._replace(given="" if spaced == text else spaced)
        ids = self._codec.source_ids(source, text, f"{name} {source.number}")
        prefix = () if piece else source.prefix
        return source._replace(text=text, ids=ids, prefix=prefix, piece=source.piece + piece)

    def _split(self, source: Source, name: str) -> list[Source]:
        """Returns pieces of a line that are short enough."""
        if not self._splits or not self._codec.is_too_long(source.ids):
            return [self.truncated(source, name)]
        place, size = f"{name} {source.number}", len(source.ids)

        def fits(spaced: str) -> bool:
            text = self._codec.as_source(spaced, source.kept)
            return not self._codec.is_too_long(self._codec.source_ids(source, text, place))

        texts = split(self._spaced(source), fits)
        log.info("%s has %d subwords: split into %d pieces", place, size, len(texts))
        pieces = (self._piece(source, text, name, piece) for piece, text in enumerate(texts))
        return [self.truncated(piece, name) for piece in pieces]


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halves a text until every piece fits.

    It is broken at the sentence end nearest to its middle; without one at the end of a clause;
    without one at white space; without that at another border of words, such as U+200B; failing
    that, near the middle, but not within a character and its marks, or a syllable.

    Args:
        text: without surrounding white space.
        fits: whether a piece is short enough; not called for single characters.

    Returns:
        The pieces in order, without the white space between them. One that cannot be broken may be
        too long.
    """
    return _split(text, 0, len(text), fits, _Breaks(text))


def _split(
    text: str, start: int, end: int, fits: Callable[[str], bool], breaks: "_Breaks"
) -> list[str]:
    """Returns the pieces of a part of a text."""
    piece = _EDGES.sub("", text[start:end])
    if len(piece) < 2 or fits(piece):
        return [piece] if piece else []
    at = breaks.nearest(start, end)
    if not at:
        return [piece]
    return [*_split(text, start, at, fits, breaks), *_split(text, at, end, fits, breaks)]


def with_plain_breaks(text: str) -> str:
    r"""Writes every line break of a text, "\r\n" or "\r", as "\n"."""
    return _OTHER_BREAKS.sub("\n", text)


def join(outputs: Iterable[str]) -> str:
    """Joins the outputs of a text's pieces, with spaces if the language uses them."""
    texts = [*filter(None, outputs)]
    spaced = [text if _NO_SPACE_AFTER.search(text) else f"{text} " for text in texts[:-1]]
    return "".join([*spaced, *texts[-1:]])


class _Breaks:
    """Where a text may be broken, by kinds of breaks, the best kind first."""

    def __init__(self, text: str) -> None:
        spans = [match.span() for match in _UNBROKEN.finditer(text)]
        places = {start for start, _ in spans}
        kinds = [[match.span() for match in pattern.finditer(text)] for pattern in _BREAKS]
        kinds.append([(start, start) for start, _ in spans])
        # Of each kind, in order: places, and twice the middles of what stands there.
        self._kinds = []
        for kind in kinds:
            found = [(end, start + end) for start, end in kind if end in places]
            self._kinds.append(tuple(map(list, zip(*found, strict=True))) if found else ([], []))

    def nearest(self, start: int, end: int) -> int:
        """Returns where to break a part, nearest to its middle; 0: nowhere within it."""
        for places, middles in self._kinds:
            first, last = bisect.bisect_right(places, start), bisect.bisect_left(places, end)
            if first < last:
                i = bisect.bisect_left(middles, start + end, first, last)
                beside = range(max(i - 1, first), min(i + 1, last))
                return places[min(beside, key=lambda n: abs(middles[n] - start - end))]
        return 0


class PieceJoiner:
    """Joins the hypotheses of pieces, which may arrive in any order.

    Args:
        sizes: the number of pieces of each line of each source; pieces are numbered from 0 over all
            sources.
        known: the pieces of incomplete sources from earlier batches, by batch number.
        finish: given the index of a source and the hypotheses of its lines, returns its own.

    Attributes:
        known: the same.
    """

    def __init__(
        self,
        sizes: Sequence[Sequence[int]],
        known: Mapping[int, HypothesesByIndex],
        finish: Callable[[int, Sequence[list[Hypothesis]]], list[Hypothesis]],
    ) -> None:
        self.known = known
        self._finish = finish
        self._sizes = sizes
        self._pieces = [*map(sum, sizes)]  # of each source
        self._source_of = [index for index, count in enumerate(self._pieces) for _ in range(count)]
        self._waiting: dict[int, dict[int, list[Hypothesis]]] = defaultdict(dict)
        for pieces in known.values():
            for piece, hypotheses in pieces.items():
                self._waiting[self._source_of[piece]][piece] = hypotheses

    def add(self, number: int, found: HypothesesByIndex) -> BatchResult:
        """Adds the hypotheses of a batch's pieces; returns the result of the batch."""
        done = {}
        for piece, hypotheses in found.items():
            source = self._source_of[piece]
            pieces = self._waiting[source]
            pieces[piece] = hypotheses
            if len(pieces) == self._pieces[source]:
                ordered = iter([pieces[i] for i in sorted(pieces)])
                lines = [list(itertools.islice(ordered, size)) for size in self._sizes[source]]
                done[source] = self._finish(source, [_join_pieces(line) for line in lines])
                del self._waiting[source]
        waiting = {i: found[i] for i in found if self._source_of[i] not in done}
        return BatchResult(number, done, waiting)


def join_details(pieces: Sequence[Details]) -> Details:
    """Joins the details of a source's pieces into those of the whole source."""
    return Details(
        [token for piece in pieces for token in piece.source_tokens],
        [token for piece in pieces for token in piece.tokens],
        np.concatenate([piece.log_probs for piece in pieces]),
        _join_attention(pieces),
        any(piece.is_aligned for piece in pieces),  # one that was not read does not tell
    )


def _join_attention(pieces: Sequence[Details]) -> np.ndarray | None:
    """Returns a matrix with those of the pieces along its diagonal.

    None if it is too large, or if that of a piece is not known.
    """
    read = [piece.attention for piece in pieces if piece.tokens or piece.source_tokens]
    known = [attention for attention in read if attention is not None]
    if not known or len(known) < len(read):
        return None
    sizes = np.sum([piece.shape for piece in known], axis=0)
    if sizes.prod() > _MOST_ATTENTION:
        return None
    joined = np.zeros(sizes)
    row = column = 0
    for piece in known:
        rows, columns = piece.shape
        joined[row : row + rows, column : column + columns] = piece
        row, column = row + rows, column + columns
    return joined


def join_lines(
    lines: Sequence[Sequence[Hypothesis]], join: Callable[[Iterable[str]], str] = "\n".join
) -> list[Hypothesis]:
    """Joins the hypotheses of a text's lines by rank.

    Args:
        lines: those of each line, or of each block of HTML; without any, its output is empty.
        join: joins the outputs.
    """
    if not any(lines):
        return []
    ranks = zip(*(line or itertools.repeat(_EMPTY) for line in lines), strict=False)
    return [_join_rank(rank, join) for rank in ranks]


def _join_pieces(pieces: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """Joins the hypotheses of a source's pieces by rank: best with best, second with second."""
    if len(pieces) == 1:
        return list(pieces[0])
    ranks = zip(*filter(None, pieces), strict=False)
    return [_join_rank(rank, join) for rank in ranks]


def _join_rank(rank: Sequence[Hypothesis], join: Callable[[Iterable[str]], str]) -> Hypothesis:
    details = [piece.details for piece in rank if piece.details]
    return Hypothesis(
        Output(join(piece.output.text for piece in rank)),
        list(itertools.chain.from_iterable(piece.ids for piece in rank)),
        sum(piece.score for piece in rank),
        join_details(details) if details else None,
        _join_fields([piece.fields for piece in rank]),
    )


def _join_fields(told: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Joins what stages tell of the blocks of a text, as one list for each name."""
    joined: dict[str, list[Any]] = defaultdict(list)
    for fields in told:
        for name, value in fields.items():
            joined[name] += value if isinstance(value, list) else [value]
    return dict(joined)
