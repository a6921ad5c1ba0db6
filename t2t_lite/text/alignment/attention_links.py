"""The links of an output to its source, by its attention."""

import re
from collections.abc import Sequence

import numpy as np

from t2t_lite.text.alignment.pharaoh import Links
from t2t_lite.text.alignment.units import Unit, align_units, word_attention
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS

_WORD = re.compile(r"\S+")
_EOS = RESERVED_TOKENS[EOS_ID]


def word_links(
    source: str,
    target: str,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    attention: np.ndarray,
    may_lack: bool = False,
) -> Links:
    """Returns the links between words, which white space separates: one for each target word.

    A word has the attention of all its tokens.

    Args:
        source: the source text.
        target: the output.
        source_tokens: S tokens of the source as text, EOS included.
        target_tokens: T tokens of the output.
        attention: [T, S].
        may_lack: whether a word that attends most to EOS has no link.
    """
    units = [[Unit(*match.span()) for match in _WORD.finditer(text)] for text in (source, target)]
    tokens = source_tokens, target_tokens
    aligned = align_units(source, units[0], target, units[1], *tokens, attention)  # [U, V]
    if not aligned.size:
        return []
    places = np.argmax(aligned, axis=1)
    found = [(int(place), word) for word, place in enumerate(places)]
    if not may_lack:
        return found
    to_tokens = word_attention(target, units[1], target_tokens, attention)  # [U, S]
    to_words = word_attention(source, units[0], source_tokens, to_tokens.T).T  # [U, V]
    is_eos = [token == _EOS for token in source_tokens]
    to_eos = to_tokens[:, is_eos].sum(axis=1)  # [U]
    return [link for link in found if to_words[link[1], link[0]] >= to_eos[link[1]]]


def token_links(
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    attention: np.ndarray,
    may_lack: bool = False,
) -> Links:
    """Returns the links between tokens, of which EOS has none.

    Args:
        source_tokens: S tokens.
        target_tokens: T tokens.
        attention: [T, S].
        may_lack: whether a token that attends most to EOS has no link.
    """
    is_eos = np.array([token == _EOS for token in source_tokens])
    if is_eos.all():
        return []
    best = np.argmax(attention, axis=1)
    words = np.argmax(np.where(is_eos, -1.0, attention), axis=1)
    return [
        (int(words[place]), place)
        for place, token in enumerate(target_tokens)
        if token != _EOS and not (may_lack and is_eos[best[place]])
    ]
