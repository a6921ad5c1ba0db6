"""LibreTranslate's form of requests and answers, for its clients: Weblate, Mastodon and others.

A request in this form becomes one in the server's own form, which knows how its answer is written
in this one. See https://docs.libretranslate.com.
"""

import dataclasses
import functools
import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.errors import quoted
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.language_detector import Detected, LanguageDetector
from t2t_lite.serving.language_pairs import AUTO, LanguagePairs
from t2t_lite.serving.requests import (
    Line,
    OptionRefusal,
    TranslationRequest,
    check_size,
    check_texts,
    parse_options,
)
from t2t_lite.text.language_names import english_name
from t2t_lite.text.tags.kinds import HTML, PLACEHOLDERS
from t2t_lite.text.tags.tokens import TokenKind, tokens_of

_TEXT = "text"  # the format that is not HTML
_FIELDS = {"q", "source", "target"}  # fields of this form that the server's own has not
_OWN_TEXTS = {"text", "texts"}  # fields of the server's own form
_MOST_DIGITS = 3  # of a number of alternatives


class LibreRequest(NamedTuple):
    """A request in LibreTranslate's form.

    Attributes:
        request: what it asks; its answer is in LibreTranslate's form.
        is_html: whether the texts are HTML, and the outputs must be.
    """

    request: TranslationRequest
    is_html: bool

    def in_plain_text(self, refusal: OptionRefusal) -> "LibreRequest":
        """Returns the request without markup: with the words of the texts alone.

        Raises:
            OptionRefusal: the model refuses something else, or HTML that has too much of it.
        """
        if refusal.option != "markup" or (self.is_html and refusal.status_code != 422):
            raise refusal
        texts = self.request.texts
        words = [words_of_html(text) for text in texts] if self.is_html else texts
        options = self.request.options.changed(markup="")
        return self._replace(request=self.request._replace(texts=words, options=options))


@dataclasses.dataclass(frozen=True)
class LibreForm:
    """Reads requests in LibreTranslate's form.

    Args:
        pairs: the languages of the model.
        detector: finds out the language of texts.
        beam_size: how many outputs the search keeps for a text.
        limits: those of texts apply.
    """

    pairs: LanguagePairs
    detector: LanguageDetector
    beam_size: int
    limits: ServerConfig

    def read(self, fields: Mapping[str, Any]) -> LibreRequest:
        """Reads the fields of POST /translate; unknown ones are passed over, as by LibreTranslate.

        Raises:
            HTTPException: 400: a field is wrong, or the server does not know a language; 404: the
                languages of the model are not known; 413, 422: as in `requests.checked`.
        """
        if both := sorted(_OWN_TEXTS & fields.keys()):
            if "q" in fields:
                raise HTTPException(422, f'expected either "q" or "{both[0]}"')
            other = min(_FIELDS & fields.keys())
            raise HTTPException(
                422, f'"{other}" belongs to "q": with "{both[0]}", send "{other}_language"'
            )
        self.pairs.require_known()
        kind = _text(fields, "format", _TEXT)
        if kind not in (_TEXT, HTML):
            raise HTTPException(400, f"format={quoted(kind)}: expected {_TEXT} or {HTML}")
        texts = _texts(fields, self.limits)
        check_size(texts, self.limits)
        source, target = _text(fields, "source"), _text(fields, "target")
        detected = None
        if source == AUTO:
            words = [words_of_html(text) for text in texts] if kind == HTML else texts
            detected = self.detector.best(words)
            source = detected.language
        languages = self.pairs.chosen(source, target)
        # A client may ask for more than there are.
        alternatives = min(_count(fields, "alternatives"), self.beam_size - 1)
        own: dict[str, Any] = {
            "markup": HTML if kind == HTML else _placeholders(texts),
            "source_language": languages.source,
            "target_language": languages.target,
        }
        form = functools.partial(_answer, detected, kind == HTML)
        is_single = isinstance(fields["q"], str)
        options = parse_options(own, self.limits)
        request = TranslationRequest(texts, alternatives + 1, False, is_single, options, form)
        return LibreRequest(request, kind == HTML)

    def detect(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the answer to POST /detect: the texts' possible languages, the likeliest first.

        Raises:
            HTTPException: as in `read`.
        """
        self.pairs.require_known()
        return [found._asdict() for found in self.detector.ranked(_texts(fields, self.limits))]

    def settings(self, needs_key: bool) -> dict[str, Any]:
        """Returns the answer to GET /frontend/settings."""
        languages = {}
        for side, known in self.pairs._asdict().items():
            code = min(known, default="")
            languages[side.removesuffix("s")] = {"code": code, "name": english_name(code) or code}
        return {
            "apiKeys": needs_key,
            "charLimit": self.limits.max_text_length,
            "filesTranslation": False,
            "frontendTimeout": 500,  # milliseconds that its page waits for the next key
            "keyRequired": needs_key,
            "language": languages,
            "suggestions": False,
            "supportedFilesFormat": [],
        }


def _answer(
    detected: Detected | None, is_html: bool, request: TranslationRequest, lines: Sequence[Line]
) -> dict[str, Any]:
    """Returns the answer to a request in LibreTranslate's form, as a JSON value.

    Args:
        detected: the language of the texts, if the client does not know it.
        is_html: as in `LibreRequest`.
        request: the request.
        lines: the answer to each text.
    """
    is_escaped = is_html and not request.options.markup
    outputs = [_outputs(line, is_escaped) for line in lines]
    listed: dict[str, list[Any]] = {"translatedText": [best for best, *_ in outputs]}
    if request.n_best > 1:
        listed["alternatives"] = [others for _, *others in outputs]
    if detected:
        listed["detectedLanguage"] = [detected._asdict()] * len(outputs)
    return {k: v[0] for k, v in listed.items()} if request.is_single else listed


def _outputs(line: Line, is_escaped: bool) -> list[str]:
    """Returns the outputs of a text; without any, as of an empty one, as many lines."""
    found = [hypothesis["text"] for hypothesis in line["hypotheses"]]
    found = found or ["\n" * line["source"].count("\n")]
    return [html.escape(text, quote=False) for text in found] if is_escaped else found


def is_libre(fields: Mapping[str, Any]) -> bool:
    """Returns whether a request is in LibreTranslate's form, not in the server's own."""
    return not _FIELDS.isdisjoint(fields)


def words_of_html(text: str) -> str:
    """Returns what a reader of HTML sees, in one line."""
    parts = []
    for token in tokens_of(text, HTML):
        is_seen = token.kind in (TokenKind.TEXT, TokenKind.ENTITY)
        is_protected = token.kind is TokenKind.PROTECTED
        parts.append(token.text if is_seen else html.unescape(token.raw) if is_protected else " ")
    return " ".join("".join(parts).split())


def _placeholders(texts: list[str]) -> str:
    """Returns the kind of markup of plain texts, which have none unless they have placeholders."""
    tokens = (token for text in texts for token in tokens_of(text, PLACEHOLDERS))
    return PLACEHOLDERS if any(token.kind is not TokenKind.TEXT for token in tokens) else ""


def _texts(fields: Mapping[str, Any], limits: ServerConfig) -> list[str]:
    """Returns the texts of "q", a string or a list of strings."""
    if "q" not in fields:
        raise HTTPException(400, 'expected "q", a text or a list of texts')
    given = fields["q"]
    texts = given if isinstance(given, list) else [given]
    check_texts(texts, "text {} of q" if isinstance(given, list) else "q", limits)
    return texts


def _text(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    text = fields.get(name)
    if text in (None, "") and default is not None:
        return default
    if not isinstance(text, str) or not text:
        raise HTTPException(400, f'expected "{name}", a string')
    return text


def _count(fields: Mapping[str, Any], name: str) -> int:
    """Returns a whole number, which forms give as digits."""
    given = fields.get(name) or 0
    digits = str(given)
    if isinstance(given, bool) or not (digits.isascii() and digits.isdecimal()):
        raise HTTPException(400, f"{name}={quoted(digits)}: expected a whole number of at least 0")
    return int(digits.lstrip("0")[:_MOST_DIGITS] or 0)  # three digits are more than any beam has
