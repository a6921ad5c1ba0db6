"""Parses the JSON of requests, checking every field."""

import itertools
import json
import re
from collections import Counter
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.errors import UsageError, did_you_mean, quoted
from t2t_lite.serving.config import ServerConfig
from t2t_lite.terms.term_list import MOST_FORBIDDEN, TermList, TooLongError
from t2t_lite.text.languages import ANY, Languages

# What is translated at a time has up to this many characters; a shorter text counts as the second
# number, because the search's steps cost the same however short it is.
SLICE_CHARACTERS = 16384
_LEAST_CHARACTERS = 64

_FIELDS = (
    "text",
    "texts",
    "n_best",
    "attention",
    "source_language",
    "target_language",
    "pivot",
    "markup",
    "terms",
    "forbid",
)

# The parts that take time to parse: strings, and the ends of other values. Each text, term or form
# has two at most, a string and what ends it; the other fields have fewer than the number below.
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\]}]', re.DOTALL)
_MAX_OTHER_PARTS = 32

# Text has about four characters for each subword, and markup besides.
_CHARACTERS_OF_SUBWORD = 10

_MAX_TERMS = 400  # source terms, their forms and forbidden words

_LONGEST_LANGUAGE = 100  # characters of a code

_MAX_DIGITS = 18  # of a whole number; no real value has more


class TranslationRequest(NamedTuple):
    """Some texts to translate."""

    texts: list[str]
    n_best: int  # hypotheses to return for each text
    attention: bool  # whether to return tokens and attention with them
    is_single: bool  # whether "text" was sent, not a list
    languages: Languages = ANY  # where they differ from the server's
    markup: str = ""  # the kind of the texts' markup, which is kept
    terms: TermList = TermList()  # what the outputs must and must not contain
    pivot: str = ""  # the language by way of which they are translated


def size_of(text: str) -> int:
    """Returns how many of the `SLICE_CHARACTERS` a text takes."""
    return max(len(text), _LEAST_CHARACTERS)


def parse(body: bytes, limits: ServerConfig) -> TranslationRequest:
    """Reads the JSON of a request.

    Args:
        body: an object with "text" or "texts", and perhaps the other `_FIELDS`.
        limits: `max_texts`, `max_text_length` and `max_subwords` apply.

    Raises:
        HTTPException: 400: not JSON; 422: not as above; 413: too many texts, or too long ones.
    """
    fields = _object(body, limits)
    for name in fields:
        if name not in _FIELDS:
            raise HTTPException(422, f"unknown field {quoted(name)}{did_you_mean(name, _FIELDS)}")
    if ("text" in fields) == ("texts" in fields):
        raise HTTPException(422, 'expected either "text" or "texts"')
    is_single = "text" in fields
    texts = [fields["text"]] if is_single else fields["texts"]
    if not isinstance(texts, list):
        raise HTTPException(422, '"texts" must be a list of strings')
    if len(texts) > limits.max_texts:
        raise HTTPException(413, f"{len(texts)} texts: at most {limits.max_texts} are allowed")
    for number, text in enumerate(texts, 1):
        _check(text, "text" if is_single else f"text {number}", limits.max_text_length)
    size, most = sum(map(len, texts)), _CHARACTERS_OF_SUBWORD * limits.max_subwords
    if size > most:
        raise HTTPException(413, f"the texts have {size} characters: at most {most} are allowed")
    n_best = fields.get("n_best", 1)
    if type(n_best) is not int or n_best < 1:  # True is an int, too
        raise HTTPException(422, '"n_best" must be a whole number of at least 1')
    attention = fields.get("attention", False)
    if not isinstance(attention, bool):
        raise HTTPException(422, '"attention" must be true or false')
    languages = Languages(*(_language(fields, f"{side}_language") for side in Languages._fields))
    markup = fields.get("markup", "")
    _check(markup, '"markup"', _LONGEST_LANGUAGE)
    terms = _terms(fields, limits)
    pivot = _language(fields, "pivot")
    return TranslationRequest(texts, n_best, attention, is_single, languages, markup, terms, pivot)


def _terms(fields: dict[str, Any], limits: ServerConfig) -> TermList:
    try:
        terms = TermList.of(fields.get("terms"), fields.get("forbid"))
    except TooLongError as error:
        raise HTTPException(413, str(error)) from None
    except UsageError as error:
        raise HTTPException(422, str(error)) from None
    listed = [*terms.forms, *itertools.chain(*terms.forms.values()), *terms.forbidden]
    if len(listed) > _MAX_TERMS:
        message = f"at most {_MAX_TERMS} are allowed"
        raise HTTPException(413, f"{len(listed)} terms, forms and forbidden words: {message}")
    for text in listed:
        _check(text, "a term or word", limits.max_text_length)
    if (size := sum(map(len, terms.forbidden))) > MOST_FORBIDDEN:
        message = f"at most {MOST_FORBIDDEN} are allowed"
        raise HTTPException(413, f"the forbidden words have {size} characters: {message}")
    return terms


def _language(fields: dict[str, Any], name: str) -> str:
    code = fields.get(name, "")
    _check(code, f'"{name}"', _LONGEST_LANGUAGE)
    return code


def _object(body: bytes, limits: ServerConfig) -> dict[str, Any]:
    """Reads an object; refuses, before parsing, one with more parts than any request has."""
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
        _count_parts(text, limits)
        fields = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_whole_number,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise HTTPException(422, 'expected an object such as {"text": "..."}')
    return fields


def _count_parts(text: str, limits: ServerConfig) -> None:
    maximum = 2 * (limits.max_texts + _MAX_TERMS) + _MAX_OTHER_PARTS
    if next(itertools.islice(_PART.finditer(text), maximum, None), None):
        message = (
            f"too many fields, texts or terms: at most {limits.max_texts} texts and {_MAX_TERMS} "
            "terms, forms and forbidden words are allowed"
        )
        raise HTTPException(413, message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise HTTPException(422, f"field {quoted(name)} is given twice")
    return fields


def _whole_number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise HTTPException(422, f"the number {quoted(digits)} is too large")
    return int(digits)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check(text: Any, name: str, longest: int) -> None:
    if not isinstance(text, str):
        raise HTTPException(422, f"{name} is not a string")
    if len(text) > longest:
        raise HTTPException(
            413, f"{name} has {len(text)} characters: at most {longest} are allowed"
        )
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can encode half of a surrogate pair
        message = f"{name} holds a lone surrogate, which is not a character"
        raise HTTPException(422, message) from None
