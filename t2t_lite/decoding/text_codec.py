"""From text to ids and back: encodes sources and targets, and splits or truncates long sources."""

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from t2t_lite.data.problem import Output, Problem
from t2t_lite.decoding import long_lines
from t2t_lite.decoding import pivot as pivoting
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.suggestions import SuggestingText
from t2t_lite.errors import DataError, UsageError
from t2t_lite.markup.segment import parse
from t2t_lite.search.decode_hparams import LONGEST
from t2t_lite.terms.term_list import MOST_WANTED, TermList
from t2t_lite.text.languages import ANY, Languages, speaking
from t2t_lite.text.source_form import ZERO_WIDTH_SPACE, has_text
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TextEncoder, TokenTextEncoder

log = logging.getLogger(__name__)

# An output is one line of a file, and one column where all beams are written.
_SEPARATORS = str.maketrans("\n\r\t", "   ")

# By how much the numbers of two lines' pieces differ, so that sampling draws others for each line.
_LINE_STRIDE = 1 << 16


class TextCodec:
    """Encodes the text that a model reads, and decodes the ids that it outputs.

    Args:
        problem: converts lines to sources, and outputs to what users see.
        encoders: the encoders of "inputs" and "targets".
        max_input_size: the ids that a source may have, EOS included; 0: no limit.
        long_input: what `pieces` does with longer lines: "split" or "truncate".
        suggests_terms: whether the model reads the terms of its sources beside them.
        marks: what the model reads in place of pieces of markup; "": nothing.
    """

    def __init__(
        self,
        problem: Problem,
        encoders: Mapping[str, TextEncoder],
        max_input_size: int = 0,
        long_input: str = "split",
        suggests_terms: bool = False,
        marks: str = "",
    ) -> None:
        self._problem = problem
        self.has_inputs = problem.has_inputs
        self._encoders = encoders
        self._max_input_size = max_input_size
        self._marks = marks
        self._suggests_terms = suggests_terms
        self._has_lines = problem.can_split_sources
        self._splits = long_input == "split" and problem.can_split_sources

    def encode(
        self,
        lines: Sequence[str],
        name: str = "line",
        first: int = 1,
        languages: Languages = ANY,
        markup: str = "",
        terms: TermList | None = None,
        pivot: str = "",
    ) -> list[Source]:
        """Returns each line with its ids; no ids for a line without text.

        In a language model the lines are prompts, which may be empty: prefixes of the outputs.

        Args:
            lines: one sentence each; surrounding white space is dropped.
            name: what messages call a line, before its number.
            first: the number of the first line.
            languages: where they differ from those of the encoders.
            markup: the kind of the lines' markup, which is taken out of the sources and put into
                their outputs; "": they have none. See `Decoder.check_markup`.
            terms: what their outputs must and must not contain; see `Decoder.check_terms`.
            pivot: the language by way of which they are translated; "": none.

        Raises:
            DataError: a line has a token that is not in the vocabulary, or the model needs a
                language; a line names one, though there is a pivot; a line asks for more terms than
                a search can mind.
            UsageError: the model does not know a language, the pivot is one of the two, or the
                problem translates nothing.
        """
        then = None
        if pivot:
            if not (self.has_inputs and self._has_lines):
                raise UsageError(
                    f"pivot={pivot}: {self._problem.name} translates no text; leave the pivot out"
                )
            languages, then = pivoting.steps(self._encoders, languages, pivot)
        spoken = speaking(self._encoders, languages)
        if not self.has_inputs:
            prompts = [self._problem.source(line) for line in lines]
            prefixes = self.encode_targets(prompts, name, first)
            for number, prefix in enumerate(prefixes, first):
                if self._is_too_long(prefix):
                    size, limit = len(prefix), self._max_input_size
                    log.warning(
                        "%s %d: the prompt has %d subwords, more than max_input_size=%d, and is "
                        "read whole: what follows may be poor",
                        *(name, number, size, limit),
                    )
            numbered = enumerate(zip(prompts, prefixes, strict=True), first)
            return [Source(text, (), number, prefix) for number, (text, prefix) in numbered]
        start = spoken["targets"].start_ids()
        encoder, encoded = self._encoders["inputs"], []
        if terms and encoder.reads_source_form:
            terms = terms.of_source_form
        for number, line in enumerate(lines, first):
            segment = parse(line, markup, self._marks) if markup else None
            given = self._problem.source(line if segment is None else segment.text)
            text = encoder.as_source(given, segment.marks if segment else "")
            if segment is not None and encoder.reads_source_form:
                segment = segment.in_source_form()
            # By way of a pivot, the terms are those of the second step.
            suggested = None if pivot else terms
            _require_few_terms(text, suggested, f"{name} {number}")
            ids = self._source_ids(text, f"{name} {number}", languages, suggested)
            # All pieces of a line have the language that it names at its start.
            named = encoder.named_language(text)
            if pivot:
                self._refuse_named_languages(text, f"{name} {number}")
            own = languages._replace(target=named) if named else languages
            source = Source(text, ids, number, languages=own, start=start, segment=segment)
            given = "" if given == text else given
            encoded.append(source._replace(terms=terms, then=then, given=given))
        return encoded

    def encode_again(self, source: Source, text: str, name: str) -> Source:
        """Returns a translation to a pivot as the source of the second step, with its languages.

        Args:
            source: what it is the translation of.
            text: the translation, with its markup.
            name: as in `encode`.
        """
        (encoded,) = self.encode(
            [text],
            name,
            first=source.number,
            languages=source.then or ANY,
            markup="" if source.segment is None else source.segment.kind,
            terms=source.terms,
        )
        return encoded._replace(prefix=source.prefix)

    def _refuse_named_languages(self, text: str, place: str) -> None:
        """Raises DataError if a line of a text names the language of its translation."""
        named = map(self._encoders["inputs"].named_language, map(str.strip, text.split("\n")))
        if language := next(filter(None, named), ""):
            raise DataError(
                f"{place} begins with >>{language}<<, but is translated by way of a pivot: name "
                f"the language by target_language={language}"
            )

    def encode_targets(
        self, lines: Sequence[str], name: str, first: int = 1, languages: Languages = ANY
    ) -> list[list[int]]:
        """Returns the ids of target texts, without EOS and language; arguments as in `encode`.

        Raises:
            DataError: as in `encode`, or a target is too long to be scored.
        """
        encoder, targets = speaking(self._encoders, languages)["targets"], []
        for number, line in enumerate(lines, first):
            place = f"{name} {number}"
            ids = _encode(encoder, line.strip(), place)[len(encoder.start_ids()) :]
            if len(ids) > LONGEST:
                raise DataError(
                    f"{place}: {len(ids)} subwords, more than {LONGEST}: memory grows with the "
                    "square of this number; shorten the line, or leave it out"
                )
            targets.append(ids)
        return targets

    def start_of(self, ids: Sequence[int]) -> Sequence[int]:
        """Returns the start of a target's ids that its text does not show, such as its language.

        A target without any, as in a test set without references, has the encoder's own.
        """
        encoder = self._encoders["targets"]
        return encoder.start_of(ids) or encoder.start_ids()

    def size(self, source: Source) -> int:
        """Returns how many ids a model reads, EOS included; 0: there is nothing to decode."""
        return len(source.ids) if self.has_inputs else len(source.prefix) + 1

    def source_text(self, ids: Sequence[int]) -> str:
        """Returns source ids as one line of text."""
        return self._encoders["inputs"].decode(ids).translate(_SEPARATORS)

    def target_text(self, ids: Sequence[int]) -> str:
        """Returns target ids as one line of text."""
        return self._encoders["targets"].decode(ids).translate(_SEPARATORS)

    def reference_text(self, ids: Sequence[int]) -> str:
        """Returns target ids as one line of text in which no unknown word matches an output's."""
        return self._encoders["targets"].decode_reference(ids).translate(_SEPARATORS)

    def source_details(
        self, source: Source, attention: np.ndarray | None
    ) -> tuple[list[str], np.ndarray | None]:
        """Returns the tokens of a source as text, EOS included, and the attention to them.

        Args:
            source: the source; terms that it suggests to the model are not shown.
            attention: [T, S], to what the model reads; None: not known.
        """
        tokens = self.source_tokens(source.ids)
        if not (self._suggests_terms and source.terms and source.terms.wanted(source.text)):
            return tokens, attention
        return SuggestingText(source.text, source.terms).without(tokens, attention)

    def source_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns each source id as text, EOS included."""
        return _token_texts(self._encoders["inputs"], ids)

    def target_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns each target id as text, EOS included."""
        return _token_texts(self._encoders["targets"], ids)

    def output(
        self, source: Source, ids: Sequence[int], attention: np.ndarray | None = None
    ) -> Output:
        """Returns target ids, without EOS, as users see them.

        Args:
            source: what they are the output for.
            ids: the target.
            attention: to the source, [T, S]; each unknown token is replaced by the source token
                that it attends to most (PosUnk, Luong et al. 2015; None: no token is).
        """
        text = self.target_text(ids)
        if attention is not None:
            text = " ".join(self._without_unknown(source, ids, attention))
        return self._problem.postprocess(source.text, text)

    @property
    def unknown_id(self) -> int | None:
        """The target id of unknown tokens; None if the vocabulary has none."""
        return self._encoders["targets"].oov_id

    def _without_unknown(
        self, source: Source, ids: Sequence[int], attention: np.ndarray
    ) -> Iterator[str]:
        """Yields the tokens of a target; arguments as in `output`."""
        sources = self.source_tokens(source.ids[:-1])
        if isinstance(self._encoders["inputs"], TokenTextEncoder):
            sources = source.text.split()  # the encoder does not know all of them
        tokens = self.target_tokens(ids)
        for id_, token, weights in zip(ids, tokens, attention, strict=False):
            attended = int(np.argmax(weights[: len(source.ids) - 1]))
            yield sources[attended] if id_ == self.unknown_id else token

    def pieces(self, source: Source, name: str) -> list[list[Source]]:
        r"""Returns the pieces to decode of each line, split at "\n" and where a line is too long.

        Neither happens unless the problem's sources may be split. What is still too long is cut.
        """
        lines = self._spaced(source).split("\n") if self._has_lines else [source.text]
        if len(lines) == 1:
            return [self._split(source, name)]
        pieces = [
            self._piece(source, text.strip(), name, line * _LINE_STRIDE)
            for line, text in enumerate(lines)
        ]
        return [self._split(piece, name) for piece in pieces]

    def _spaced(self, source: Source) -> str:
        """Returns the text of a source, with zero-width spaces that models do not read."""
        if ZERO_WIDTH_SPACE not in source.given:
            return source.text
        return self._as_source(source, source.given, ZERO_WIDTH_SPACE)

    def _as_source(self, source: Source, text: str, kept: str = "") -> str:
        """Returns a part of a source as the model reads it, with the marks of its markup."""
        marks = source.segment.marks if source.segment else ""
        return self._encoders["inputs"].as_source(text, kept + marks)

    def _piece(self, source: Source, spaced: str, name: str, piece: int = 0) -> Source:
        """Returns a piece of a source, cut out of `_spaced`; a prefix applies to the first one."""
        text = self._as_source(source, spaced) if has_text(spaced) else ""
        source = source._replace(given="" if spaced == text else spaced)
        ids = self._source_ids(text, f"{name} {source.number}", source.languages, source.terms)
        prefix = () if piece else source.prefix
        return source._replace(text=text, ids=ids, prefix=prefix, piece=source.piece + piece)

    def _split(self, source: Source, name: str) -> list[Source]:
        """Returns pieces of a line that are short enough."""
        if not self._splits or not self._is_too_long(source.ids):
            return [self.truncated(source, name)]
        place, size = f"{name} {source.number}", len(source.ids)
        read = source.languages, source.terms

        def fits(spaced: str) -> bool:
            text = self._as_source(source, spaced)
            return not self._is_too_long(self._source_ids(text, place, *read))

        texts = long_lines.split(self._spaced(source), fits)
        log.info("%s has %d subwords: split into %d pieces", place, size, len(texts))
        pieces = (self._piece(source, text, name, piece) for piece, text in enumerate(texts))
        return [self.truncated(piece, name) for piece in pieces]

    def truncated(self, source: Source, name: str) -> Source:
        """Cuts the ids of a source that is too long; its text stays, since users see all of it."""
        if not self._is_too_long(source.ids):
            return source
        size, limit = len(source.ids), self._max_input_size
        log.warning("%s %d has %d subwords: cut to %d", name, source.number, size, limit)
        return source._replace(ids=[*source.ids[: limit - 1], EOS_ID])

    def _source_ids(
        self, text: str, place: str, languages: Languages, terms: TermList | None
    ) -> list[int]:
        if terms and self._suggests_terms:
            text = SuggestingText(text, terms).text
        ids = _encode(speaking(self._encoders, languages)["inputs"], text, place)
        return [*ids, EOS_ID] if ids else []

    def _is_too_long(self, ids: Sequence[int]) -> bool:
        return 0 < self._max_input_size < len(ids)


def _encode(encoder: TextEncoder, text: str, place: str) -> list[int]:
    try:
        return encoder.encode(text)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


def _require_few_terms(text: str, terms: TermList | None, place: str) -> None:
    size = terms.size(text) if terms else 0
    if size > MOST_WANTED:
        raise DataError(
            f"{place}: the forms of its terms have {size} characters: at most {MOST_WANTED} are "
            "allowed; split the text, or list fewer forms"
        )


def _token_texts(encoder: TextEncoder, ids: Sequence[int]) -> list[str]:
    """Returns each id as text; one that no text shows, such as a language, by its name."""
    return [
        RESERVED_TOKENS[i] if i <= EOS_ID else encoder.decode([i]) or encoder.symbol(i) for i in ids
    ]
