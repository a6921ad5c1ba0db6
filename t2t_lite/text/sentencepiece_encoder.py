"""Encodes with SentencePiece models, BPE and unigram."""

import pathlib
from collections.abc import Sequence
from typing import Any

import sentencepiece
from google.protobuf.message import DecodeError

from t2t_lite import extras
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.sentencepiece_model import (
    UNKNOWN_ID,
    Piece,
    has_our_rules,
    pieces_of,
    reads_source_form,
    type_of,
)
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, SPACE, TextEncoder, VocabType, WordCache

# Words held in each of the two caches: first words of lines, and others.
_CACHED_WORDS = 2**16

# Limit on what is read of a file that may not be a model; a million pieces take about 20 MB.
_MAX_MODEL_BYTES = 2**28


class SentencePieceEncoder(TextEncoder):
    """Encodes with a SentencePiece model, BPE or unigram.

    Args:
        path: a model file with pad 0 and EOS 1.

    Raises:
        UserError: the file does not exist.
        DataError: the file is damaged, or its pad and EOS have other ids.
    """

    def __init__(self, path: pathlib.Path) -> None:
        try:
            with path.open("rb") as file:
                self._model = file.read(_MAX_MODEL_BYTES)
        except FileNotFoundError:
            raise UserError(f"{path}: no such file") from None
        except IsADirectoryError:
            raise UserError(f"{path} is a folder: name a file") from None
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
            pad, eos = self._processor.pad_id(), self._processor.eos_id()
            self._tokens = self._processor.id_to_piece(list(range(len(self._processor))))
            self._splits_at_spaces = _splits_at_spaces(self._model, self._processor)
            self.reads_source_form = reads_source_form(self._model)
        except (RuntimeError, UnicodeDecodeError, DecodeError):
            raise DataError(
                f"{path} is not a SentencePiece model, or is damaged: copy or build it again"
            ) from None
        ids = range(EOS_ID + 1, len(self._processor))
        self._special = frozenset(filter(self._processor.is_control, ids))
        self._known: set[str] = set()  # characters already found to have pieces
        self._first_words = WordCache(self._processor.encode, _CACHED_WORDS)
        self._other_words = WordCache(self._encode_after_space, _CACHED_WORDS)
        if (pad, eos) != (PAD_ID, EOS_ID):
            raise DataError(
                f"{path}: expected pad {PAD_ID} and EOS {EOS_ID}, got {pad} and {eos}; train it "
                f"with --pad_id={PAD_ID} --eos_id={EOS_ID} --unk_id={UNKNOWN_ID} --bos_id=-1"
            )

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._processor)

    @property
    def tokens(self) -> Sequence[str]:
        """The pieces by id, with pad, EOS and unknown."""
        return self._tokens

    @property
    def unknown_id(self) -> int:
        """The id of what has no piece; no text has it where bytes spell all characters."""
        return self._processor.unk_id()

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of control symbols beyond EOS, such as languages."""
        return self._special

    def symbol(self, id_: int) -> str:
        """Returns a piece: unlike its text, it says whether a word begins with it."""
        return self._tokens[id_]

    def part_text(self, id_: int) -> str:
        """Returns the text of a piece, with the space before it; "" for a byte or symbol."""
        model = self._processor
        if model.is_control(id_) or model.is_byte(id_) or model.is_unknown(id_):
            return ""
        return model.decode([id_])

    def spell(self, part: str) -> list[int]:
        """Returns the ids of a part of a line; pieces have no space at the end of words."""
        return self._processor.encode(part.rstrip(" ") or part)

    @property
    def model(self) -> bytes:
        """The contents of the file."""
        return self._model

    @property
    def model_type(self) -> str:
        """A `VocabType`; "" for a model whose pieces are words or characters."""
        return type_of(self._model)

    def pieces(self) -> list[Piece]:
        """Returns the pieces by id."""
        return pieces_of(self._model)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a line."""
        return self._processor.encode(text)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, on one core: data generation runs several processes."""
        return self._processor.encode(list(lines), num_threads=1)

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line; word by word if possible, which is much faster."""
        if not self._splits_at_spaces:
            return super().pack_lines(lines)
        split = (line.split(" ") for line in lines)
        return [
            self._first_words.pack(words[:1]) + self._other_words.pack(words[1:]) for words in split
        ]

    def _encode_after_space(self, word: str) -> list[int]:
        return self._processor.encode(f" {word}")

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text; bytes that are not UTF-8 become U+FFFD, the unknown id " ⁇ "."""
        return self._processor.decode(self._text_ids(ids))

    def unknown(self, text: str) -> list[str]:
        """Returns the characters that fall back to bytes, or to the unknown id."""
        new = set(text) - self._known
        self._known |= {character for character in new if self._is_known(character)}
        return [c for c in text if c not in self._known] if new - self._known else []

    def _is_known(self, character: str) -> bool:
        ids = self._processor.encode(character)
        return not any(i == self._processor.unk_id() or self._processor.is_byte(i) for i in ids)

    def graph_tokenizer(self) -> Any:
        """Returns the equivalent `tensorflow_text.SentencepieceTokenizer`, for use in a graph.

        `tokenize([N] strings)` returns ragged `[N, None]` int32 ids, `detokenize` the strings.
        A SavedModel that uses it loads only after `import tensorflow_text`.

        Raises:
            UserError: tensorflow-text is not installed.
        """
        import tensorflow as tf

        operations = extras.tensorflow_text("SentencePiece in a graph")
        # Not FastSentencepieceTokenizer: its ids differ for BPE.
        return operations.SentencepieceTokenizer(self._model, out_type=tf.int32)


def _splits_at_spaces(model: bytes, processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Whether encoding each word with the space before it gives the same ids as the whole line.

    True if no piece contains a space except at its start, the rules are ours, which apply to single
    characters, and pieces are merged by BPE: unigram's choice depends on rounding over the line.
    """
    return (
        type_of(model) == VocabType.SENTENCEPIECE_BPE
        and has_our_rules(model)
        and not any(SPACE in processor.id_to_piece(i)[1:] for i in range(len(processor)))
    )
