"""Text to ids and back: the encoders' interface, bytes, and tokens from a list.

The subword encoders are in separate modules, imported on demand. All encoders use pad = 0 and
EOS = 1. This module does not import TensorFlow.
"""

import abc
import itertools
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence

from t2t_lite.errors import DataError, UsageError, did_you_mean, quoted, surrogate_in
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import text_files
from t2t_lite.text.source_form import has_text, is_plain, source_form

PAD_ID = 0
EOS_ID = 1
RESERVED_TOKENS = ("<pad>", "<EOS>")  # by id

# Of so many texts, each is looked at if any is not plain: in most corpora some are, here and there.
_LOOKED_AT_TOGETHER = 16

SPACE = "\u2581"  # what SentencePiece writes for a space in pieces

# Stands for each unknown word of a reference. The private-use characters keep every output from
# matching it; the letters make ROUGE, which reads nothing else, count it as a word.
UNKNOWN_WORD = "\ue000unknownword\ue000"


class VocabType:
    """Types of vocabularies; pad is 0 and EOS is 1 in all of them."""

    SUBWORD = "subwords"  # T2T's SubwordTextEncoder
    CHARACTER = "character"  # UTF-8 bytes
    TOKEN = "tokens"  # separated by white space, listed in a file of the user's
    SENTENCEPIECE_BPE = "bpe"
    SENTENCEPIECE_UNIGRAM = "unigram"
    IMPORTED = "imported"  # that of an imported model, which is copied to the data


class TextEncoder(abc.ABC):
    """Converts a line of text to ids, and ids to text.

    Attributes:
        languages: the ids of the tokens of languages, by code; none if texts have no such token.
        reads_source_form: whether models of this vocabulary read sources in `source_form`.
        separates_by_eos: whether EOS also stands between the texts of a line.
    """

    languages: Mapping[str, int] = types.MappingProxyType({})
    reads_source_form: bool = False
    separates_by_eos: bool = False

    def as_source(self, text: str, kept: str = "") -> str:
        """Returns a text as a model of this vocabulary reads it as a source.

        Args:
            text: the text.
            kept: characters that stay: see `source_form`.
        """
        return source_form(text, kept).strip() if self.reads_source_form else text

    def as_sources(self, texts: Sequence[str]) -> Sequence[str]:
        """Returns what `as_source` returns for each text; faster, where most texts are plain."""
        if not self.reads_source_form:
            return texts
        read: list[str] = []
        for start in range(0, len(texts), _LOOKED_AT_TOGETHER):
            some = texts[start : start + _LOOKED_AT_TOGETHER]
            read += map(str.strip if is_plain(" ".join(some)) else self.as_source, some)
        return read

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """Number of ids, with pad and EOS."""

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of a line; EOS is not appended."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text; skips pad, EOS and ids outside the vocabulary."""

    def symbol(self, id_: int) -> str:
        """Returns what an id after EOS stands for; equal ones of two vocabularies match."""
        return self.decode([id_])

    def part_text(self, id_: int) -> str:
        """Returns the text of an id as a part of a line, with a space where it ends a word.

        The space is before or after it, as the vocabulary writes the borders of words. An id that
        is not text by itself, such as a control symbol or a byte beyond ASCII, has "".
        """
        return self.decode([id_])

    def spell(self, part: str) -> list[int]:
        """Returns the ids of a part of a line: see `part_text`.

        Without the token of a language; none if this vocabulary cannot spell it, by default.
        """
        return []

    @property
    def oov_id(self) -> int | None:
        """The id that replaces unknown tokens, if there is one."""
        return None

    @property
    def unknown_id(self) -> int | None:
        """The id of pieces that the vocabulary lacks, whose text is lost; None: it lacks none."""
        return None

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids beyond EOS that no text has and that decoding skips."""
        return frozenset()

    def start_ids(self) -> Sequence[int]:
        """Returns the ids with which every text begins, but which it does not show: a language.

        Raises:
            DataError: the encoder has several languages, and none was chosen.
        """
        return ()

    def named_language(self, text: str) -> str:
        """Returns the known language that a text names for its translation; "" if none."""
        return ""

    def start_of(self, ids: Sequence[int]) -> Sequence[int]:
        """Returns the ids of this kind with which the ids of a text begin."""
        return ()

    def encode_text(self, text: str) -> list[int]:
        """Returns the ids of a line without those of `start_ids`."""
        return self.encode(text)

    def decode_reference(self, ids: Sequence[int]) -> str:
        """Returns the text as `decode` does, but with `UNKNOWN_WORD` for each `oov_id`."""
        if self.oov_id is None or self.oov_id not in ids:
            return self.decode(ids)
        parts: list[str] = []
        for is_unknown, group in itertools.groupby(ids, key=lambda id_: id_ == self.oov_id):
            run = list(group)
            parts += [UNKNOWN_WORD] * len(run) if is_unknown else [self.decode(run)]
        return " ".join(filter(None, parts))

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, as `encode` does."""
        return [self.encode(line) for line in lines]

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line, as in an example: see `protocol_buffers.pack`."""
        return [pack(ids) for ids in self.encode_lines(lines)]

    def unknown(self, text: str) -> list[str]:
        """Returns the parts of a line that have no id, in order.

        For subwords, the characters that are spelled as bytes or codes; for TOKEN, tokens. None
        by default.
        """
        return []

    def _text_ids(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids that represent text, as Python integers."""
        size = self.vocab_size
        return [int(i) for i in ids if EOS_ID < i < size]


class WordCache:
    """Caches the packed ids of words.

    Args:
        encode: returns the ids of a word.
        size: capacity in words; a full cache is cleared.
    """

    def __init__(self, encode: Callable[[str], list[int]], size: int) -> None:
        self._encode = encode
        self._size = size
        self._packed: dict[str, bytes] = {}

    def pack(self, words: Sequence[str]) -> bytes:
        """Returns the concatenated packed ids of some words."""
        try:  # nearly always, all are cached
            return b"".join(map(self._packed.__getitem__, words))
        except KeyError:
            return b"".join([self._packed.get(word) or self._pack(word) for word in words])

    def _pack(self, word: str) -> bytes:
        if len(self._packed) >= self._size:
            self._packed.clear()
        packed = self._packed[word] = pack(self._encode(word))
        return packed


class NoText(TextEncoder):
    """The encoder of the inputs that a language model's problem does not have."""

    @property
    def vocab_size(self) -> int:
        """0: not even pad."""
        return 0

    def encode(self, text: str) -> list[int]:
        """Returns no id."""
        return []

    def decode(self, ids: Sequence[int]) -> str:
        """Returns no text."""
        return ""


class ByteTextEncoder(TextEncoder):
    """UTF-8 bytes: an id is the byte plus 2."""

    _OFFSET = len(RESERVED_TOKENS)

    @property
    def vocab_size(self) -> int:
        """258."""
        return 256 + self._OFFSET

    def encode(self, text: str) -> list[int]:
        """Returns the bytes of a line as ids."""
        return [byte + self._OFFSET for byte in text.encode("utf-8")]

    def symbol(self, id_: int) -> str:
        """Returns an ASCII character; for a byte beyond ASCII, a lone surrogate."""
        return bytes([id_ - self._OFFSET]).decode("utf-8", "surrogateescape")

    def part_text(self, id_: int) -> str:
        """Returns an ASCII character."""
        return symbol if (symbol := self.symbol(id_)).isascii() else ""

    def spell(self, part: str) -> list[int]:
        """Returns the bytes of a part of a line."""
        return self.encode(part)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text; bytes that are not UTF-8 become U+FFFD."""
        return bytes(i - self._OFFSET for i in self._text_ids(ids)).decode("utf-8", "replace")


class TokenTextEncoder(TextEncoder):
    """Tokens separated by white space and listed in a file of the user's.

    Ids follow the order of the file, after pad and EOS, which the file may list (`<pad>`, `<EOS>`)
    or omit.

    Args:
        path: the vocabulary, one token per line.
        oov_token: a token of the file that replaces unknown tokens.

    Raises:
        DataError: a line does not contain exactly one token, a token occurs twice, or `oov_token`
            is missing or reserved.
    """

    def __init__(self, path: str | os.PathLike[str], oov_token: str | None = None) -> None:
        self._read(path, text_files.iterate_lines(path), oov_token)

    def _read(
        self, path: str | os.PathLike[str], lines: Iterable[str], oov_token: str | None
    ) -> None:
        """Sets the tokens; errors name `path`."""
        self._path = path
        self._oov_token = oov_token
        listed = self._listed(lines)
        if not listed:
            raise DataError(f"{path} is empty; put your tokens there, one per line")
        others = (token for token in listed if token not in RESERVED_TOKENS)
        self._tokens = [*RESERVED_TOKENS, *others]
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        if oov_token in RESERVED_TOKENS:
            raise DataError(f"oov_token {oov_token!r} is reserved; choose a token of {path}")
        if oov_token is not None:
            self._require_oov_token(oov_token)

    def _listed(self, lines: Iterable[str]) -> list[str]:
        """Returns the tokens of lines.

        Raises:
            DataError: a line does not contain exactly one token, or a token occurs twice.
        """
        listed: dict[str, None] = {}
        for number, line in enumerate(lines, 1):
            token = line.strip()
            place = f"{self._path}, line {number}"
            if len(token.split()) != 1:
                raise DataError(f"{place}: expected one token, got {quoted(line)}")
            if token in listed:
                raise DataError(f"{place}: token {quoted(token)} occurs twice")
            listed[token] = None
        return list(listed)

    def _require_oov_token(self, oov_token: str) -> None:
        """Raises DataError if the file lacks the token that replaces unknown ones."""
        if oov_token not in self._ids:
            raise DataError(f"{self._path} does not contain the oov_token {oov_token!r}; add it")

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens by id, with pad and EOS."""
        return self._tokens

    @property
    def vocab_size(self) -> int:
        """Number of tokens, with pad and EOS."""
        return len(self._tokens)

    @property
    def oov_id(self) -> int | None:
        """The id that replaces unknown tokens, if there is one."""
        return None if self._oov_token is None else self._ids.get(self._oov_token)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tokens of a line.

        Raises:
            DataError: a token is unknown and there is no `oov_token`.
        """
        return [self._id(token) for token in text.split()]

    def part_text(self, id_: int) -> str:
        """Returns a token after a space."""
        return f" {self._tokens[id_]}"

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the tokens, separated by spaces."""
        return " ".join(self._tokens[i] for i in self._text_ids(ids))

    def unknown(self, text: str) -> list[str]:
        """Returns the tokens that the file does not list, and the names of pad and EOS."""
        return [token for token in text.split() if self._ids.get(token, PAD_ID) <= EOS_ID]

    def _id(self, token: str) -> int:
        id_ = self._ids.get(token, PAD_ID)
        if id_ > EOS_ID:  # in a text, "<EOS>" is a word like any other
            return id_
        if self.oov_id is not None:
            return self.oov_id
        other = "give the problem an oov_token"
        if self._oov_token is not None:
            other = f"add the oov_token {quoted(self._oov_token)} to that file"
        if token in RESERVED_TOKENS:
            raise DataError(
                f"token {quoted(token)} has no id in a text, since {self._path} reserves it; "
                f"remove it from the text, or {other}"
            )
        raise DataError(
            f"token {quoted(token)} is not in {self._path}{did_you_mean(token, self._tokens)}; "
            f"add it, or {other}"
        )


class ClassLabelEncoder(TextEncoder):
    """Labels of classes: a line is one label, and label k has id k + 2, after pad and EOS.

    Args:
        labels: the text of each label.

    Raises:
        UsageError: there is no label, one is not a line of text, or two are the same.
    """

    _FIRST = len(RESERVED_TOKENS)

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = [label.strip() for label in labels if isinstance(label, str)]
        self._ids = {label: number for number, label in enumerate(self._labels, self._FIRST)}
        if not labels or len(self._ids) < len(labels) or "" in self._ids:
            raise UsageError(f"class_labels: expected different texts, got {quoted(list(labels))}")
        for label in self._labels:
            if "\n" in label:  # it would be several lines of outputs
                raise UsageError(f"class_labels: expected texts of one line, got {quoted(label)}")

    @property
    def labels(self) -> Sequence[str]:
        """The labels in the order of their ids."""
        return self._labels

    @property
    def vocab_size(self) -> int:
        """Number of labels, with pad and EOS."""
        return self._FIRST + len(self._labels)

    def encode(self, text: str) -> list[int]:
        """Returns the id of a label; none for a line without text.

        Raises:
            DataError: there is no such label.
        """
        label = text.strip()
        if label and label not in self._ids:
            raise DataError(
                f"label {quoted(label)} is not one of the problem's{did_you_mean(label, self._ids)}"
            )
        return [self._ids[label]] if label else []

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the label."""
        return " ".join(self._labels[i - self._FIRST] for i in self._text_ids(ids))


class TabEncoder(TextEncoder):
    """Texts on one line, separated by tabs; the separator has an id of its own.

    Args:
        encoder: encodes a text.
        separator: text whose first id stands between two texts; None: EOS, which is in no text.
    """

    def __init__(self, encoder: TextEncoder, separator: str | None) -> None:
        self._encoder = encoder
        self.separates_by_eos = separator is None
        self._separator = [EOS_ID] if separator is None else encoder.encode(separator)[:1]
        self.reads_source_form = encoder.reads_source_form

    def as_source(self, text: str, kept: str = "") -> str:
        """Returns the texts of a line as sources, with their tabs."""
        return "\t".join(self._encoder.as_source(one, kept) for one in text.split("\t"))

    @property
    def vocab_size(self) -> int:
        """Number of ids of the encoder of a text."""
        return self._encoder.vocab_size

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the texts of a line, if one of them has text."""
        if not has_text(text):
            return []
        first, *others = text.split("\t")
        ids = self._encoder.encode(first)
        for other in others:
            ids = [*ids, *self._separator, *self._encoder.encode(other)]
        return ids

    def symbol(self, id_: int) -> str:
        """Returns what an id stands for in the encoder of a text."""
        return self._encoder.symbol(id_)

    def part_text(self, id_: int) -> str:
        """Returns the text of an id in the encoder of a text."""
        return self._encoder.part_text(id_)

    def spell(self, part: str) -> list[int]:
        """Returns the ids of a part of a text."""
        return self._encoder.spell(part)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the texts, with the separator's text between them; in place of EOS, a tab."""
        if not self.separates_by_eos:
            return self._encoder.decode(ids)
        texts: list[list[int]] = [[]]
        for id_ in ids:
            if id_ == EOS_ID:
                texts.append([])
            else:
                texts[-1].append(id_)
        return "\t".join(map(self._encoder.decode, texts))

    def unknown(self, text: str) -> list[str]:
        """Returns the parts of the texts that have no id, in order."""
        return [part for one in text.split("\t") for part in self._encoder.unknown(one)]


def require_characters(text: str, name: str) -> str:
    """Returns the text unchanged.

    Raises:
        DataError: it is not text, or contains a lone surrogate, which UTF-8 cannot encode.
    """
    if not isinstance(text, str):
        raise DataError(f"{name}: expected text, got {quoted(text)}")
    if fault := surrogate_in(text):
        raise DataError(
            f"{name} contains {fault}: generate_samples should read its files as strict UTF-8"
        )
    return text
