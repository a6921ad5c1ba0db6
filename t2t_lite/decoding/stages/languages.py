"""Models of several languages: in which a text is read, and in which its output begins."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.stages.stage import Stage
from t2t_lite.errors import DataError
from t2t_lite.text.languages import Languages, speaking


class SpokenLanguages(Stage):
    """Reads a source in its language, and begins its output with the token of the target's.

    Where the options name none, it is that of the decode hparams.
    """

    fields = ("source_language", "target_language")

    @classmethod
    def is_asked(cls, options: TextOptions) -> bool:
        """Always: a model of several languages has some by default."""
        return True

    @classmethod
    def origin(cls, flags: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Any]:
        """Returns nothing: they are among the decode hparams of a journal."""
        return {}

    def refused(self) -> str:
        """Raises UsageError if the model does not know a language."""
        speaking(self.codec.encoders, self._languages)
        return ""

    def before(self, source: Source, place: str) -> Source:
        """Returns a source with its languages.

        Raises:
            DataError: the model needs a language; or a line of the text names one, which the
                translation to a pivot would read.
        """
        if not self.codec.has_inputs:
            return source
        if self.options.pivot:
            self._refuse_named(source.text, place)
        # All pieces of a text have the language that it names at its start.
        languages, encoders = self._languages, self.codec.encoders
        if named := encoders["inputs"].named_language(source.text):
            languages = languages._replace(target=named)
        return source._replace(languages=languages, start=self._start)

    @functools.cached_property
    def _languages(self) -> Languages:
        return Languages(self.options.source_language, self.options.target_language)

    @functools.cached_property
    def _start(self) -> Sequence[int]:
        return speaking(self.codec.encoders, self._languages)["targets"].start_ids()

    def _refuse_named(self, text: str, place: str) -> None:
        encoder = self.codec.encoders["inputs"]
        named = map(encoder.named_language, map(str.strip, text.split("\n")))
        if language := next(filter(None, named), ""):
            raise DataError(
                f"{place} begins with >>{language}<<, but is translated by way of a pivot: name "
                f"the language by target_language={language}"
            )
