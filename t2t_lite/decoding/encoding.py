"""Encodes what is asked of texts with them: sources, with the stages that change them."""

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.data.problem import Output, Problem
from t2t_lite.decoding import pivot
from t2t_lite.decoding.engine import Engine
from t2t_lite.decoding.hypotheses import Details, Source
from t2t_lite.decoding.request import NOTHING, TextOptions
from t2t_lite.decoding.stages.registered import Stages
from t2t_lite.decoding.text_codec import TextCodec, encoded_text
from t2t_lite.text.languages import speaking
from t2t_lite.text.tags.blocks import Blocks, Lines
from t2t_lite.text.tags.tokens import Token
from t2t_lite.text.text_encoder import EOS_ID

if TYPE_CHECKING:
    from t2t_lite.decoding.quality import QualityModel

_KEPT = 256  # options whose stages are kept: as many as a server's queue has requests


class StagedCodec(TextCodec):
    """A codec that encodes lines as sources, and decodes the outputs for them.

    Args:
        problem: as in `TextCodec`.
        engine: as in `TextCodec`.
        quality: as in `TextCodec`.

    Attributes:
        stages: returns the `Stages` that options ask for, checked.
    """

    def __init__(
        self, problem: Problem, engine: Engine, quality: "QualityModel | None" = None
    ) -> None:
        super().__init__(problem, engine, quality)
        self.stages = functools.lru_cache(_KEPT)(self._stages)

    def encode(
        self,
        lines: Sequence[str],
        options: TextOptions = NOTHING,
        name: str = "line",
        first: int = 1,
    ) -> list[Source]:
        """Returns each line with its ids; no ids for a line without text.

        In a language model the lines are prompts, which may be empty: prefixes of the outputs.

        Args:
            lines: one sentence each; surrounding white space is dropped.
            options: what is asked of their outputs. They are checked even if there are no lines.
            name: what messages call a line, before its number.
            first: the number of the first line.

        Raises:
            DataError: a line has a token that is not in the vocabulary, the model needs a language,
                or a stage cannot do what the options ask for this line.
            UsageError: the problem, the engine or the search cannot do what the options ask, or the
                model does not know a language.
        """
        self.stages(options)
        numbered = enumerate(lines, first)
        return [self._encoded(line, options, name, number) for number, line in numbered]

    def encode_again(self, source: Source, text: str, name: str) -> Source:
        """Returns a translation to a pivot as the source of the second step.

        Args:
            source: what it is the translation of.
            text: the translation, as users would see it.
            name: as in `encode`.
        """
        then = self.stages_of(source).then
        assert then is not None, "the source has no second step"
        again = self._encoded(text, then.options, name, source.number)
        return again._replace(prefix=source.prefix, is_rewritten=True)

    def stages_of(self, source: Source) -> Stages:
        """Returns the stages of a source."""
        return self.stages(source.options)

    def _stages(self, options: TextOptions) -> Stages:
        """Returns the stages that options ask for, checked; `stages` keeps some."""
        if not options.pivot:
            return Stages(options, self)
        first, second = pivot.steps(self.problem, self.encoders, options)
        return Stages(first, self, then=self.stages(second))

    def _encoded(self, line: str, options: TextOptions, name: str, number: int) -> Source:
        """Returns a line as a source; HTML of several blocks with a source for each.

        So is a text with other markup and several lines.
        """
        place = f"{name} {number}"

        def before(text: str, tokens: Sequence[Token] = ()) -> Source:
            source = Source(text, (), number, options=options, tokens=tokens)
            return self.stages(options).before(source, place)

        def encoded(source: Source) -> Source:
            return source._replace(ids=self.source_ids(source, source.text, place))

        text = line.strip()
        blocks: Blocks | Lines
        if options.are_html:
            blocks = Blocks(text)
            if blocks.is_line:
                return encoded(before(line, blocks.tokens if line == text else ()))
        elif options.markup and "\n" in text:
            blocks = Lines(text, options.markup)
        else:
            return encoded(before(line))
        parts = [before(segment) for segment in blocks.segments]
        if not parts:  # the model reads nothing of it
            return before(line)._replace(text="", given="")
        # All have the language that the text names at its start.
        parts = [encoded(part._replace(languages=parts[0].languages)) for part in parts]
        ids = [*itertools.chain.from_iterable(part.ids for part in parts)]
        return Source(text, ids, number, options=options, blocks=blocks, parts=parts)

    def source_ids(self, source: Source, text: str, place: str) -> Sequence[int]:
        """Returns the ids of a text of a source, such as a piece; none in a language model.

        Args:
            source: the source.
            text: the text.
            place: what messages call the source.

        Raises:
            DataError: it has a token that is not in the vocabulary.
        """
        if not self.has_inputs:
            return ()
        text = self.stages_of(source).read(source, text)
        ids = encoded_text(speaking(self.encoders, source.languages)["inputs"], text, place)
        return [*ids, EOS_ID] if ids else []

    def source_details(
        self, source: Source, attention: np.ndarray | None
    ) -> tuple[list[str], np.ndarray | None]:
        """Returns the tokens of a source as text, EOS included, and the attention to them.

        Args:
            source: the source; what stages add to the text that the model reads is not shown.
            attention: [T, S], to what the model reads; None: not known.
        """
        tokens = self.source_tokens(source.ids)
        return self.stages_of(source).unread(source, tokens, attention)

    def output(self, source: Source, ids: Sequence[int], details: Details | None = None) -> Output:
        """Returns target ids, without EOS, as users see them.

        Args:
            source: what they are the output for.
            ids: the target.
            details: if they are known.
        """
        text = self.stages_of(source).written(source, ids, self.target_text(ids), details)
        return self.problem.postprocess(source.text, text)
