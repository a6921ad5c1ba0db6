"""Tokens of languages: how a text tells a model of several languages which one is meant."""

import abc
import copy
import re
import types
from collections.abc import Mapping, Sequence
from typing import Self

from t2t_lite.errors import DataError, UsageError, question
from t2t_lite.text import language_names
from t2t_lite.text.text_encoder import TextEncoder

# What a language token may be of: of the text that it begins, or of that text's translation.
TEXT, TRANSLATION = "text", "translation"

# How a text names the language of its translation: ">>deu<< A cat.", as for OPUS-MT's models.
_LABEL = re.compile(r">>([^\s<>]+)<<")


class LanguageTokens(TextEncoder):
    """An encoder that begins texts with the token of a language, which decoded text does not show.

    Attributes:
        languages: the ids of the language tokens, by code; none if texts have no such token.
        language_of: `TEXT` or `TRANSLATION`: what the token tells the language of.
        language: one of `starts`; "" if there is none, or if texts must name it.
        reads_labels: whether a text may name the language of its translation at its start.
    """

    languages: Mapping[str, int] = types.MappingProxyType({})
    language_of: str = ""
    language: str = ""
    reads_labels: bool = True

    @abc.abstractmethod
    def split(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line without language tokens."""

    @property
    def starts(self) -> Mapping[str, Sequence[int]]:
        """The ids with which a text begins, by what may be chosen as its language."""
        return {code: [id_] for code, id_ in self.languages.items()}

    def start_ids(self) -> Sequence[int]:
        """Returns the token of the language, if there are languages.

        Raises:
            DataError: none was chosen.
        """
        if not self.languages:
            return []
        if self.language:
            return self.starts[self.language]
        # The source's token may be of either language; a model with the first kind needs both.
        is_own = self.language_of == TEXT
        names = ["source_language", "target_language"][not is_own :]
        label = ""
        if self.reads_labels and not is_own:
            label = f", or begin each text with its own, as in >>{min(self.starts)}<<"
        raise DataError(
            f"the model has several languages and no default: set {' and '.join(names)} "
            f"({' and '.join(f'--{name}' for name in names)}; decode hparams, keywords in Python, "
            f"members of a problem){label}; it knows {self._some()}"
        )

    def start_of(self, ids: Sequence[int]) -> Sequence[int]:
        """Returns the token of a language with which ids begin, if they do."""
        return [i for i in ids[:1] if i in self.languages.values()]

    def in_language(self, code: str) -> Self:
        """Returns an encoder that begins texts with the token of a language.

        Raises:
            UsageError: the vocabulary does not know it.
        """
        if code not in self.starts:
            raise UsageError(
                f"unknown language {code!r}: the model knows {self._some() or 'only one'}"
                + question(language_names.meant(code, self.starts))
            )
        other = copy.copy(self)
        other.language = code
        return other

    def without_labels(self) -> Self:
        """Returns an encoder of texts that name no language, whatever they begin with."""
        other = copy.copy(self)
        other.reads_labels = False
        return other

    def named_language(self, text: str) -> str:
        """Returns the known language that a text such as ">>deu<< A cat." names; "" if none."""
        named = self._label(text)
        return named[1] if named and named[1] in self.starts else ""

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a line, after the token of the language; none for white space.

        Raises:
            DataError: the model has several languages, and none was chosen.
        """
        return self.encode_lines([text])[0]

    def encode_text(self, text: str) -> list[int]:
        """Returns the ids of a line without the token of a language."""
        return self.split([text])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, as `encode` does, on one core."""
        if not self.languages:
            return self.split(lines)
        starts: list[Sequence[int]] = []
        texts = []
        for line in lines:
            start, text = self._without_label(line)
            starts.append(start)
            texts.append(text)
        encoded = self.split(texts)
        return [
            [*(start or self.start_ids()), *ids] if ids else []
            for start, ids in zip(starts, encoded, strict=True)
        ]

    def _label(self, line: str) -> re.Match[str] | None:
        """Returns the match of the language token that a line begins with."""
        is_read = self.languages and self.language_of == TRANSLATION and self.reads_labels
        return _LABEL.match(line) if is_read else None

    def _without_label(self, line: str) -> tuple[Sequence[int], str]:
        """Returns the ids of the language that a line begins with, if it does, and its text.

        Raises:
            DataError: it names an unknown language.
        """
        named = self._label(line)
        if named is None:
            return [], line
        code = named[1]
        if code not in self.starts:
            raise DataError(
                f"{named[0]} at the start of the text names an unknown language: the model knows "
                f"{self._some()}{question(language_names.meant(code, self.starts))}"
            )
        return self.starts[code], line[named.end() :].lstrip()

    def _some(self) -> str:
        """Returns the codes of languages for a message; the first ones if there are many."""
        codes = sorted(self.starts)
        more = f" and {len(codes) - 12} more" if len(codes) > 12 else ""
        return ", ".join(codes[:12]) + more
