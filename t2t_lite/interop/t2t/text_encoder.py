"""T2T's text encoders, with its arguments and methods.

Unlike T2T's, `decode` leaves out padding, EOS and ids outside the vocabulary.
"""

import contextlib
import contextvars
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from t2t_lite import files
from t2t_lite.errors import UserError
from t2t_lite.text import subword_text_encoder, text_encoder, text_files
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

__all__ = [
    "EOS",
    "EOS_ID",
    "NUM_RESERVED_TOKENS",
    "PAD",
    "PAD_ID",
    "RESERVED_TOKENS",
    "RESERVED_TOKENS_BYTES",
    "ByteTextEncoder",
    "ClassLabelEncoder",
    "RealEncoder",
    "SubwordTextEncoder",
    "TextEncoder",
    "TokenTextEncoder",
    "is_unicode",
    "native_to_unicode",
    "strip_ids",
    "to_unicode",
    "to_unicode_ignore_errors",
    "to_unicode_utf8",
    "unicode_to_native",
]

RESERVED_TOKENS = list(text_encoder.RESERVED_TOKENS)
RESERVED_TOKENS_BYTES = [token.encode() for token in RESERVED_TOKENS]
PAD, EOS = RESERVED_TOKENS
NUM_RESERVED_TOKENS = len(RESERVED_TOKENS)
_RESERVED = NUM_RESERVED_TOKENS  # users append to the tokens, and set their number

# Receives the paths of vocabularies instead of reading them.
_requested: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar(
    "requested", default=None
)


@contextlib.contextmanager
def noting_files() -> Iterator[list[str]]:
    """Yields a list of the vocabularies that encoders made in the block would read."""
    paths: list[str] = []
    token = _requested.set(paths)
    try:
        yield paths
    finally:
        _requested.reset(token)


def is_noting() -> bool:
    """Whether vocabularies are noted, and so need not exist."""
    return _requested.get() is not None


def _is_noted(path: str) -> bool:
    paths = _requested.get()
    if paths is not None:
        paths.append(os.fspath(path))
    return paths is not None


# ---- text

_escape_token = subword_text_encoder.escape  # T2T's name, which users' encoders call


def _unescape_token(escaped_token: str) -> str:
    """Returns what `_escape_token` escaped; T2T's name."""
    return subword_text_encoder.unescape(escaped_token.removesuffix("_"))


def to_unicode(s: str | bytes, ignore_errors: bool = False) -> str:
    """Returns text, decoded if needed."""
    if isinstance(s, str):
        return s
    return s.decode("utf-8", errors="ignore" if ignore_errors else "strict")


def native_to_unicode(s: str | bytes) -> str:
    """Returns text; bytes that are not UTF-8 are left out."""
    return to_unicode(s, ignore_errors=True)


to_unicode_ignore_errors = native_to_unicode
to_unicode_utf8 = to_unicode


def unicode_to_native(s: str) -> str:
    """Returns the text."""
    return s


def is_unicode(s: Any) -> bool:
    """Whether a value is text."""
    return isinstance(s, str)


def strip_ids(ids: Iterable[int], ids_to_strip: Sequence[int]) -> list[int]:
    """Removes some ids from the end."""
    kept = list(ids)
    while kept and kept[-1] in ids_to_strip:
        kept.pop()
    return kept


# ---- encoders


class TextEncoder(text_encoder.TextEncoder):
    """Numbers separated by white space; base of a user's own encoders.

    Args:
        num_reserved_ids: ids below this are reserved; they are added to the numbers.
    """

    def __init__(self, num_reserved_ids: int | None = NUM_RESERVED_TOKENS) -> None:
        self._num_reserved_ids = num_reserved_ids or 0

    @property
    def num_reserved_ids(self) -> int:
        """Number of reserved ids."""
        return self._num_reserved_ids

    @property
    def vocab_size(self) -> int:
        """Unknown.

        Raises:
            UserError: always; a subclass knows it, or the problem's `hparams` gives it.
        """
        raise UserError(
            f"{type(self).__name__} has no vocab_size: define it, or set p.vocab_size in the "
            "problem's hparams"
        )

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a line; EOS is not appended."""
        return [int(word) + self._num_reserved_ids for word in s.split()]

    def decode(self, ids: Sequence[int], strip_extraneous: bool = False) -> str:
        """Returns the text."""
        del strip_extraneous
        return " ".join(self.decode_list([i for i in ids if i >= self._num_reserved_ids]))

    def decode_list(self, ids: Sequence[int]) -> list[str]:
        """Returns the text of each id."""
        reserved = self._num_reserved_ids
        return [RESERVED_TOKENS[i] if i < reserved else str(i - reserved) for i in ids]


class _ReservedIds:
    """Members that T2T's encoders have in addition to this package's."""

    _num_reserved_ids: int | None = _RESERVED

    @property
    def num_reserved_ids(self) -> int | None:
        """Number of reserved ids."""
        return self._num_reserved_ids


class ByteTextEncoder(_ReservedIds, text_encoder.ByteTextEncoder):
    """UTF-8 bytes.

    Args:
        num_reserved_ids: only T2T's default is available.
    """

    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS) -> None:
        if num_reserved_ids != _RESERVED:
            raise ValueError(f"num_reserved_ids={num_reserved_ids}: only 2 is available")

    def decode(self, ids: Sequence[int], strip_extraneous: bool = False) -> str:
        """Returns the text."""
        del strip_extraneous
        return super().decode(ids)

    def decode_list(self, ids: Sequence[int]) -> list[bytes]:
        """Returns the byte of each id, and the names of padding and EOS."""
        return [RESERVED_TOKENS_BYTES[i] if i < _RESERVED else bytes([i - _RESERVED]) for i in ids]


class TokenTextEncoder(_ReservedIds, text_encoder.TokenTextEncoder):
    """Tokens separated by white space, from a file or a list; padding and EOS come first.

    Args:
        vocab_filename: the file, one token per line; None: none.
        reverse: whether ids are in the opposite order of the text.
        vocab_list: the tokens, if there is no file.
        replace_oov: the token for unlisted ones.
        num_reserved_ids: changes nothing, as in T2T.
    """

    def __init__(
        self,
        vocab_filename: str | None,
        reverse: bool = False,
        vocab_list: Sequence[str] | None = None,
        replace_oov: str | None = None,
        num_reserved_ids: int = NUM_RESERVED_TOKENS,
    ) -> None:
        del num_reserved_ids
        self._reverse = reverse
        self._oov_token = replace_oov
        if vocab_filename:
            self._init_vocab_from_file(vocab_filename)
        else:
            self._init_vocab_from_list(vocab_list or ())

    # T2T's names, which subclasses read, set and call.

    def _init_vocab_from_file(self, filename: str) -> None:
        """Reads the tokens of a file."""
        if _is_noted(filename):
            self._read(filename, [PAD], None)
        else:
            self._read(filename, text_files.iterate_lines(filename), self._replace_oov)

    def _init_vocab_from_list(self, vocab_list: Iterable[str]) -> None:
        """Takes the tokens of a list."""
        others = (token for token in vocab_list if token not in RESERVED_TOKENS)
        self._read("vocab_list", [*RESERVED_TOKENS, *others], self._replace_oov)

    def _read(
        self, path: str | os.PathLike[str], lines: Iterable[str], oov_token: str | None
    ) -> None:
        """Sets the tokens, and the token of each id."""
        super()._read(path, lines, oov_token)
        self._id_to_token = dict(enumerate(self._tokens))

    @property
    def _token_to_id(self) -> dict[str, int]:
        """The id of each token."""
        return self._ids

    @property
    def _replace_oov(self) -> str | None:
        """The token for unlisted ones."""
        return self._oov_token

    @_replace_oov.setter
    def _replace_oov(self, token: str | None) -> None:
        self._oov_token = token

    def _listed(self, lines: Iterable[str]) -> list[str]:
        """Returns a token for each line: in T2T, blank and repeated ones have ids, too."""
        return [line.strip() for line in lines]

    def _require_oov_token(self, oov_token: str) -> None:
        """Requires nothing: as in T2T, a text without unknown words does not need the token."""

    def _id(self, token: str) -> int:
        # T2T's problems write "<EOS>" into text and mean the id.
        return self._ids[token] if token in text_encoder.RESERVED_TOKENS else super()._id(token)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tokens of a line."""
        return self._in_order(super().encode(text))

    def decode(self, ids: Sequence[int], strip_extraneous: bool = False) -> str:
        """Returns the text."""
        del strip_extraneous
        return super().decode(self._in_order(ids))

    def decode_list(self, ids: Sequence[int]) -> list[str]:
        """Returns the token of each id."""
        known = self._in_order(ids)
        return [self.tokens[i] if i < self.vocab_size else f"ID_{i}" for i in known]

    def _in_order(self, ids: Sequence[int]) -> list[int]:
        return list(reversed(ids)) if self._reverse else list(ids)

    def store_to_file(self, filename: str) -> None:
        """Writes the tokens, with padding and EOS, one per line."""
        files.write_text(filename, "".join(f"{token}\n" for token in self.tokens))


def _own_reserved(tokens: Sequence[str] | None) -> Sequence[str]:
    """Returns the reserved tokens after those that every vocabulary begins with.

    Raises:
        ValueError: they do not begin with those.
    """
    tokens = RESERVED_TOKENS if tokens is None else list(tokens)
    if tokens[:_RESERVED] != [PAD, EOS]:
        raise ValueError(f"reserved_tokens={tokens}: expected {[PAD, EOS]} and others")
    return tokens[_RESERVED:]


class SubwordTextEncoder(_ReservedIds, subword_text_encoder.SubwordTextEncoder):
    """T2T's subwords.

    Args:
        filename: a `.subwords` file; None: empty. A list of subtokens is taken as it is.
    """

    _num_reserved_ids = None

    def __init__(self, filename: str | os.PathLike[str] | Sequence[str] | None = None) -> None:
        self.filename = filename if isinstance(filename, str | os.PathLike) else None
        if filename is None or (isinstance(filename, str) and _is_noted(filename)):
            super().__init__([])
        elif isinstance(filename, str | os.PathLike):
            loaded = subword_text_encoder.SubwordTextEncoder.load(filename)
            super().__init__(loaded.all_subtoken_strings)
        else:
            super().__init__(filename)

    @classmethod
    def build_from_generator(
        cls,
        generator: Iterable[str],
        target_size: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] | None = None,
    ) -> Self:
        """Builds a vocabulary of about the given size from text."""
        counts = subword_text_encoder.count_tokens(map(native_to_unicode, generator))
        return cls.build_to_target_size(
            target_size, counts, 1, 1e3, max_subtoken_length, reserved_tokens
        )

    # T2T's builders differ in their arguments, and the second fills an encoder that exists.

    @classmethod
    def build_to_target_size(  # type: ignore[override]
        cls,
        target_size: int,
        token_counts: Mapping[str, int],
        min_val: float,
        max_val: float,
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] | None = None,
        num_iterations: int = 4,
    ) -> Self:
        """Builds a vocabulary of about the given size from counts.

        Args:
            target_size: desired number of subtokens.
            token_counts: occurrences of each token.
            min_val: smallest `min_count` to try.
            max_val: largest `min_count` to try.
            max_subtoken_length: upper bound, exclusive, on the characters of a subtoken.
            reserved_tokens: the first tokens, which begin with RESERVED_TOKENS; None: only those.
            num_iterations: passes over the counts.
        """
        built = subword_text_encoder.SubwordTextEncoder.build_to_target_size(
            target_size,
            token_counts,
            int(min_val),
            int(max_val),
            reserved_tokens=_own_reserved(reserved_tokens),
            max_subtoken_length=max_subtoken_length,
            num_iterations=num_iterations,
        )
        return cls(built.all_subtoken_strings)

    def build_from_token_counts(  # type: ignore[override]
        self,
        token_counts: Mapping[str, int],
        min_count: int,
        num_iterations: int = 4,
        reserved_tokens: Sequence[str] | None = None,
        max_subtoken_length: int | None = None,
    ) -> None:
        """Makes this the vocabulary of frequent substrings; see `build_to_target_size`."""
        built = subword_text_encoder.SubwordTextEncoder.build_from_token_counts(
            token_counts,
            min_count,
            num_iterations,
            reserved_tokens=_own_reserved(reserved_tokens),
            max_subtoken_length=max_subtoken_length,
        )
        super().__init__(built.all_subtoken_strings)

    # T2T's names, which subclasses read and call.

    @property
    def _all_subtoken_strings(self) -> list[str]:
        """The subtokens by id."""
        return self._subtokens

    @property
    def _subtoken_string_to_id(self) -> dict[str, int]:
        """The id of each subtoken."""
        return self._ids

    def _tokens_to_subtoken_ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of tokens, such as those of `tokenizer.encode`."""
        return [id_ for token in tokens for id_ in self._token_ids(token)]

    def _token_to_subtoken_ids(self, token: str) -> list[int]:
        """Returns the ids of a token."""
        return list(self._token_ids(token))

    def _subtoken_ids_to_tokens(self, subtokens: Sequence[int]) -> list[str]:
        """Returns the tokens of ids, to give them to `tokenizer.decode`."""
        return self._tokens(subtokens)

    def _subtoken_id_to_subtoken_string(self, subtoken: int) -> str:
        """Returns the subtoken of an id; "": there is none."""
        return self._subtokens[subtoken] if 0 <= subtoken < self.vocab_size else ""

    def decode(self, ids: Sequence[int], strip_extraneous: bool = False) -> str:
        """Returns the text."""
        del strip_extraneous
        return super().decode(ids)

    def decode_list(self, ids: Sequence[int]) -> list[str]:
        """Returns the subtoken of each id."""
        return list(map(self._subtoken_id_to_subtoken_string, ids))

    def encode_without_tokenizing(self, token_text: str) -> list[int]:
        """Returns the ids of a text that is one token."""
        return self._token_to_subtoken_ids(token_text)

    def store_to_file(self, filename: str, add_single_quotes: bool = True) -> None:
        """Writes a `.subwords` file; it is read with quotes or without."""
        quote = "'" if add_single_quotes else ""
        lines = (f"{quote}{subtoken}{quote}\n" for subtoken in self.all_subtoken_strings)
        files.write_text(filename, "".join(lines))


class ClassLabelEncoder(TextEncoder):
    """The number of a label, which has no reserved ids.

    Args:
        class_labels: the labels in order.
        class_labels_fname: a file of them, one per line.

    Raises:
        UserError: the file does not exist.
        DataError: the file is not UTF-8.
    """

    def __init__(
        self, class_labels: Sequence[str] | None = None, class_labels_fname: str | None = None
    ) -> None:
        super().__init__(num_reserved_ids=0)
        if class_labels_fname and not _is_noted(class_labels_fname):
            lines = text_files.iterate_lines(class_labels_fname)
            class_labels = [line.strip() for line in lines]
        self._class_labels = list(class_labels or [])

    @property
    def class_labels(self) -> list[str]:
        """The labels in order; T2T's name is that of the attribute, which subclasses set."""
        return self._class_labels

    @class_labels.setter
    def class_labels(self, labels: list[str]) -> None:
        self._class_labels = labels

    @property
    def vocab_size(self) -> int:
        """Number of labels."""
        return len(self.class_labels)

    def encode(self, s: str) -> Any:
        """Returns the number of a label."""
        return self.class_labels.index(s)

    def decode(self, ids: Any, strip_extraneous: bool = False) -> str:
        """Returns the label of a number, or of a list or array of one."""
        del strip_extraneous
        return self.class_labels[np.asarray(ids).item()]

    def decode_list(self, ids: Sequence[int]) -> list[str]:
        """Returns the labels of numbers."""
        return [self.class_labels[id_] for id_ in ids]


class RealEncoder:
    """Numbers, separated by white space; they have no ids."""

    def encode(self, s: str) -> list[float]:
        """Returns the numbers of a text."""
        return [float(word) for word in s.split()]

    def decode(self, ids: Iterable[float], strip_extraneous: bool = False) -> str:
        """Returns numbers as a text."""
        del strip_extraneous
        return " ".join(map(str, ids))
