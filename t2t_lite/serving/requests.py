"""Parses the JSON of requests, checking every field."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.decoding.request import FIELDS, NOTHING, TextOptions
from t2t_lite.errors import UsageError, did_you_mean, quoted
from t2t_lite.serving.config import ServerConfig
from t2t_lite.terms.term_list import TooLongError

# What is translated at a time has up to this many characters; a shorter text counts as the second
# number, because the search's steps cost the same however short it is.
SLICE_CHARACTERS = 16384
_LEAST_CHARACTERS = 64

_FIELDS = ("text", "texts", "n_best", "attention", *FIELDS)

# The parts that take time to parse: strings, and the ends of other values. Each text, term or form
# has two at most, a string and what ends it; the other fields have fewer than the number below.
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\]}]', re.DOTALL)
_MAX_OTHER_PARTS = 32

# Text has about four characters for each subword, and tags besides.
_CHARACTERS_OF_SUBWORD = 10

_MAX_LISTED = 400  # texts in the lists and mappings of other fields

_MAX_DIGITS = 18  # of a whole number; no real value has more


class TranslationRequest(NamedTuple):
    """Some texts to translate."""

    texts: list[str]
    n_best: int  # hypotheses to return for each text
    attention: bool  # whether to return tokens and attention with them
    is_single: bool  # whether "text" was sent, not a list
    options: TextOptions = NOTHING  # what else is asked of them


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
    given = {name: fields[name] for name in FIELDS if name in fields}
    return TranslationRequest(texts, n_best, attention, is_single, parse_options(given, limits))


def parse_options(given: Mapping[str, Any], limits: ServerConfig) -> TextOptions:
    """Returns what a request asks of its texts.

    Args:
        given: the fields of `TextOptions` that it has, as JSON values.
        limits: `max_text_length` applies.

    Raises:
        HTTPException: 422: a value is not allowed; 413: one is too long, or there are too many.
    """
    for name, value in given.items():
        if FIELDS[name].checked is None:
            _check(value, f'"{name}"', FIELDS[name].most)
    try:
        options = TextOptions(**given)
    except TooLongError as error:
        raise HTTPException(413, str(error)) from None
    except UsageError as error:
        raise HTTPException(422, str(error)) from None
    listed = {name: [*_texts_in(getattr(options, name))] for name in given if FIELDS[name].checked}
    if (count := sum(map(len, listed.values()))) > _MAX_LISTED:
        what = f"texts in {' and '.join(listed)}"
        raise HTTPException(413, f"{count} {what}: at most {_MAX_LISTED} are allowed")
    for name, texts in listed.items():
        for text in texts:
            _check(text, f'a text in "{name}"', limits.max_text_length)
        size, most = sum(map(len, texts)), FIELDS[name].most
        if 0 < most < size:
            raise HTTPException(413, f'"{name}" has {size} characters: at most {most} are allowed')
    return options


def _texts_in(value: Any) -> Iterator[str]:
    """Yields the texts in a value, such as those of a mapping to lists."""
    if isinstance(value, str):
        yield value
        return
    items = itertools.chain(*value.items()) if isinstance(value, Mapping) else value
    for item in items:
        yield from _texts_in(item)


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
    maximum = 2 * (limits.max_texts + _MAX_LISTED) + _MAX_OTHER_PARTS
    if next(itertools.islice(_PART.finditer(text), maximum, None), None):
        message = (
            f"too many fields or texts: at most {limits.max_texts} texts, and {_MAX_LISTED} texts "
            "in the lists of other fields are allowed"
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
