"""From which languages a server translates into which, by the codes that clients know.

Clients of LibreTranslate ask for the list, and name the two languages in each request. They write
codes as they please: `pt`, `pt-BR` and `pt_BR` find a model's `pt_BR`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.errors import quoted
from t2t_lite.text.language_names import base_code, english_name, same_language
from t2t_lite.text.languages import Choice, Languages

# What LibreTranslate's clients write for a language that the server should find out.
AUTO = "auto"


class LanguagePairs(NamedTuple):
    """The languages of each side.

    Attributes:
        sources: the model's language by the code that clients see; "": the model has one alone,
            which no request names.
        targets: likewise.
    """

    sources: Mapping[str, str]
    targets: Mapping[str, str]

    @classmethod
    def of(cls, choices: Mapping[str, Choice], pair: Languages) -> "LanguagePairs":
        """Returns the languages of a model.

        Args:
            choices: what may be chosen for each side, "source" and "target"; a side without choice
                has one language.
            pair: the code of a side that has one language; "": it is not known.
        """
        sides = []
        for side in Languages._fields:
            known = choices[side].codes if side in choices else []
            own = getattr(pair, side)
            sides.append(_shown(known) if known else {own: ""} if own else {})
        return cls(*sides)

    def listed(self) -> list[dict[str, Any]]:
        """Returns the answer to GET /languages: each language, with those it is translated into.

        Raises:
            HTTPException: 404: the languages are not known.
        """
        self.require_known()
        return [
            {
                "code": code,
                "name": english_name(code) or code,
                "targets": [target for target in self.targets if target != code]
                if code in self.sources
                else [],
            }
            for code in sorted({*self.sources, *self.targets})
        ]

    def chosen(self, source: str, target: str) -> Languages:
        """Returns the languages of a request, as the model names them.

        Raises:
            HTTPException: 400: the server does not translate from the one, or into the other;
                404: the languages are not known.
        """
        self.require_known()
        return Languages(
            self.sources[_found(source, self.sources, "source")],
            self.targets[_found(target, self.targets, "target")],
        )

    def require_known(self) -> None:
        """Raises HTTPException 404 if the languages of the model are not known."""
        if not (self.sources and self.targets):
            flags = {"--from_code": self.sources, "--to_code": self.targets}
            missing = " and ".join(flag for flag, known in flags.items() if not known)
            message = f"start t2t-serve with {missing}"
            raise HTTPException(404, f"the languages of the model are not known: {message}")


def _shown(codes: Iterable[str]) -> dict[str, str]:
    """Returns a model's codes by those that clients know: `de` for `deu_Latn`, if that is alone."""
    known = sorted(codes)
    count = Counter(map(base_code, known))
    return {code if count[base_code(code)] > 1 else base_code(code): code for code in known}


def _found(code: str, known: Iterable[str], side: str) -> str:
    """Returns the one of the known codes that a client means."""
    alike = [code] if code in known else same_language(code, known)
    if len(alike) == 1:
        return alike[0]
    which = "several languages are meant" if alike else "the server does not know this language"
    listed = ", ".join(sorted(alike or known))
    raise HTTPException(400, f"{side}={quoted(code)}: {which}: expected one of {listed}")
