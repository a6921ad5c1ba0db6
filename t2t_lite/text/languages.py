"""The languages that a model of several languages reads and writes."""

import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from t2t_lite.errors import UsageError
from t2t_lite.text.text_encoder import TextEncoder

if TYPE_CHECKING:
    from t2t_lite.text.language_tokens import LanguageTokens


class Languages(NamedTuple):
    """Codes such as "de" or "deu_Latn"; "": the only language of the model, or its default."""

    source: str = ""
    target: str = ""


ANY = Languages()


def speaking(
    encoders: Mapping[str, TextEncoder], languages: Languages
) -> Mapping[str, TextEncoder]:
    """Returns the encoders of "inputs" and "targets" for these languages.

    Raises:
        UsageError: the model does not know a language, or has only one there.
    """
    if languages == ANY:
        return encoders
    given = languages._asdict()
    chosen = dict(encoders)
    known = set()
    for name, side, encoder in _with_languages(encoders):
        known.add(name)
        if given[name]:
            try:
                chosen[side] = encoder.in_language(given[name])
            except UsageError as error:
                raise UsageError(f"{name}_language: {error}") from None
    for name, language in given.items():
        if language and name not in known:
            raise UsageError(
                f"{name}_language={language}: the model has only one {name} language; leave it out"
            )
    return chosen


def without_labels(encoders: Mapping[str, TextEncoder]) -> Mapping[str, TextEncoder]:
    """Returns the encoders for texts that name no language, such as ">>Next<<" on a page."""
    changed = {side: encoder.without_labels() for _, side, encoder in _with_languages(encoders)}
    return {**encoders, **changed}


class Choice(NamedTuple):
    """The languages of one side.

    Attributes:
        codes: the model's.
        default: one of them, maybe with a tag; "": none.
    """

    codes: list[str]
    default: str


NO_CHOICE: Mapping[str, Choice] = types.MappingProxyType({})


def choices(encoders: Mapping[str, TextEncoder]) -> dict[str, Choice]:
    """Returns what may be chosen as "source" and as "target"; nothing for a side of one language.

    Args:
        encoders: of "inputs" and "targets".
    """
    return {
        name: Choice(sorted(encoder.languages), encoder.language)
        for name, _, encoder in _with_languages(encoders)
    }


def _with_languages(
    encoders: Mapping[str, TextEncoder],
) -> Iterator[tuple[str, str, "LanguageTokens"]]:
    """Yields whose language an encoder tells ("source" or "target"), its key, and the encoder."""
    # Here, since `--help` needs only `Languages`.
    from t2t_lite.text.language_tokens import TEXT, LanguageTokens

    for side, encoder in encoders.items():
        if isinstance(encoder, LanguageTokens) and encoder.languages:
            is_source = (side == "inputs") == (encoder.language_of == TEXT)
            yield "source" if is_source else "target", side, encoder
