"""The decoder's conversion of text to ids and back, as TensorFlow operations."""

import functools
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import regex
import tensorflow as tf

from t2t_lite import extras
from t2t_lite.data.number_ids import ids_of_numbers, numbers_of_ids
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.language_tokens import TEXT, TRANSLATION, LanguageTokens
from t2t_lite.text.number_encoder import MOST_DIGITS, NumberEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.source_form import BLANK, UNSEEN
from t2t_lite.text.text_encoder import (
    RESERVED_TOKENS,
    SPACE,
    ByteTextEncoder,
    ClassLabelEncoder,
    TextEncoder,
)

_REPLACEMENT = 0xFFFD  # replaces bytes that are not UTF-8, as in Python


@functools.cache
def _class_of(characters: str) -> str:
    """Returns what stands in the brackets of a class of characters, in RE2's syntax.

    RE2's white space is only ASCII's, and RE2 does not know all properties.

    Args:
        characters: the class in `regex`'s syntax, with its brackets.
    """
    codes = np.arange(sys.maxunicode + 1, dtype="<u4")
    unicode = codes.tobytes().decode("utf-32-le", "surrogatepass")
    runs = regex.finditer(f"{characters}+", unicode, regex.V1)
    return "".join(f"\\x{{{run.start():X}}}-\\x{{{run.end() - 1:X}}}" for run in runs)


def _space() -> str:
    return _class_of(r"[\s\x1c-\x1f]")  # as `str.isspace`


def _space_around() -> str:
    return rf"\A[{_space()}]+|[{_space()}]+\z"


def _named_language() -> str:
    return rf"\A>>([^{_space()}<>]+)<<[{_space()}]*"


class GraphTokenizer(Protocol):
    """A text encoder in a graph."""

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of `lines` [N], int32 [N, (ids)], without EOS."""

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the text [N] of ids, none of which is reserved."""


class _Bytes:
    """`ByteTextEncoder` in a graph."""

    _OFFSET = len(RESERVED_TOKENS)

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        split = tf.strings.bytes_split(lines)
        codes = tf.reshape(tf.io.decode_raw(split.flat_values, tf.uint8), [-1])  # one byte each
        return split.with_flat_values(tf.cast(codes, tf.int32) + self._OFFSET)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        characters = tf.gather([bytes([code]) for code in range(256)], ids - self._OFFSET)
        return valid_text(tf.strings.reduce_join(characters, axis=-1))


class _Labels:
    """`ClassLabelEncoder` in a graph."""

    _FIRST = len(RESERVED_TOKENS)

    def __init__(self, encoder: ClassLabelEncoder) -> None:
        self._labels = tf.constant(encoder.labels)

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        found = tf.where(lines[:, None] == self._labels)  # [M, 2]: numbers of line and label
        ids = tf.cast(found[:, 1], tf.int32) + self._FIRST
        return tf.RaggedTensor.from_value_rowids(ids, found[:, 0], nrows=tf.size(lines, tf.int64))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        labels = tf.gather(self._labels, ids - self._FIRST)
        return tf.strings.reduce_join(labels, axis=-1, separator=" ")


class _Numbers:
    """`NumberEncoder` in a graph."""

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        words = tf.strings.split(lines)
        ids = ids_of_numbers(tf.strings.to_number(words.flat_values))
        return words.with_flat_values(tf.cast(ids, tf.int32))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        numbers = numbers_of_ids(ids.flat_values)
        # The shortest text that is the same number.
        texts = tf.stack(
            [
                tf.strings.as_string(numbers, precision=digits, shortest=True)
                for digits in range(1, MOST_DIGITS + 1)
            ]
        )
        is_same = tf.strings.to_number(texts) == numbers
        first = tf.argmax(tf.cast(is_same, tf.int32), axis=0)
        texts = tf.gather(tf.transpose(texts), first, batch_dims=1)
        return tf.strings.reduce_join(ids.with_flat_values(texts), axis=-1, separator=" ")


class _Pieces(tf.Module):
    """`ImportedEncoder` in a graph, without languages."""

    def __init__(self, encoder: ImportedEncoder) -> None:
        super().__init__()
        self._model: Any = None
        if encoder.model:
            operations = extras.tensorflow_text("SentencePiece in a graph")
            self._model = operations.SentencepieceTokenizer(encoder.model, out_type=tf.string)
        self._ids = _table(encoder.text_ids, encoder.unknown_id)
        self._shown = tf.constant(encoder.shown)
        self._skipped = tf.constant([encoder.unknown_id, *encoder.special_ids])

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        if self._model is None:
            words = tf.strings.split(tf.strings.regex_replace(lines, f"[{_space()}]+", " "))
        else:
            words = self._model.tokenize(lines)
        return words.with_flat_values(self._ids.lookup(words.flat_values))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        is_shown = tf.reduce_all(ids.flat_values[:, None] != self._skipped, axis=1)
        ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(is_shown))
        shown = tf.gather(self._shown, ids)
        if self._model is None:
            return tf.strings.reduce_join(shown, axis=-1, separator=" ")
        # Unlike sentencepiece, tensorflow_text leaves the spaces of some pieces as they are.
        texts = tf.strings.regex_replace(self._model.detokenize(shown), SPACE, " ")
        return tf.strings.regex_replace(texts, _space_around(), "")


class _Spoken(tf.Module):
    """The languages of a `LanguageTokens` in a graph.

    Args:
        encoder: knows the languages.
        text: the same encoder in a graph, without languages.

    Raises:
        DataError: no language was chosen, and no line can name its own.
    """

    def __init__(self, encoder: LanguageTokens, text: GraphTokenizer) -> None:
        super().__init__()
        if encoder.language_of == TEXT:
            encoder.start_ids()
        self._text = text
        codes = list(encoder.starts)
        self._languages = _table({code: number for number, code in enumerate(codes)}, -1)
        self._default = codes.index(encoder.language) if encoder.language else -1
        self._starts = tf.ragged.constant([*encoder.starts.values()], tf.int32)
        self._is_named = encoder.language_of == TRANSLATION

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        languages, texts = self._split_off_languages(lines)
        ids = self._text.tokenize(texts)
        is_text = ids.row_lengths() > 0
        message = "a line names no language that the model knows, and there is no default"
        tf.debugging.assert_equal(tf.reduce_any(is_text & (languages < 0)), False, message)
        starts = tf.gather(self._starts, tf.maximum(languages, 0))  # [N, (ids)]
        is_kept = starts.with_flat_values(tf.repeat(is_text, starts.row_lengths()))
        starts = tf.ragged.boolean_mask(starts, is_kept)
        return tf.concat([starts, ids], axis=1)

    def _split_off_languages(self, lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the languages' numbers [N] and the texts [N] of lines; -1: an unknown one."""
        languages = tf.fill(tf.shape(lines), self._default)
        if not self._is_named:
            return languages, lines
        texts = tf.strings.regex_replace(lines, _named_language(), "", replace_global=False)
        codes = tf.strings.regex_replace(lines, rf"(?s){_named_language()}.*\z", r"\1")
        return tf.where(texts != lines, self._languages.lookup(codes), languages), texts

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return self._text.detokenize(ids)


def _table(ids: Mapping[str, int], default: int) -> tf.lookup.StaticHashTable:
    keys, values = tf.constant(list(ids), tf.string), tf.constant(list(ids.values()), tf.int32)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


def graph_tokenizer(encoder: TextEncoder) -> GraphTokenizer | None:
    """Returns the equivalent of `encoder` in a graph; None if TensorFlow has no such operation.

    Raises:
        DataError: its texts begin with the token of their language, and none was chosen.
    """
    if isinstance(encoder, ImportedEncoder):
        if not encoder.is_whole:
            return None
        text: GraphTokenizer = _Pieces(encoder)
    elif isinstance(encoder, SentencePieceEncoder):
        text = encoder.graph_tokenizer()
    elif isinstance(encoder, ClassLabelEncoder):
        text = _Labels(encoder)
    elif isinstance(encoder, NumberEncoder):
        text = _Numbers()
    elif isinstance(encoder, ByteTextEncoder):
        text = _Bytes()
    else:
        return None
    if isinstance(encoder, LanguageTokens) and encoder.languages:
        return _Spoken(encoder, text)
    return text


def valid_text(lines: tf.Tensor) -> tf.Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD, like `bytes.decode("utf-8", "replace")`."""
    return tf.strings.unicode_transcode(
        lines, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT
    )


def source_text(lines: tf.Tensor, in_source_form: bool = False) -> tf.Tensor:
    """Drops the white space around each line, like `Problem.source`.

    Args:
        lines: [N], UTF-8.
        in_source_form: whether lines get the form of `source_form`, but for one thing: joiners,
            variation selectors and tags stay, whether something needs them or not.
    """
    lines = tf.strings.regex_replace(valid_text(lines), rf"\A[{_class_of(BLANK.pattern)}]*\z", "")
    if in_source_form:
        lines = tf.strings.regex_replace(lines, f"[{_space()}]", " ")  # a line break is one, too
        lines = tf.strings.regex_replace(lines, f"[{_class_of(UNSEEN.pattern)}]", "")
        operations = extras.tensorflow_text("Unicode's normal form in a graph")
        lines = operations.normalize_utf8(lines, "NFC")
    return tf.strings.regex_replace(lines, _space_around(), "")


def one_line(texts: tf.Tensor) -> tf.Tensor:
    """Replaces line ends and tabs by spaces, as the decoder does in outputs."""
    return tf.strings.regex_replace(texts, r"[\n\r\t]", " ")
