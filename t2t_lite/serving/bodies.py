"""Reads the fields of a request from its body, JSON or what a form sends, and its address."""

import itertools
import json
import re
import urllib.parse
from collections import Counter
from typing import Any

from starlette.exceptions import HTTPException

from t2t_lite.decoding.request import FIELDS
from t2t_lite.errors import quoted
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.requests import MAX_LISTED

# The parts that take time to parse: strings, and the ends of other values. Each text, term or form
# has two at most, a string and what ends it; the other fields have fewer than the number below.
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\]}]', re.DOTALL)
_MAX_OTHER_PARTS = 32

_MAX_DIGITS = 18  # of a whole number; no real value has more

# The field that a form may have several times: a list of texts.
_LISTED = "q"
# Fields whose values are lists or mappings, which only JSON has.
_ONLY_JSON = {"texts", *(name for name, field in FIELDS.items() if field.checked)}
_BOOLS = {"true": True, "false": False}


def fields_of_json(query: str, body: bytes, limits: ServerConfig) -> dict[str, Any]:
    """Reads an object; refuses, before parsing, one with more parts than any request has.

    Args:
        query: fields in the address, as in `fields_of_form`.
        body: other fields.
        limits: `max_texts` applies.

    Raises:
        HTTPException: 400: it is not JSON; 413: it has too many parts; 422: it is not an object, a
            field is given twice, or a number is too large; or as in `fields_of_form`.
    """
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
    return _unique([*fields_of_form(query, b"", limits).items(), *fields.items()])


def _count_parts(text: str, limits: ServerConfig) -> None:
    maximum = 2 * (limits.max_texts + MAX_LISTED) + _MAX_OTHER_PARTS
    if next(itertools.islice(_PART.finditer(text), maximum, None), None):
        message = (
            f"too many fields or texts: at most {limits.max_texts} texts, and {MAX_LISTED} texts "
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


def fields_of_form(query: str, body: bytes, limits: ServerConfig) -> dict[str, Any]:
    """Reads application/x-www-form-urlencoded, as forms send it and as addresses hold it.

    What is not percent-encoded stands for itself.

    Args:
        query: fields in the address.
        body: other fields.
        limits: `max_texts` applies.

    Raises:
        HTTPException: 400: it is not UTF-8; 413: it has too many fields; 422: a field is given
            twice, has a value that only JSON has, or a number that is too large.
    """
    try:
        encoded = "&".join(filter(None, (query, body.decode())))
        if encoded.count("&") >= limits.max_texts + _MAX_OTHER_PARTS:
            message = f"at most {limits.max_texts} texts are allowed"
            raise HTTPException(413, f"too many fields: {message}")
        pairs = urllib.parse.parse_qsl(encoded, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the form is not UTF-8: {error}") from error
    if listed := next((name for name, _ in pairs if name in _ONLY_JSON), None):
        raise HTTPException(422, f'"{listed}" needs JSON: forms and addresses cannot hold it')
    texts = [value for name, value in pairs if name == _LISTED]
    fields = _unique([(name, _value(name, text)) for name, text in pairs if name != _LISTED])
    if texts:
        fields[_LISTED] = texts if len(texts) > 1 else texts[0]
    return fields


def _value(name: str, text: str) -> Any:
    """Returns what a form gives a field; the text itself if that is not of the field's kind."""
    if name == "n_best" and text.isascii() and text.isdecimal():
        return _whole_number(text)
    return _BOOLS.get(text, text) if name == "attention" else text
