"""The decoder's conversion of text to ids and back, as TensorFlow operations."""

import re
import sys
from typing import Any, Protocol

import tensorflow as tf

from t2t_lite.data.problem import Problem
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import (
    RESERVED_TOKENS,
    ByteTextEncoder,
    ClassLabelEncoder,
    TextEncoder,
)

_REPLACEMENT = 0xFFFD  # replaces bytes that are not UTF-8, as in Python

# RE2's white space is only ASCII's.
_SPACE = "".join(re.escape(c) for c in map(chr, range(sys.maxunicode + 1)) if c.isspace())
_SPACE_AROUND = rf"\A[{_SPACE}]+|[{_SPACE}]+\z"


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


def graph_tokenizer(encoder: TextEncoder) -> GraphTokenizer | None:
    """Returns the equivalent of `encoder` in a graph; None if TensorFlow has no such operation."""
    if isinstance(encoder, SentencePieceEncoder):
        tokenizer: Any = encoder.graph_tokenizer()
        return tokenizer
    if isinstance(encoder, ClassLabelEncoder):
        return _Labels(encoder)
    return _Bytes() if isinstance(encoder, ByteTextEncoder) else None


def is_plain_text(problem: Problem) -> bool:
    """Whether the problem changes text in no way, except for dropping surrounding white space."""
    kind = type(problem)
    return kind.source is Problem.source and kind.postprocess is Problem.postprocess


def valid_text(lines: tf.Tensor) -> tf.Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD, like `bytes.decode("utf-8", "replace")`."""
    return tf.strings.unicode_transcode(
        lines, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT
    )


def source_text(lines: tf.Tensor) -> tf.Tensor:
    """Drops the white space around each line, like `Problem.source`."""
    return tf.strings.regex_replace(valid_text(lines), _SPACE_AROUND, "")


def one_line(texts: tf.Tensor) -> tf.Tensor:
    """Replaces line ends and tabs by spaces, as the decoder does in outputs."""
    return tf.strings.regex_replace(texts, r"[\n\r\t]", " ")
