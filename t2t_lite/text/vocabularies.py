"""Building vocabulary files from text, and loading them as encoders.

The subword encoders are imported on demand.
"""

import itertools
import pathlib
from collections.abc import Iterable, Sequence

from t2t_lite import files
from t2t_lite.errors import DataError, UserError, did_you_mean
from t2t_lite.text.text_encoder import (
    RESERVED_TOKENS,
    ByteTextEncoder,
    TextEncoder,
    TokenTextEncoder,
    VocabType,
    require_characters,
)


def load(vocab_type: str, path: pathlib.Path, oov_token: str | None = None) -> TextEncoder:
    """Reads a vocabulary.

    Args:
        vocab_type: a `VocabType`.
        path: the vocabulary file; not read for CHARACTER.
        oov_token: replaces unknown tokens (TOKEN).

    Raises:
        UserError: the type is unknown, or the file does not exist.
        DataError: the file is damaged; the message names it and, in a text file, the line.
    """
    if vocab_type == VocabType.CHARACTER:
        return ByteTextEncoder()
    if vocab_type == VocabType.TOKEN:
        return TokenTextEncoder(path, oov_token)
    if vocab_type == VocabType.SUBWORD:
        from t2t_lite.text.subword_text_encoder import SubwordTextEncoder

        return SubwordTextEncoder.load(path)
    if vocab_type in (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM):
        from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder

        return SentencePieceEncoder(path)
    if vocab_type == VocabType.IMPORTED:
        from t2t_lite.text.imported_encoder import ImportedEncoder

        return ImportedEncoder(path)
    raise _unknown_type(vocab_type)


def build(
    vocab_type: str,
    path: pathlib.Path,
    lines: Iterable[str],
    approx_vocab_size: int,
    *,
    reserved_tokens: Sequence[str] = (),
    max_subtoken_length: int | None = None,
    reads_source_form: bool = True,
) -> None:
    """Builds a vocabulary from text and writes its file atomically.

    Args:
        vocab_type: a `VocabType` that is built from text: SUBWORD or one of SentencePiece's.
        path: the vocabulary file to write.
        lines: the text; empty lines are ignored.
        approx_vocab_size: desired number of ids: approximate for SUBWORD, exact for SentencePiece
            unless the text is too small.
        reserved_tokens: tokens that get the ids after EOS (SUBWORD); control symbols, which no text
            has (SentencePiece).
        max_subtoken_length: upper bound, exclusive, on the characters of a subtoken (SUBWORD).
        reads_source_form: whether models read sources in `source_form` (SentencePiece).

    Raises:
        UserError: the type is unknown or not built from text.
        DataError: the text is empty, is not text or contains a lone surrogate, or the size is too
            small for SentencePiece.
    """
    nonempty = (require_characters(line, "the training text") for line in lines if line != "")
    first = next(nonempty, None)
    if first is None:
        raise DataError(f"cannot build {path}: the training text is empty")
    text = itertools.chain([first], nonempty)
    if vocab_type == VocabType.SUBWORD:
        from t2t_lite.text.subword_text_encoder import SubwordTextEncoder, count_tokens

        SubwordTextEncoder.build_to_target_size(
            approx_vocab_size,
            count_tokens(text),
            reserved_tokens=reserved_tokens,
            max_subtoken_length=max_subtoken_length,
        ).save(path)
    elif vocab_type in (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM):
        from t2t_lite.text import sentencepiece_training

        sentencepiece_training.train(
            vocab_type, path, text, approx_vocab_size, reserved_tokens, reads_source_form
        )
    elif vocab_type in (VocabType.CHARACTER, VocabType.TOKEN, VocabType.IMPORTED):
        raise UserError(f"a {vocab_type!r} vocabulary is not built from text")
    else:
        raise _unknown_type(vocab_type)


def write_tokens(path: pathlib.Path, tokens: Iterable[str]) -> None:
    """Writes a vocabulary of type TOKEN: padding and EOS, then the tokens, each once."""
    lines = dict.fromkeys([*RESERVED_TOKENS, *tokens])
    files.write_text(path, "".join(f"{token}\n" for token in lines))


def _unknown_type(vocab_type: str) -> UserError:
    known = [value for name, value in vars(VocabType).items() if name.isupper()]
    return UserError(
        f"unknown vocab_type {vocab_type!r}{did_you_mean(vocab_type, known)}; "
        f"known types: {', '.join(known)}"
    )
