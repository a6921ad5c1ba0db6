"""terms_met:FILE: how many of the terms that the sources ask for are in the outputs."""

import shlex
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.metrics.base import Needs, OutputMetric, Segment, Statistics
from t2t_lite.terms.term_list import TermList, uses
from t2t_lite.text.source_form import source_form


@registry.register_metric
class TermsMet(OutputMetric):
    """Share of the terms in the sources for which the output has one of their forms."""

    argument = "FILE"
    needs = Needs.SOURCES

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._path = _unquoted(name.partition(":")[2])
        self.title = f"terms met (% of the terms of {self._path})"

    @property
    def files(self) -> Sequence[str]:
        """The list of terms."""
        return (self._path,)

    def check(self) -> None:
        """Raises UserError if the file cannot be read."""
        self._read()

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns how many terms are met, and how many the source asks for.

        Raises:
            UserError: the file cannot be read.
        """
        terms = self._read().of_source_form  # to a reader, all spellings of a text are one
        rows = []
        for segment in segments:
            found = uses(terms.wanted(source_form(segment.source)), segment.output)
            rows.append((sum(use.met for use in found), sum(use.wanted.times for use in found)))
        return rows

    def caution(self, segments: Sequence[Segment]) -> str:
        """Returns that the sources ask for no term."""
        terms = self._read().of_source_form
        if any(terms.wanted(source_form(segment.source)) for segment in segments):
            return ""
        return (
            f"no source has a term of {self._path}, so that the score says nothing; give the list "
            "of terms of these sources"
        )

    def _read(self) -> TermList:
        return TermList.read(self._path)


def _unquoted(path: str) -> str:
    """Returns a path without the quotes that it needs in a list of metrics, around a comma."""
    if "," not in path:
        return path
    try:
        words = shlex.split(path)
    except ValueError:  # an apostrophe beside the comma, say
        return path
    return words[0] if len(words) == 1 else path
