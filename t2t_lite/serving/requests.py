"""What clients may ask: JSON, checked field by field."""

import json
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.errors import did_you_mean
from t2t_lite.serving.config import ServerConfig


class Request(NamedTuple):
    """Some texts to translate."""

    texts: list[str]
    n_best: int  # hypotheses to return for each text
    attention: bool  # whether they come with tokens and attention
    is_single: bool  # whether one text was sent, not a list


def parse(body: bytes, limits: ServerConfig) -> Request:
    """Reads the JSON of a request.

    Args:
        body: an object with "text" or "texts", and perhaps "n_best" and "attention".
        limits: `max_texts` and `max_text_length` hold.

    Raises:
        HTTPException: 400: no JSON; 422: not as above; 413: too many or too long texts.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise HTTPException(422, 'expected an object such as {"text": "..."}')
    known = ("text", "texts", "n_best", "attention")
    for name in fields:
        if name not in known:
            raise HTTPException(422, f"unknown field {name!r}{did_you_mean(name, known)}")
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
    n_best = fields.get("n_best", 1)
    if type(n_best) is not int or n_best < 1:  # True is an int, too
        raise HTTPException(422, '"n_best" must be a whole number of at least 1')
    attention = fields.get("attention", False)
    if not isinstance(attention, bool):
        raise HTTPException(422, '"attention" must be true or false')
    return Request(texts, n_best, attention, is_single)


def _check(text: Any, name: str, longest: int) -> None:
    if not isinstance(text, str):
        raise HTTPException(422, f"{name} is no string")
    if len(text) > longest:
        raise HTTPException(
            413, f"{name} has {len(text)} characters: at most {longest} are allowed"
        )
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can spell half of a surrogate pair
        raise HTTPException(422, f"{name} holds a lone surrogate, which is no character") from None
