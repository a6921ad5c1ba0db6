"""Which language the texts of a request are in, where the client does not say."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.text import language_identifier
from t2t_lite.text.language_names import base_code, same_language

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_MOST_CHARACTERS = 5000  # which are enough to know a language
# Individual languages, by the macrolanguage (ISO 639-3) that py3langid knows in their place.
_MACROLANGUAGES = {"nb": "no", "pbt": "ps", "quy": "qu"}


class Detected(NamedTuple):
    """A language that texts may be in.

    Attributes:
        language: its code, as clients know it.
        confidence: its probability among all languages of the world that are known, in percent.
    """

    language: str
    confidence: float


class LanguageDetector:
    """Finds out which of the server's languages texts are in, by py3langid.

    Without py3langid, texts are taken for the only language, if there is one alone.

    Args:
        codes: the languages, as clients know them.
    """

    def __init__(self, codes: Sequence[str]) -> None:
        self._codes = codes

    def ranked(self, texts: Sequence[str]) -> list[Detected]:
        """Returns the languages that texts may be in, the likeliest first.

        Raises:
            HTTPException: 400: there are several languages, and py3langid is not installed.
        """
        if not language_identifier.is_installed():
            if len(self._codes) == 1:
                return [Detected(self._codes[0], 0.0)]
            listed = ", ".join(self._codes)
            message = "name it, or install the package py3langid on the server"
            raise HTTPException(400, f"the language of the texts is unknown: {message} ({listed})")
        ranked = self._identifier.rank("\n".join(texts)[:_MOST_CHARACTERS])
        probabilities = {label: float(probability) for label, probability in ranked}
        found = {code: probabilities.get(self._labels.get(code, ""), 0.0) for code in self._codes}
        in_order = sorted(found.items(), key=lambda item: -item[1])
        return [Detected(code, round(100 * share, 1)) for code, share in in_order]

    def best(self, texts: Sequence[str]) -> Detected:
        """Returns the language that texts are in; raises as `ranked`."""
        return self.ranked(texts)[0]

    @functools.cached_property
    def _identifier(self) -> "LanguageIdentifier":
        return language_identifier.language_identifier()

    @functools.cached_property
    def _labels(self) -> dict[str, str]:
        """py3langid's code for each language that it knows."""
        known = {}
        for code in self._codes:
            if labels := same_language(code, self._identifier.labels):
                known[code] = labels[0]
        for code in self._codes:
            wider = _MACROLANGUAGES.get(base_code(code))
            if wider and code not in known and wider not in known.values():
                known[code] = wider
        return known
