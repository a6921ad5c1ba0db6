"""The fields of a request, all of which are checked."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from t2t_lite.decoding.request import FIELDS, NOTHING, TextOptions
from t2t_lite.errors import UsageError, did_you_mean, quoted, surrogate_in
from t2t_lite.serving.config import ServerConfig
from t2t_lite.terms.term_list import TooLongError

# Waiting requests of so many characters are translated together. A shorter text counts as the
# second number, because the search's steps cost the same however short it is.
MOST_TOGETHER = 16384
_LEAST_CHARACTERS = 64

_FIELDS = ("text", "texts", "n_best", "attention", *FIELDS)

# Text has about four characters for each subword, and tags besides.
_CHARACTERS_OF_SUBWORD = 10

MAX_LISTED = 400  # texts in the lists and mappings of other fields


# The answer to a text: the fields of a line of `t2t-decoder --output_format=json`.
Line = Mapping[str, Any]


def own_form(request: "TranslationRequest", lines: Sequence[Line]) -> Any:
    """Returns the answer to a request in the server's own form, as a JSON value."""
    return lines[0] if request.is_single else {"translations": lines}


class TranslationRequest(NamedTuple):
    """Some texts to translate."""

    texts: list[str]
    n_best: int  # hypotheses to return for each text
    attention: bool  # whether to return tokens and attention with them
    is_single: bool  # whether "text" was sent, not a list
    options: TextOptions = NOTHING  # what else is asked of them
    form: Callable[["TranslationRequest", Sequence[Line]], Any] = own_form  # of the answer

    def answer(self, lines: Sequence[Line]) -> bytes:
        """Returns the answer in JSON, given that to each text."""
        return json.dumps(self.form(self, lines), ensure_ascii=False).encode()

    @property
    def size(self) -> int:
        """How many of the characters that are translated together it takes."""
        size = sum(max(len(text), _LEAST_CHARACTERS) for text in self.texts)
        return size * self.options.search_factor

    @property
    def is_large(self) -> bool:
        """Whether it is translated alone, batch by batch."""
        return self.size > MOST_TOGETHER


class OptionRefusal(HTTPException):
    """The model, or its search, cannot do what an option asks, or not for such texts.

    Attributes:
        option: the field of `TextOptions`.
    """

    def __init__(self, option: str, detail: str, status_code: int = 422) -> None:
        super().__init__(status_code, detail)
        self.option = option


def checked(fields: Mapping[str, Any], limits: ServerConfig) -> TranslationRequest:
    """Checks the fields of a request.

    Args:
        fields: "text" or "texts", and perhaps the other `_FIELDS`.
        limits: `max_texts`, `max_text_length` and `max_subwords` apply.

    Raises:
        HTTPException: 422: not as above; 413: too many texts, or too long ones.
    """
    for name in fields:
        if name not in _FIELDS:
            raise HTTPException(422, f"unknown field {quoted(name)}{did_you_mean(name, _FIELDS)}")
    if ("text" in fields) == ("texts" in fields):
        raise HTTPException(422, 'expected either "text" or "texts"')
    is_single = "text" in fields
    texts = [fields["text"]] if is_single else fields["texts"]
    if not isinstance(texts, list):
        raise HTTPException(422, '"texts" must be a list of strings')
    check_texts(texts, "text" if is_single else "text {}", limits)
    check_size(texts, limits)
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
            check_text(value, f'"{name}"', FIELDS[name].most)
    try:
        options = TextOptions(**given) if given else NOTHING
    except TooLongError as error:
        raise HTTPException(413, str(error)) from None
    except UsageError as error:
        raise HTTPException(422, str(error)) from None
    listed = {name: [*_texts_in(getattr(options, name))] for name in given if FIELDS[name].checked}
    if (count := sum(map(len, listed.values()))) > MAX_LISTED:
        what = f"texts in {' and '.join(listed)}"
        raise HTTPException(413, f"{count} {what}: at most {MAX_LISTED} are allowed")
    for name, texts in listed.items():
        for text in texts:
            check_text(text, f'a text in "{name}"', limits.max_text_length)
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


def check_texts(texts: Sequence[Any], name: str, limits: ServerConfig) -> None:
    """Checks the number of texts, and each of them.

    Args:
        texts: what the request has in their place.
        name: what messages call one, with {} for its number, from 1.
        limits: `max_texts` and `max_text_length` apply.

    Raises:
        HTTPException: 413: there are too many; 413, 422: as in `check_text`.
    """
    if len(texts) > limits.max_texts:
        raise HTTPException(413, f"{len(texts)} texts: at most {limits.max_texts} are allowed")
    for number, text in enumerate(texts, 1):
        check_text(text, name.format(number), limits.max_text_length)


def check_size(texts: Iterable[str], limits: ServerConfig) -> None:
    """Refuses texts that cannot have as few subwords as `max_subwords` allows.

    Raises:
        HTTPException: 413.
    """
    size, most = sum(map(len, texts)), _CHARACTERS_OF_SUBWORD * limits.max_subwords
    if size > most:
        raise HTTPException(413, f"the texts have {size} characters: at most {most} are allowed")


def check_text(text: Any, name: str, longest: int) -> None:
    """Checks one text of a request.

    Args:
        text: what the request has in its place.
        name: what messages call it.
        longest: the most characters that are allowed.

    Raises:
        HTTPException: 422: it is not a string; 413: it is too long.
    """
    if not isinstance(text, str):
        raise HTTPException(422, f"{name} is not a string")
    if len(text) > longest:
        raise HTTPException(
            413, f"{name} has {len(text)} characters: at most {longest} are allowed"
        )
    if fault := surrogate_in(text):
        raise HTTPException(422, f"{name} holds {fault}")
