"""T2T's invertible tokenizer: runs of letters and digits, and runs of everything else.

A single space between two alphanumeric tokens is implied and not a token:

    "Dude - that's so cool."  <->  ["Dude", " - ", "that", "'", "s", "so", "cool", "."]
"""

import re
from collections.abc import Iterable

# Python's `\w` without the underscore is exactly Unicode's letters (L*) and numbers (N*). A single
# space before a word is skipped, except at the start of the text, where no word precedes it.
_TOKEN = re.compile(r"[^\W_]+|(?!(?<!\A) [^\W_])[\W_]+")


def encode(text: str) -> list[str]:
    """Splits text into tokens; `decode` is its inverse for every text.

    Args:
        text: any text.

    Returns:
        Non-empty tokens.
    """
    return _TOKEN.findall(text)


def decode(tokens: Iterable[str]) -> str:
    """Joins tokens, with a space between two that both start with a letter or digit.

    Args:
        tokens: non-empty tokens, from `encode` or from a model.

    Returns:
        The text.
    """
    parts = []
    after_word = False
    for token in tokens:
        is_word = token[0].isalnum()
        if after_word and is_word:
            parts.append(" ")
        parts.append(token)
        after_word = is_word
    return "".join(parts)
