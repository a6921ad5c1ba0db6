"""The links of an output to its source, by its attention."""

import re

import numpy as np

from t2t_lite.alignment.pharaoh import Links
from t2t_lite.alignment.units import Unit, align_units

_WORD = re.compile(r"\S+")


def word_links(
    source: str,
    target: str,
    source_tokens: list[str],
    target_tokens: list[str],
    attention: np.ndarray,
) -> Links:
    """Returns the links between words, which white space separates: one for each target word.

    A word has the attention of all its tokens.

    Args:
        source: the source text.
        target: the output.
        source_tokens: S tokens of the source as text, EOS included.
        target_tokens: T tokens of the output.
        attention: [T, S].
    """
    units = [[Unit(*match.span()) for match in _WORD.finditer(text)] for text in (source, target)]
    tokens = source_tokens, target_tokens
    aligned = align_units(source, units[0], target, units[1], *tokens, attention)  # [U, V]
    if not aligned.size:
        return []
    return [(int(place), word) for word, place in enumerate(np.argmax(aligned, axis=1))]


def token_links(attention: np.ndarray) -> Links:
    """Returns the links between tokens: one for each of an output's but EOS.

    Args:
        attention: [T, S]; the last target and the last source token are EOS.
    """
    if min(attention.shape) < 2:
        return []
    places = np.argmax(attention[:-1, :-1], axis=1)
    return [(int(place), token) for token, place in enumerate(places)]
