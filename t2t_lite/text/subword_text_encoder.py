r"""T2T's subwords: reads, writes, builds and applies `.subwords` files as T2T does.

Text is split by `tokenizer`. A token is escaped so that it ends in "_", contains no other "_", and
consists of characters of the vocabulary's alphabet: `\` becomes `\\`, `_` becomes `\u`, any other
character outside the alphabet `\NNN;` (its decimal code). Then the longest matching subtoken is
taken repeatedly, from the left. No text is unknown, and every line decodes to itself.

A file has one quoted subtoken per line; the line number, from 0, is the id.
"""

import bisect
import collections
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from t2t_lite import files
from t2t_lite.errors import DataError, quoted
from t2t_lite.text import text_files, tokenizer
from t2t_lite.text.subword_vocabulary import choose_subtokens
from t2t_lite.text.text_encoder import RESERVED_TOKENS, TextEncoder, WordCache

log = logging.getLogger(__name__)

_ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_UNDEFINED = "\u3013"  # T2T's replacement for a code that is not a character
_QUOTES = ("'", '"')
_CACHED_TOKENS = 2**20
# Characters of the longest candidate subtoken: the time grows with them.
_LONGEST_SUBTOKEN = 500
_DAMAGED = "the vocabulary is damaged: copy or build it again"


class SubwordTextEncoder(TextEncoder):
    """Encodes with a list of subtokens.

    Args:
        subtokens: escaped subtokens by id; the first two are pad and EOS. Every character of any
            subtoken or escape must be a subtoken itself.
    """

    def __init__(self, subtokens: Sequence[str]) -> None:
        self._subtokens = list(subtokens)
        self._ids = {subtoken: i for i, subtoken in enumerate(subtokens) if subtoken}
        self._alphabet = _alphabet(subtokens)
        self._lengths = sorted(set(map(len, self._ids)))
        self._cache: dict[str, list[int]] = {}
        self._packed = WordCache(self._encode_token, _CACHED_TOKENS)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SubwordTextEncoder":
        """Reads a `.subwords` file, with quotes or without.

        Raises:
            UserError: the file does not exist.
            DataError: the file is damaged or not a subword vocabulary; names file and line.
        """
        return cls(_read_subtokens(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.subwords` file atomically."""
        files.write_text(path, "".join(f"'{subtoken}'\n" for subtoken in self._subtokens))

    @property
    def all_subtoken_strings(self) -> Sequence[str]:
        """The subtokens by id, escaped."""
        return self._subtokens

    @property
    def vocab_size(self) -> int:
        """Number of subtokens."""
        return len(self._subtokens)

    def symbol(self, id_: int) -> str:
        """Returns a subtoken: unlike its text, it says whether a word ends with it."""
        return self._subtokens[id_]

    def part_text(self, id_: int) -> str:
        """Returns the text of a subtoken, with a space after it at the end of a word."""
        subtoken = self._subtokens[id_]
        text = unescape(subtoken.removesuffix("_"))
        # Part of an escape is not text.
        is_whole = escape(text, self._alphabet).removesuffix("_") == subtoken.removesuffix("_")
        return f"{text}{' ' * subtoken.endswith('_')}" if is_whole else ""

    def spell(self, part: str) -> list[int]:
        """Returns the ids of a part of a line; subtokens have no space at the start of words."""
        escaped = "".join(
            escape(token, self._alphabet) for token in tokenizer.encode(part.strip(" "))
        )
        return self._split(escaped if part.endswith(" ") else escaped.removesuffix("_"))

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the subtokens of a line."""
        return [i for token in tokenizer.encode(text) for i in self._token_ids(token)]

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line."""
        return [self._packed.pack(tokenizer.encode(line)) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text; accepts any ids that a model may emit."""
        return tokenizer.decode(self._tokens(ids))

    def _tokens(self, ids: Sequence[int]) -> list[str]:
        escaped = "".join([self._subtokens[i] for i in self._text_ids(ids)])
        tokens = (unescape(token) for token in escaped.split("_"))
        return [token for token in tokens if token]

    def unknown(self, text: str) -> list[str]:
        r"""Returns the characters that are escaped as `\NNN;`."""
        if self._alphabet.issuperset(text):
            return []
        tokens = tokenizer.encode(text)  # omits implied spaces
        return [c for token in tokens for c in token if c not in self._alphabet]

    def _token_ids(self, token: str) -> list[int]:
        ids = self._cache.get(token)
        if ids is None:
            if len(self._cache) >= _CACHED_TOKENS:
                self._cache.clear()
            ids = self._cache[token] = self._encode_token(token)
        return ids

    def _encode_token(self, token: str) -> list[int]:
        return self._split(escape(token, self._alphabet))

    def _split(self, escaped: str) -> list[int]:
        """Returns the ids of an escaped text: repeatedly, of the longest subtoken."""
        ids = []
        start = 0
        while start < len(escaped):
            # Only lengths that occur, so that one very long subtoken costs nothing.
            fitting = bisect.bisect_right(self._lengths, len(escaped) - start)
            for length in reversed(self._lengths[:fitting]):
                if escaped[start : start + length] in self._ids:
                    break
            ids.append(self._ids[escaped[start : start + length]])
            start += length
        return ids

    @classmethod
    def build_to_target_size(
        cls,
        target_size: int,
        token_counts: Mapping[str, int],
        min_val: int = 1,
        max_val: int = 1000,
        *,
        reserved_tokens: Sequence[str] = (),
        max_subtoken_length: int | None = None,
        num_iterations: int = 4,
    ) -> "SubwordTextEncoder":
        """Builds the vocabulary whose size is closest to a target, by T2T's bisection.

        Args:
            target_size: desired number of subtokens; the search stops within 1% of it.
            token_counts: occurrences of each token.
            min_val: smallest `min_count` to try.
            max_val: largest `min_count` to try.
            reserved_tokens: tokens that get the ids after EOS.
            max_subtoken_length: upper bound, exclusive, on the characters of a subtoken.
            num_iterations: passes of `build_from_token_counts`.
        """
        tried = []
        low, high = min_val, max_val
        while True:
            min_count = (low + high) // 2
            encoder = cls.build_from_token_counts(
                token_counts,
                min_count,
                num_iterations,
                reserved_tokens=reserved_tokens,
                max_subtoken_length=max_subtoken_length,
            )
            tried.append(encoder)
            size = encoder.vocab_size
            log.info("subtokens that occur at least %d times: %d", min_count, size)
            if abs(size - target_size) * 100 < target_size or low >= high or min_count < 2:
                return min(tried, key=lambda encoder: abs(encoder.vocab_size - target_size))
            if size > target_size:
                low = min_count + 1
            else:
                high = min_count - 1

    @classmethod
    def build_from_token_counts(
        cls,
        token_counts: Mapping[str, int],
        min_count: int,
        num_iterations: int = 4,
        *,
        reserved_tokens: Sequence[str] = (),
        max_subtoken_length: int | None = None,
    ) -> "SubwordTextEncoder":
        """Builds the vocabulary of sufficiently frequent substrings: see `subword_vocabulary`.

        They are ordered by count, then by text, both descending.

        Args:
            token_counts: occurrences of each token.
            min_count: least occurrences of a subtoken.
            num_iterations: number of passes; the first splits words into characters.
            reserved_tokens: tokens that get the ids after EOS.
            max_subtoken_length: upper bound, exclusive, on the characters of a subtoken.
        """
        min_count = max(min_count, 1)
        reserved = [*RESERVED_TOKENS, *reserved_tokens]
        alphabet = _alphabet([*token_counts, *reserved])
        escaped_reserved = [escape(token, alphabet) for token in reserved]
        words = {escape(token, alphabet): count for token, count in token_counts.items()}
        longest = min(max(map(len, [*words, *escaped_reserved])), _LONGEST_SUBTOKEN)
        if max_subtoken_length is not None:
            longest = min(longest, max(max_subtoken_length - 1, 1))
        counted = choose_subtokens(words, escaped_reserved, min_count, num_iterations, longest)
        absent = alphabet.difference(subtoken for _, subtoken in counted)
        counted += [(0, character) for character in absent]
        return cls(escaped_reserved + [subtoken for _, subtoken in sorted(counted, reverse=True)])


def count_tokens(lines: Iterable[str]) -> collections.Counter[str]:
    """Counts the tokens of the text."""
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        counts.update(tokenizer.encode(line))
    return counts


def _alphabet(texts: Iterable[str]) -> set[str]:
    # A line of the file cannot contain a line end, so it is always escaped.
    return set().union(_ESCAPE_CHARACTERS, *texts) - {"\n"}


def escape(token: str, alphabet: set[str]) -> str:
    """Returns a token as subtokens spell it: in the characters of an alphabet, with its end."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    if not alphabet.issuperset(token):
        token = "".join(c if c in alphabet else f"\\{ord(c)};" for c in token)
    return token + "_"


def unescape(token: str) -> str:
    """Returns the token that `escape` spells, without its end."""
    return _ESCAPED.sub(_unescaped, token) if "\\" in token else token


def _unescaped(match: re.Match[str]) -> str:
    number = match[1]
    if number is None:
        return "_" if match[0] == "\\u" else "\\"
    code = int(number) if len(number) < 9 else -1
    is_character = 0 <= code < 0xD800 or 0xE000 <= code <= 0x10FFFF  # not a surrogate
    return chr(code) if is_character else _UNDEFINED


def _read_subtokens(path: str | os.PathLike[str]) -> list[str]:
    subtokens: list[str] = []
    has_quotes = False
    for number, line in enumerate(text_files.iterate_lines(path), 1):
        # Without quotes, spaces at the ends belong to the subtoken.
        text = line.strip() if has_quotes or number == 1 else line.removesuffix("\r")
        in_quotes = text.startswith(_QUOTES) and text.endswith(text[0])
        if number == 1:
            has_quotes = in_quotes
        # In T2T's files, the subtoken of a line end is two lines of one quote each: two ids.
        in_quotes = in_quotes and (has_quotes or len(text) > 1)
        if has_quotes and not in_quotes:
            raise DataError(f"{path}, line {number}: {quoted(line)} lacks a quote; {_DAMAGED}")
        subtokens.append(text[1:-1] if in_quotes else text)
    for number, token in enumerate(RESERVED_TOKENS, 1):
        got = subtokens[number - 1] if number <= len(subtokens) else ""
        if got not in (token, f"{token}_"):
            raise DataError(
                f"{path}, line {number}: expected '{token}_', got {quoted(got)}; {_DAMAGED}"
            )
    known = {subtoken for subtoken in subtokens if len(subtoken) == 1}
    for number, subtoken in enumerate(subtokens, 1):
        if not known.issuperset(subtoken):
            missing = next(c for c in subtoken if c not in known)
            raise DataError(
                f"{path}, line {number}: {quoted(subtoken)} contains {missing!r}, which is not a "
                f"subtoken itself; {_DAMAGED}"
            )
    if not known.issuperset(_ESCAPE_CHARACTERS):
        missing = min(_ESCAPE_CHARACTERS - known)
        raise DataError(f"{path}, line {len(subtokens)}: ends without {missing!r}; {_DAMAGED}")
    return subtokens
