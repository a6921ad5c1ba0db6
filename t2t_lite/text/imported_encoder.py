"""Vocabularies of imported models: a table of pieces, over a SentencePiece model or over words.

A side has two files. `vocab.imported.source.json` holds the table: the pieces by id, of which one
is for all that is unknown, the tokens of languages, and tokens that were added to the model, which
are split off a text before all else. `vocab.imported.source.spm` holds the
SentencePiece model that splits text into pieces; its own ids mean nothing here. An empty file says
that the text is split already: pieces are words between spaces.
"""

import functools
import itertools
import json
import pathlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece

from t2t_lite import files, json_files
from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.text.added_tokens import FLAGS, AddedTokens, without_spaces
from t2t_lite.text.language_tokens import TEXT, TRANSLATION, LanguageTokens
from t2t_lite.text.sentencepiece_model import without_space_rules
from t2t_lite.text.text_encoder import EOS_ID, SPACE, UNKNOWN_WORD

_MODEL = ".spm"

# Limits on what is read of files that may be of another kind, or made to fill the memory. The
# largest open vocabularies have a quarter of a million pieces, and files of 5 and 10 MB.
_MAX_PIECES = 2**21
_MAX_BYTES = 2**27

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # the piece of a byte


class ImportedEncoder(LanguageTokens):
    """Encodes with the vocabulary of an imported model.

    A piece that is not in the table gets the id of unknown ones. In a model of several languages,
    the ids of a text begin with the token of a language, which the decoded text does not show.

    Args:
        path: the table; the SentencePiece model is beside it.

    Raises:
        UserError: a file does not exist.
        DataError: a file is damaged.
    """

    def __init__(self, path: pathlib.Path) -> None:
        table = _read_table(path)
        self._path = path
        self._pieces: list[str] = table["pieces"]
        self._unknown_id: int = table["unknown"]
        self._special = frozenset(table["special"])
        self.languages = table["languages"]
        self.language_of = table["language_of"]
        self.language = table["language"]
        self._processor = _read_model(path.with_suffix(_MODEL))
        flags = {self._pieces[int(id_)]: names for id_, names in table["added"].items()}
        self._added = AddedTokens(
            {self._pieces[int(id_)]: int(id_) for id_ in table["added"]},
            flags,
            self._normalized if table["keeps_spaces"] else None,
        )
        own = [] if self._processor is None else _pieces_of(self._processor)
        known = set(own)
        # In a text, the names of special pieces are words like any others, as are those of added
        # tokens that the model lacks, where words end with letters.
        hidden = set(self._special)
        if self._added.keeps_spaces:
            hidden |= {id_ for token, id_ in self._added.ids.items() if token not in known}
        self._ids = {
            piece: id_
            for id_, piece in enumerate(self._pieces)
            if id_ > EOS_ID and id_ not in hidden
        }
        self._cleans_spaces: bool = table["cleans_spaces"]
        self._shown = list(self._pieces)
        if self._processor is not None:
            # Our id of each of the model's; its unknown id needs the text: the table may have it.
            self._by_model_id = np.array([self._ids.get(p, self._unknown_id) for p in own])
            # The model replaces the spaces of its own pieces alone.
            self._shown = [p if p in known else p.replace(SPACE, " ") for p in self._pieces]

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    @property
    def tokens(self) -> Sequence[str]:
        """The pieces by id, with pad and EOS."""
        return self._pieces

    def symbol(self, id_: int) -> str:
        """Returns a piece: unlike its text, it says whether a word begins with it."""
        return self._pieces[id_]

    def part_text(self, id_: int) -> str:
        """Returns the text of a piece, with the space before it; "" for special ones and bytes."""
        piece = self._pieces[id_]
        if id_ in self._special or id_ == self._unknown_id or _BYTE.fullmatch(piece):
            return ""
        return f" {piece}" if self._processor is None else piece.replace(SPACE, " ")

    def spell(self, part: str) -> list[int]:
        """Returns the ids of a part of a line; none if one is unknown, or if pieces are words."""
        if self._processor is None:
            return []
        pieces = self._within_words.encode(part.rstrip(" ") or part, out_type=str)
        ids = [self._ids.get(piece, self._unknown_id) for piece in pieces]
        return [] if self._unknown_id in ids else ids

    @functools.cached_property
    def _within_words(self) -> sentencepiece.SentencePieceProcessor:
        """The model for parts of lines: it does not put a space before them."""
        return sentencepiece.SentencePieceProcessor(model_proto=without_space_rules(self.model))

    def _normalized(self, text: str) -> str:
        """Returns a text as the model normalizes it, with single spaces."""
        if self._processor is None:
            return text
        return re.sub(" {2,}", " ", self._within_words.normalize(text).replace(SPACE, " "))

    @property
    def unknown_id(self) -> int:
        """The id of unknown pieces."""
        return self._unknown_id

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids beyond EOS that no text has and that decoding skips."""
        return self._special

    @property
    def model(self) -> bytes:
        """The SentencePiece model; empty if pieces are words."""
        return b"" if self._processor is None else self._processor.serialized_model_proto()

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text; skips pad, EOS, special and unknown pieces."""
        return self._joined([i for i in self._text_ids(ids) if i != self._unknown_id])

    def decode_reference(self, ids: Sequence[int]) -> str:
        """Returns the text with `UNKNOWN_WORD` for each unknown piece."""
        return self._joined(self._text_ids(ids))

    def unknown(self, text: str) -> list[str]:
        """Returns the words, or the characters of subwords, that have no id."""
        if self._processor is None:
            return [word for word in text.split() if word not in self._ids]
        if self._unknown_id not in self.split([text])[0]:
            return []
        texts = [part for part in self._added.split(text) if isinstance(part, str)]
        pieces = [p for t in texts for p in self._processor.encode(t, out_type=str)]
        strange = [piece for piece in pieces if piece not in self._ids]
        return [c for piece in strange for c in piece if c != SPACE and c not in self._ids]

    @property
    def text_ids(self) -> Mapping[str, int]:
        """The ids that a text may have, by piece."""
        return self._ids

    @property
    def shown(self) -> Sequence[str]:
        """The pieces by id as the SentencePiece model decodes them; words as they are."""
        return self._shown

    def _text_ids(self, ids: Sequence[int]) -> list[int]:
        return [i for i in super()._text_ids(ids) if i not in self._special]

    @property
    def is_whole(self) -> bool:
        """Whether the SentencePiece model alone tells how text becomes ids, and ids text."""
        return not self._added.ids and not self._cleans_spaces

    @property
    def added_tokens(self) -> Mapping[str, int]:
        """The ids of the tokens that are split off a text before the model splits the rest."""
        return self._added.ids

    @property
    def cleans_spaces(self) -> bool:
        """Whether decoded text loses the spaces before punctuation."""
        return self._cleans_spaces

    def split(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line without language tokens."""
        if not self._added.ids:
            return self._split(lines)
        parts = [self._added.split(line) for line in lines]
        texts = iter(self._split([p for line in parts for p in line if isinstance(p, str)]))
        space = [self._ids.get(SPACE, self._unknown_id)] if self._added.keeps_spaces else []
        encoded: list[list[int]] = []
        for line in parts:
            ids: list[int] = []
            for part, after in itertools.zip_longest(line, line[1:]):
                if isinstance(part, int):
                    ids.append(part)
                    continue
                ids += next(texts)
                if after is not None and part[-1].isspace():
                    ids += space
            encoded.append(ids)
        return encoded

    def _split(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line without added tokens."""
        get, unknown = self._ids.get, self._unknown_id
        if self._processor is None:
            return [[get(word, unknown) for word in line.split()] for line in lines]
        own_unknown = self._processor.unk_id()
        encoded = []
        for line, ids in zip(
            lines, self._processor.encode(list(lines), num_threads=1), strict=True
        ):
            if own_unknown in ids:  # the table may know what this side's model does not
                pieces = self._processor.encode(line, out_type=str)
                encoded.append([get(piece, unknown) for piece in pieces])
            else:
                encoded.append(self._by_model_id[ids].tolist() if ids else [])
        return encoded

    def _joined(self, ids: Sequence[int]) -> str:
        """Returns the text of ids that are not special."""
        if self._processor is None:
            return " ".join(UNKNOWN_WORD if i == self._unknown_id else self._shown[i] for i in ids)
        shown = [f" {UNKNOWN_WORD} " if i == self._unknown_id else self._shown[i] for i in ids]
        text = self._processor.decode(shown).strip()
        return without_spaces(text) if self._cleans_spaces else text


def _pieces_of(model: sentencepiece.SentencePieceProcessor) -> list[str]:
    """Returns the pieces of a model by its ids."""
    return model.id_to_piece(list(range(len(model))))


def write_encoder(
    path: pathlib.Path,
    pieces: Sequence[str],
    unknown: int,
    *,
    model: bytes = b"",
    special: Sequence[int] = (),
    languages: Mapping[str, int] | None = None,
    language_of: str = "",
    language: str = "",
    added: Mapping[int, Sequence[str]] | None = None,
    keeps_spaces: bool = False,
    cleans_spaces: bool = False,
    origin: str = "",
) -> None:
    """Writes the two files of an `ImportedEncoder`, each whole or not at all.

    Args:
        path: the table; the name of the SentencePiece model follows from it.
        pieces: the pieces by id, all different; first pad, then EOS.
        unknown: the id of the piece for all that is unknown.
        model: a SentencePiece model, as in its file; empty: pieces are words between spaces.
        special: ids beyond EOS that no text has, such as those of hidden language tokens.
        languages: the ids of language tokens by code; none if texts have no such token.
        language_of: with languages: `TEXT` or `TRANSLATION`, what a text's token is of.
        language: the code of the default language; "": none.
        added: tokens that are split off a text before the model splits the rest: the `FLAGS` of
            each, by its id.
        keeps_spaces: whether they are found as in Hugging Face's tokenizers; see `AddedTokens`.
        cleans_spaces: whether decoded text loses the spaces before punctuation.
        origin: the file that all this is from, for errors; "": `path`.

    Raises:
        DataError: a value is not as described.
    """
    table = {
        "pieces": list(pieces),
        "unknown": unknown,
        "special": sorted(special),
        "languages": dict(languages or {}),
        "language_of": language_of,
        "language": language,
        "added": {str(id_): [*flags] for id_, flags in (added or {}).items()},
        "keeps_spaces": keeps_spaces,
        "cleans_spaces": cleans_spaces,
    }
    try:
        _checked(table)
        _processor(model)
    except ValueError as error:
        raise DataError(f"{origin or path} has no valid vocabulary: {error}") from None
    model_path = path.with_suffix(_MODEL)
    with files.whole_file(model_path) as temporary:
        temporary.write_bytes(model)
    files.write_text(path, json.dumps(table, ensure_ascii=False, indent=1) + "\n")


def _read_table(path: pathlib.Path) -> dict[str, Any]:
    try:
        return _checked(json_files.parse_object(_read(path)))
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def _read_model(path: pathlib.Path) -> sentencepiece.SentencePieceProcessor | None:
    try:
        return _processor(_read(path))
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def _read(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            contents = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; copy it from the imported model's folder") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder: name a file") from None
    if len(contents) > _MAX_BYTES:
        raise _damaged(path, f"more than {_MAX_BYTES} bytes")
    return contents


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor | None:
    """Returns the SentencePiece model of a file's contents; None if the file is empty.

    Raises:
        ValueError: it is none.
    """
    if not model:
        return None
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        processor.id_to_piece(list(range(len(processor))))
    except (RuntimeError, UnicodeDecodeError):
        raise ValueError("not a SentencePiece model") from None
    return processor


def _checked(table: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a table after checking each of them.

    Raises:
        ValueError: one is missing, or not what it should be.
    """
    pieces = table.get("pieces")
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise ValueError(f"'pieces': expected a list of texts, got {quoted(pieces)}")
    size = len(pieces)
    if not EOS_ID + 1 < size <= _MAX_PIECES:
        raise ValueError(f"'pieces': {size} of them, expected 3 to {_MAX_PIECES}")
    if len(set(pieces)) < size:
        (twice, _), *_ = Counter(pieces).most_common(1)
        raise ValueError(f"'pieces': {quoted(twice)} occurs twice")
    unknown, special, languages = (table.get(n) for n in ("unknown", "special", "languages"))
    if not _is_id(unknown, size):
        raise ValueError(f"'unknown': {quoted(unknown)} is not the id of a piece")
    if not isinstance(special, list) or not all(_is_id(id_, size) for id_ in special):
        raise ValueError(f"'special': expected a list of ids, got {quoted(special)}")
    if unknown in special:
        raise ValueError("'special' contains the id of unknown pieces")
    if not isinstance(languages, dict) or not all(_is_id(i, size) for i in languages.values()):
        raise ValueError(f"'languages': expected ids by code, got {quoted(languages)}")
    expected = (TEXT, TRANSLATION) if languages else ("",)
    language_of, language = table.get("language_of"), table.get("language")
    if language_of not in expected:
        raise ValueError(f"'language_of': {quoted(language_of)}, expected one of {expected}")
    # Tables written before these fields lack them.
    added = table.setdefault("added", {})
    if not isinstance(added, dict) or not all(
        re.fullmatch("[0-9]{1,9}", id_)
        and _is_id(int(id_), size)
        and pieces[int(id_)]
        and isinstance(flags, list)
        and all(flag in FLAGS for flag in flags)
        for id_, flags in added.items()
    ):
        raise ValueError(f"'added': expected {', '.join(FLAGS)} by id, got {quoted(added)}")
    for name in ("keeps_spaces", "cleans_spaces"):
        if not isinstance(table.setdefault(name, False), bool):
            raise ValueError(f"{name!r}: expected true or false, got {quoted(table[name])}")
    if language != "" and not (isinstance(language, str) and language in languages):
        raise ValueError(f"'language': {quoted(language)} is not one of 'languages'")
    return table


def _is_id(value: Any, size: int) -> bool:
    return type(value) is int and EOS_ID < value < size  # True is an int, too


def _damaged(path: pathlib.Path, reason: str) -> DataError:
    return DataError(f"{path} is damaged: {reason}; import the model again, or copy the file")
