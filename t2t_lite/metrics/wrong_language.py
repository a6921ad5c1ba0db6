"""wrong_language[:CODE]: how many outputs are in another language than they should be.

Models of several languages sometimes translate into one that they have learned better, or copy the
source. py3langid identifies languages from the bytes of a text.
"""

import collections
import dataclasses
import functools
import importlib.metadata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import extras, registry
from t2t_lite.errors import UsageError, question
from t2t_lite.metrics.base import OutputMetric, Score, Segment, Statistics
from t2t_lite.text import language_names
from t2t_lite.text.language_identifier import language_identifier

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# How many times as probable as the target's language another one must be. Of lines in the right
# language, of 15 to 39 characters, less than one in a hundred is then taken for another.
_CLEARLY = 10


@registry.register_metric
class WrongLanguage(OutputMetric):
    """Share of the outputs that are clearly in another language than the target's.

    The argument is the code of the target's language, and perhaps those of the languages that
    outputs may be in instead, joined by +: such as de+en+fr. Without them, all are candidates. In
    the evaluation of a problem that knows its languages, the argument may be left out.
    """

    argument = "[CODE[+CODE...]]"
    lower_is_better = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._target, *self._others = name.partition(":")[2].split("+")
        self.title = f"wrong language (% of outputs not in {self._target or 'their language'})"

    def check(self) -> None:
        """Raises UserError if py3langid is not installed, or does not know a language."""
        _ = self._model, self._candidates

    def check_language(self, language: str) -> None:
        """Raises UsageError if no language is named or known, or py3langid does not know it."""
        self._known(self._code(language))

    @property
    def signature(self) -> str:
        """The rule, and py3langid's version."""
        version = importlib.metadata.version("py3langid")
        among = "+".join(self._candidates[1:]) or "all"
        return f"among:{among}|ratio:{_CLEARLY}|version:py3langid-{version}"

    @property
    def signature_values(self) -> dict[str, str]:
        """The signature as evaluations record it."""
        return {f"{self.name}_signature": self.signature}

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns for each output whether it is in another language, and 1.

        Raises:
            UserError: as in `check`.
            UsageError: no language is named, and the problem does not know it.
        """
        return [(bool(self._other_language(segment)), 1) for segment in segments]

    def evaluate(self, segments: Sequence[Segment]) -> Score:
        """Adds to the report how many outputs are in which other language."""
        score = super().evaluate(segments)
        found = collections.Counter(map(self._other_language, segments))
        del found[""]
        if not found:
            return score
        counts = ", ".join(f"{code} {count}" for code, count in found.most_common())
        return dataclasses.replace(score, report=f"{score.report}\n{self.title}: {counts}")

    def _other_language(self, segment: Segment) -> str:
        """Returns the language of an output; "" if that may be the target's."""
        ranked = self._identifier.rank(segment.output)
        best, probability = ranked[0]
        own = dict(ranked)[self._known(self._code(segment.language))]
        return best if probability > _CLEARLY * own else ""

    def _code(self, language: str) -> str:
        """Returns the code of the targets' language: the argument's, or else the problem's."""
        if code := self._target or language:
            return code
        raise UsageError(
            f"metric {self.name!r}: the problem does not say the language of its targets: name "
            f"it, {self.name}:de"
        )

    @functools.cached_property
    def _identifier(self) -> "LanguageIdentifier":
        """Gives probabilities to the candidates."""
        if self._others:
            self._model.set_languages(self._candidates)
        return self._model

    @functools.cached_property
    def _model(self) -> "LanguageIdentifier":
        """Knows all languages, until `_identifier` restricts it."""
        extras.require(extras.LANGUAGES, f"metric {self.name!r}")
        return language_identifier()

    @functools.cached_property
    def _candidates(self) -> list[str]:
        """The languages of the argument, the target's first, in py3langid's codes."""
        named = [self._target, *self._others] if self._target else []
        codes = [self._known(code) for code in named]
        if self._others and len(set(codes)) < 2:
            raise UsageError(f"metric {self.name!r}: name another language after +, or none")
        return list(dict.fromkeys(codes))

    @functools.cached_property
    def _labels(self) -> Sequence[str]:
        """All languages of the model."""
        return list(self._model.labels)

    def _known(self, code: str) -> str:
        """Returns the code of a language in py3langid's spelling."""
        labels = self._labels
        if code in labels:
            return code
        found = language_names.meant(code, labels)
        if len(found) == 1 and language_names.english_name(code):
            return found[0]
        raise UsageError(
            f"metric {self.name!r}: py3langid knows no language {code!r}{question(found)}"
        )
