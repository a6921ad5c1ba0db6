"""What the decoder does to text in Python, in a TensorFlow graph: bytes to ids, ids to bytes."""

import re
import sys
from typing import Any, Protocol

import tensorflow as tf

from t2t_lite.data.problem import Problem
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import RESERVED_TOKENS, ByteTextEncoder, TextEncoder

_REPLACEMENT = 0xFFFD  # stands for bytes that are not UTF-8, as in Python

# RE2's idea of white space is ASCII's alone.
_SPACE = "".join(re.escape(c) for c in map(chr, range(sys.maxunicode + 1)) if c.isspace())
_SPACE_AROUND = rf"\A[{_SPACE}]+|[{_SPACE}]+\z"


class GraphTokenizer(Protocol):
    """A text encoder in a graph."""

    def tokenize(self, lines: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of `lines` [N], int32 [N, (ids)], without EOS."""

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the text [N] of ids that all stand for text."""


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


def graph_tokenizer(encoder: TextEncoder) -> GraphTokenizer | None:
    """Returns what does in a graph what `encoder` does; None if no operation of TensorFlow does."""
    if isinstance(encoder, SentencePieceEncoder):
        tokenizer: Any = encoder.graph_tokenizer()
        return tokenizer
    return _Bytes() if isinstance(encoder, ByteTextEncoder) else None


def is_plain_text(problem: Problem) -> bool:
    """Whether the problem shows text as it is and takes it but for the white space around it."""
    kind = type(problem)
    return kind.source is Problem.source and kind.postprocess is Problem.postprocess


def valid_text(lines: tf.Tensor) -> tf.Tensor:
    """Puts U+FFFD in place of bytes that are not UTF-8, as `bytes.decode("utf-8", "replace")`."""
    return tf.strings.unicode_transcode(
        lines, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT
    )


def source_text(lines: tf.Tensor) -> tf.Tensor:
    """Does what `Problem.source` does: drops the white space around each line."""
    return tf.strings.regex_replace(valid_text(lines), _SPACE_AROUND, "")


def one_line(texts: tf.Tensor) -> tf.Tensor:
    """Does what the decoder does to an output: line ends and tabs become spaces."""
    return tf.strings.regex_replace(texts, r"[\n\r\t]", " ")
