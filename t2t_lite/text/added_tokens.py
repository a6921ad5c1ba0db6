"""Tokens that were added to the vocabulary of an imported model, and how they are joined."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise

# What Hugging Face's tokenizers say of an added token: it is only found as a word of its own, takes
# the spaces before or after it, or is looked for in normalized text.
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")

_OF_WORDS = ("L", "M", "Nd", "Nl", "Pc")  # begin the categories of characters in words


class AddedTokens:
    """Tokens that are split off a text before the SentencePiece model splits the rest.

    Args:
        ids: by token.
        flags: those of `FLAGS` that each token has.
        normalize: returns a text as the SentencePiece model normalizes it, and says that tokens are
            found as in Hugging Face's tokenizers, where a space before a token is a piece and words
            end where letters and digits do; None: as in its older ones, in Python.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        flags: Mapping[str, Collection[str]],
        normalize: Callable[[str], str] | None,
    ) -> None:
        self.ids = ids
        self.keeps_spaces = normalize is not None
        self._flags = flags
        self._normalize = normalize
        # Tokens by what is looked for: in text as it is, and as it is normalized.
        self._raw: dict[str, str] = {}
        self._normal: dict[str, str] = {}
        for token in ids:
            if normalize is None or "normalized" not in flags[token]:
                self._raw[token] = token
            elif text := normalize(token):
                self._normal[text] = token
        self._any, self._any_normal = map(_any_of, (self._raw, self._normal))

    def split(self, text: str) -> list[str | int]:
        """Returns the ids of the tokens in a text, and the texts between them."""
        if self._normalize is None:
            return self._split_in_words(text)
        found = self._found(text, self._any, self._raw)
        if self._normal:
            found = [
                part
                for whole in found
                for part in (
                    self._found(self._normalize(whole), self._any_normal, self._normal)
                    if isinstance(whole, str)
                    else [whole]
                )
            ]
        return found

    def _found(
        self, text: str, tokens: re.Pattern[str], by_text: Mapping[str, str]
    ) -> list[str | int]:
        """Returns the ids of tokens, and the texts between them."""
        parts: list[str | int] = []
        end = 0
        for match in tokens.finditer(text):
            (start, stop), token = match.span(), by_text[match[0]]
            flags = self._flags[token]
            if "single_word" in flags and any(
                map(_in_word, (text[start - 1 : start], text[stop:]))
            ):
                continue
            if "lstrip" in flags:
                start = len(text[:start].rstrip())
            if "rstrip" in flags:
                stop = len(text) - len(text[stop:].lstrip())
            parts += [text[end : max(start, end)], self.ids[token]]
            end = stop
        return [part for part in (*parts, text[end:]) if part != ""]

    def _split_in_words(self, text: str) -> list[str | int]:
        """As `split`; a `single_word` token within a word stays part of that word."""
        ends = [0, *(end for match in self._any.finditer(text) for end in match.span()), len(text)]
        parts = [text[start:end] for start, end in pairwise(ends) if start < end]
        for number, part in enumerate(parts):
            if part not in self.ids or "single_word" not in self._flags[part]:
                continue
            left = parts[number - 1] if number else ""
            right = parts[number + 1] if number + 1 < len(parts) else ""
            if left and not left.endswith(" "):
                parts[number - 1 : number + 1] = [left + part, ""]
            elif right and not right.startswith(" "):
                parts[number : number + 2] = ["", part + right]
        return [self.ids.get(part, part) for part in parts if part]


def _any_of(texts: Collection[str]) -> re.Pattern[str]:
    """Returns what finds the longest of several texts, or nothing if there are none."""
    by_length = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, by_length)) or "(?!)")


def _in_word(text: str) -> bool:
    """Whether a text begins with a character of words."""
    return unicodedata.category(text[0]).startswith(_OF_WORDS) if text else False


def without_spaces(text: str) -> str:
    """Returns a text without the spaces that transformers removes in `clean_up_tokenization`."""
    for mark in (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"):
        if mark == "n't":
            text = text.replace(" ' ", "'")
        text = text.replace(f" {mark}", mark)
    return text
