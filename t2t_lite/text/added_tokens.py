"""Tokens that were added to the vocabulary of an imported model, and how they are joined."""

import re
from collections.abc import Mapping, Sequence


class AddedTokens:
    """Tokens that are split off a text before the SentencePiece model splits the rest.

    Args:
        ids: by token.
        words: the tokens that are only found as words of their own.
        keeps_spaces: whether a space before a token is a piece, and words end where letters and
            digits do, as in Hugging Face's tokenizers; else as in its older ones, in Python.
    """

    def __init__(self, ids: Mapping[str, int], words: Sequence[str], keeps_spaces: bool) -> None:
        self.ids = ids
        self._words = frozenset(words)
        self.keeps_spaces = keeps_spaces
        bounded = r"(?<!\w){}(?!\w)" if keeps_spaces else "{}"
        self._any = re.compile(
            "|".join(
                (bounded if token in self._words else "{}").format(re.escape(token))
                for token in sorted(ids, key=len, reverse=True)
            )
        )

    def split(self, text: str) -> list[str | int]:
        """Returns the ids of the tokens in a text, and the texts between them."""
        parts, start = [], 0
        for match in self._any.finditer(text):
            parts += [text[start : match.start()], match[0]]
            start = match.end()
        parts = [part for part in (*parts, text[start:]) if part]
        if not self.keeps_spaces:
            self._join_words(parts)
        return [self.ids.get(part, part) for part in parts if part]

    def _join_words(self, parts: list[str]) -> None:
        """Joins tokens that are no words of their own to what is beside them."""
        for number, part in enumerate(parts):
            if part not in self._words:
                continue
            left = parts[number - 1] if number else ""
            right = parts[number + 1] if number + 1 < len(parts) else ""
            if left and not left.endswith(" "):
                parts[number - 1 : number + 1] = [left + part, ""]
            elif right and not right.startswith(" "):
                parts[number : number + 2] = ["", part + right]


def without_spaces(text: str) -> str:
    """Returns a text without the spaces that transformers removes in `clean_up_tokenization`."""
    for mark in (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"):
        if mark == "n't":
            text = text.replace(" ' ", "'")
        text = text.replace(f" {mark}", mark)
    return text
