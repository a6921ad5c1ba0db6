"""Markup: it is taken out of a line, and put into its outputs where the words are."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from t2t_lite.data.problem import Output
from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.hypotheses import Details, Hypothesis, Source
from t2t_lite.decoding.stages.stage import Cost, Stage
from t2t_lite.text.alignment.units import units_of
from t2t_lite.text.marks import PLACEHOLDERS
from t2t_lite.text.tags.kinds import HTML
from t2t_lite.text.tags.placement import place
from t2t_lite.text.tags.segment import Segment, has_word, parse

# Most tags, entities and placeholders of all texts of a request.
_MOST_PIECES = 2_000
# Most cells of the alignments by which they are put into outputs: a square of the subwords, or of
# the words where there are more, of each text.
_MOST_CELLS = 2_000_000


class Markup(Stage):
    """Keeps tags, entities and placeholders."""

    fields = ("markup",)
    rewrites = True

    @classmethod
    def origin(cls, flags: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Any]:
        """Returns its kind, also where there is none: every journal has it."""
        kind = flags["markup"]
        # A journal of "html" alone, from before texts were cut at blocks, has other pieces.
        return {"markup": f"{kind} blocks" if kind == HTML else kind}

    def refused(self) -> str:
        """Returns why a model cannot place tags."""
        problem, kind = self.codec.problem, self.options.markup
        if not problem.translates_lines:
            return (
                f"markup={kind}: {problem.name} is not a translation problem: the words of its "
                "outputs do not stand for the words of its sources; leave markup out"
            )
        if not self.codec.engine.has_source_attention:
            return (
                f"markup={kind}: the model has no attention to a source, which says where tags "
                "go; leave markup out"
            )
        return ""

    def before(self, source: Source, place: str) -> Source:
        """Returns a source without its markup; a model that has learned to reads marks for it."""
        carries = self.codec.engine.is_trained_with("markup_augmentation")
        marks = PLACEHOLDERS if carries else ""
        segment = parse(source.text, self.options.markup, marks, source.tokens)
        text = segment.text if has_word(segment.text) else ""
        if self.codec.reads_source_form:
            segment = segment.in_source_form()
        line = segment.source.strip()
        return source.noted(self, segment)._replace(
            text=text, kept=segment.marks, line=line, is_rewritten=True, tokens=()
        )

    def needs_details(self, target: Target, is_shown: bool) -> bool:
        """Whether tags are put into a hypothesis: into those that users see."""
        return is_shown

    def after(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns hypotheses with the markup of their source.

        A source of markup alone, and signs such as "…", is its own output.
        """
        if not hypotheses and source.shown:
            return [Hypothesis(Output(source.shown), [], 0.0, Details([], [], np.zeros(0), None))]
        return [_with_markup(source.note(self), hypothesis) for hypothesis in hypotheses]

    def costs(self, source: Source, subwords: int) -> Iterator[Cost]:
        """Yields the pieces of markup, and the cells of the alignment."""
        pieces = source.note(self).pieces
        yield Cost(pieces, _MOST_PIECES, "{} tags, entities and placeholders", True, "markup")
        cells = max(subwords, len(units_of(source.text))) ** 2
        kind = "long texts with markup: the squares of their subwords add up to {}"
        yield Cost(cells, _MOST_CELLS, kind, True, "markup")


def _with_markup(segment: Segment, hypothesis: Hypothesis) -> Hypothesis:
    output, details = hypothesis.output, hypothesis.details
    if details is None:
        text = place(segment, output.text)
    else:
        tokens = (details.source_tokens, details.tokens)
        text = place(segment, output.text, *tokens, details.attention)
    return hypothesis._replace(output=output._replace(text=text))
