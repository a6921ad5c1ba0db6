"""Terms: words that outputs must contain, and words that they must not.

With `term_mode=hard`, the engine's search obeys them, which `Source.terms` holds; with `soft`, the
model reads a term's form behind its words.
"""

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from t2t_lite.decoding.config import CTRANSLATE2, TENSORFLOW
from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.decoding.stages.stage import Cost, Stage
from t2t_lite.decoding.suggestions import SuggestingText
from t2t_lite.errors import DataError
from t2t_lite.search.decode_hparams import SOFT_TERMS
from t2t_lite.terms.term_list import MOST_WANTED, TermList, TermUse, uses

# Most characters of the forms that all texts of a request ask for.
_MOST_FORMS = 2 * MOST_WANTED


class Terms(Stage):
    """Makes outputs meet terms."""

    fields = ("terms", "forbid")
    tells = types.MappingProxyType({"terms": ()})

    @classmethod
    def origin(cls, flags: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Any]:
        """Returns both files, also where there are none: every journal has them."""
        return {"terms": [digest(flags[name]) for name in cls.fields]}

    def refused(self) -> str:
        """Returns why outputs cannot be made to meet terms."""
        engine, problem = self.codec.engine, self.codec.problem
        refused = {
            f"problem {problem.name} does not translate text line by line": (
                not problem.translates_lines
            ),
            "decode hparam term_mode=soft: the model was not trained with hparam "
            "term_augmentation; leave term_mode out, or train such a model": (
                self._is_soft and not engine.is_trained_with("term_augmentation")
            ),
            "a short list may lack their words; leave it out": bool(engine.hparams.shortlist),
        }
        if self._terms.forbidden or not self._is_soft:
            refused |= self._refused_of_searches()
        reason = next((reason for reason, applies in refused.items() if applies), "")
        return reason and f"terms and forbidden words: {reason}"

    @functools.cached_property
    def _terms(self) -> TermList:
        forms = {term: tuple(forms) for term, forms in self.options.terms.items()}
        terms = TermList(forms, tuple(self.options.forbid))
        return terms.of_source_form if self.codec.reads_source_form else terms

    @property
    def _is_soft(self) -> bool:
        return self.codec.engine.hparams.term_mode == SOFT_TERMS

    def _refused_of_searches(self) -> dict[str, bool]:
        """Returns why no search minds terms, and whether this is so."""
        engine = self.codec.engine
        suggest = "; or suggest terms, without forbidden words: decode hparam term_mode=soft"
        return {
            f"--engine={CTRANSLATE2} has no search for them; use --engine={TENSORFLOW}{suggest}": (
                engine.kind != TENSORFLOW
            ),
            "sampling draws outputs, and does not search for them; leave out "
            f"sampling_method=random{suggest}": engine.hparams.sampling_method == "random",
        }

    def before(self, source: Source, place: str) -> Source:
        """Returns a source with its terms.

        Raises:
            DataError: it asks for more than a search can mind.
        """
        size = self._terms.size(source.text)
        if size > MOST_WANTED:
            raise DataError(
                f"{place}: the forms of its terms have {size} characters: at most {MOST_WANTED} "
                "are allowed; split the text, or list fewer forms"
            )
        return source._replace(terms=self._terms)

    def read(self, source: Source, text: str) -> str:
        """Returns a text that suggests its terms, if the model reads suggestions."""
        return SuggestingText(text, self._terms).text if self._is_soft else text

    def unread(
        self, source: Source, tokens: list[str], attention: np.ndarray | None
    ) -> tuple[list[str], np.ndarray | None]:
        """Returns the tokens of a source without suggestions, and the attention [T, S] to them."""
        if not self._is_soft or not self._terms.wanted(source.text):
            return tokens, attention
        return SuggestingText(source.text, self._terms).without(tokens, attention)

    def after(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns hypotheses with what each made of its terms."""
        wanted = self._terms.wanted(source.text)
        if not wanted:
            return hypotheses
        return [
            hypothesis.telling(terms=[*map(_told, uses(wanted, hypothesis.output.text))])
            for hypothesis in hypotheses
        ]

    def costs(self, source: Source, subwords: int) -> Iterator[Cost]:
        """Yields the characters of the forms that a source asks for."""
        kind = "the forms of the texts' terms: {} characters"
        yield Cost(self._terms.size(source.text), _MOST_FORMS, kind, False, "terms")


def _told(use: TermUse) -> dict[str, Any]:
    term, forms, times = use.wanted
    return {"term": term, "forms": [*forms], "times": times, "met": use.met}
