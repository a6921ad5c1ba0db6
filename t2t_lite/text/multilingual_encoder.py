"""The sources of a model of several languages, in a SentencePiece vocabulary that knows them.

The vocabulary has a control symbol for each language, such as `<2de>`, and for each tag, such as
`<bt>`. No text can spell them. A source begins with the language of its translation, as in Johnson
et al. 2017, and then with its tag.
"""

import copy
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Self

from t2t_lite.protocol_buffers import pack
from t2t_lite.text.language_tokens import TRANSLATION, LanguageTokens
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder

# A code of a language or a tag; a tag does not begin with the 2 of languages.
CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
TAG = re.compile(r"(?!2)[A-Za-z0-9][A-Za-z0-9_-]*")


def language_symbol(code: str) -> str:
    """Returns the piece of a language."""
    return f"<2{code}>"


def with_tag(language: str, tag: str) -> str:
    """Returns what stands for a language with a tag, which may be "": none."""
    return f"{language}+{tag}" if tag else language


def tag_symbol(tag: str) -> str:
    """Returns the piece of a tag."""
    return f"<{tag}>"


class MultilingualEncoder(LanguageTokens, SentencePieceEncoder):
    """Encodes sources with a SentencePiece model that has tokens of target languages.

    The language `de` may be chosen with a tag: `de+bt`.

    Args:
        path: a model file with pad 0 and EOS 1.

    Raises:
        UserError: the file does not exist.
        DataError: the file is damaged, or its pad and EOS have other ids.
    """

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        named = {self.symbol(id_)[1:-1]: id_ for id_ in sorted(self.special_ids)}
        self.languages = {name[1:]: id_ for name, id_ in named.items() if name.startswith("2")}
        self.language_of = TRANSLATION if self.languages else ""
        self.language = next(iter(self.languages)) if len(self.languages) == 1 else ""
        tags = {name: id_ for name, id_ in named.items() if not name.startswith("2")}
        self._starts = {code: [id_] for code, id_ in self.languages.items()} | {
            with_tag(code, tag): [id_, tag_id]
            for code, id_ in self.languages.items()
            for tag, tag_id in tags.items()
        }
        self._is_of_member = False
        self._takes_nothing = False

    @property
    def starts(self) -> Mapping[str, Sequence[int]]:
        """The tokens of each language, and of each with each tag."""
        return self._starts

    def of_member(self, language: str, takes_nothing: bool = False) -> Self:
        """Returns an encoder of texts that are all of one direction and origin, and name none.

        Args:
            language: one of `starts`; not read if the vocabulary knows no language.
            takes_nothing: whether a text without ids has the tokens of the language all the same.

        Raises:
            UsageError: the vocabulary does not know it.
        """
        other = self.in_language(language) if self.languages else copy.copy(self)
        other._is_of_member, other.reads_labels = True, False
        other._takes_nothing = takes_nothing
        return other

    def start_of(self, ids: Sequence[int]) -> Sequence[int]:
        """Returns the tokens of a language and of a tag with which ids begin."""
        end = next((n for n, i in enumerate(ids) if i not in self.special_ids), len(ids))
        return ids[:end]

    def split(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line without tokens of languages and tags."""
        return SentencePieceEncoder.encode_lines(self, lines)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, as `encode` does, on one core."""
        if not self._is_of_member:
            return super().encode_lines(lines)
        start = self.start_ids()
        takes_all = self._takes_nothing
        return [[*start, *ids] if ids or takes_all else [] for ids in self.split(lines)]

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line; of one direction, word by word if possible."""
        if not (self._is_of_member and self._splits_at_spaces):
            return [pack(ids) for ids in self.encode_lines(lines)]
        start = pack(self.start_ids())
        packed = SentencePieceEncoder.pack_lines(self, lines)
        return [start + ids if ids or self._takes_nothing else ids for ids in packed]
