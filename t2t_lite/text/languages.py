"""The languages that a model of several languages reads and writes."""

from collections.abc import Mapping
from typing import NamedTuple

from t2t_lite.errors import UsageError
from t2t_lite.text.text_encoder import TextEncoder


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
    # Here, since `--help` needs only `Languages`.
    from t2t_lite.text.imported_encoder import TEXT, ImportedEncoder

    given = languages._asdict()
    chosen = dict(encoders)
    known = set()
    for side, encoder in encoders.items():
        if not isinstance(encoder, ImportedEncoder) or not encoder.languages:
            continue
        name = "source" if (side == "inputs") == (encoder.language_of == TEXT) else "target"
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
