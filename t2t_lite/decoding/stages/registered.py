"""The list of all stages, and those of what is asked of some texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from t2t_lite.decoding import pivot
from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.hypotheses import Details, Hypothesis, Source
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.stages.alignment import Alignment
from t2t_lite.decoding.stages.confidence import Confidence
from t2t_lite.decoding.stages.languages import SpokenLanguages
from t2t_lite.decoding.stages.markup import Markup
from t2t_lite.decoding.stages.prompts import Prompts
from t2t_lite.decoding.stages.source_form import SourceForm
from t2t_lite.decoding.stages.stage import Cost, RefusedError, Stage
from t2t_lite.decoding.stages.terms import Terms
from t2t_lite.decoding.stages.unknown_words import UnknownWords
from t2t_lite.decoding.text_codec import TextCodec

# In the order in which they see a source: first as users write it, then as the model reads it.
STAGES: tuple[type[Stage], ...] = (
    Markup,
    SourceForm,
    SpokenLanguages,
    Prompts,
    Terms,
    UnknownWords,
    Alignment,
    Confidence,
)

_HOOKS = ("before", "read", "unread", "needs_details", "written", "after", "costs")

# What is told of outputs, with what holds if nothing is told: see `Hypothesis.fields`.
TOLD: Mapping[str, Any] = {
    **pivot.TELLS,
    **{name: default for stage in STAGES for name, default in stage.tells.items()},
}


def origin(flags: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Any]:
    """Returns what outputs are made from, as `Stage.origin` does, of all stages."""
    told = pivot.origin(flags)
    for stage in STAGES:
        told |= stage.origin(flags, digest)
    return told


class Stages:
    """The stages of what is asked of some texts, which do together what each of them does.

    Args:
        options: what is asked.
        codec: as in `Stage`.
        then: with a pivot, the stages of the second step; None: there is one step.

    Raises:
        RefusedError: the problem, the engine or the search cannot do it.

    Attributes:
        options: as above.
        then: as above.
    """

    def __init__(
        self, options: TextOptions, codec: TextCodec, then: Optional["Stages"] = None
    ) -> None:
        self.options = options
        self.then = then
        stages = [stage(options, codec) for stage in STAGES if stage.is_asked(options)]
        for stage in stages:
            if reason := stage.refused():
                raise RefusedError(next(iter(stage.fields), ""), reason)
        # Of the many calls for a line, most would do nothing.
        self._with = {hook: [s for s in stages if s.has(hook)] for hook in _HOOKS}

    def before(self, source: Source, place: str) -> Source:
        """See `Stage.before`."""
        for stage in self._with["before"]:
            source = stage.before(source, place)
        return source

    def read(self, source: Source, text: str) -> str:
        """See `Stage.read`."""
        for stage in self._with["read"]:
            text = stage.read(source, text)
        return text

    def unread(
        self, source: Source, tokens: list[str], attention: np.ndarray | None
    ) -> tuple[list[str], np.ndarray | None]:
        """See `Stage.unread`."""
        for stage in reversed(self._with["unread"]):
            tokens, attention = stage.unread(source, tokens, attention)
        return tokens, attention

    def need_details(self, target: Target, is_shown: bool) -> bool:
        """See `Stage.needs_details`."""
        return any(stage.needs_details(target, is_shown) for stage in self._with["needs_details"])

    def written(
        self, source: Source, ids: Sequence[int], text: str, details: Details | None
    ) -> str:
        """See `Stage.written`."""
        for stage in reversed(self._with["written"]):
            text = stage.written(source, ids, text, details)
        return text

    def after(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """See `Stage.after`."""
        for stage in reversed(self._with["after"]):
            hypotheses = stage.after(source, hypotheses)
        return hypotheses

    def costs(self, source: Source, subwords: int) -> Iterator[Cost]:
        """See `Stage.costs`."""
        for stage in self._with["costs"]:
            yield from stage.costs(source, subwords)


def unaligned(options: TextOptions, of_subwords: bool) -> str:
    """Returns the option with which no output has links to its source; "": none.

    Args:
        options: what is asked.
        of_subwords: whether the links are those of subwords, which a model writes in any case.
    """
    if options.pivot:
        return "pivot"
    asked = (stage for stage in STAGES if stage.rewrites and stage.is_asked(options))
    return "" if of_subwords else next((stage.fields[0] for stage in asked), "")
