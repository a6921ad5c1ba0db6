"""Reimplements data generation as in tensor2tensor 1.15: the peer of `data_generation.py`.

One process; a tokenizer that examines every character; a subword encoder with a cache of 2^20
entries; a vocabulary that recounts every substring in each of four passes of each guess;
`tf.train.Example`s built in Python and distributed to the shards; and each shard read back,
shuffled in memory and rewritten. The benchmark compares its vocabulary with tensor2tensor's own.
"""

import collections
import pathlib
import random
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf

_RESERVED = ("<pad>_", "<EOS>_")
_EOS_ID = 1
_CACHE_PLACES = 2**20
_ESCAPE_CHARACTERS = set("\\_u;0123456789")
_ALPHANUMERIC = {
    character
    for character in map(chr, range(sys.maxunicode))
    if unicodedata.category(character)[0] in "LN"
}


def tokens(text: str) -> list[str]:
    """Splits text between alphanumeric and other characters; drops single inner spaces."""
    if not text:
        return []
    found = []
    is_alphanumeric = [character in _ALPHANUMERIC for character in text]
    start = 0
    for place in range(1, len(text)):
        if is_alphanumeric[place] != is_alphanumeric[place - 1]:
            token = text[start:place]
            if token != " " or start == 0:
                found.append(token)
            start = place
    found.append(text[start:])
    return found


def escape(token: str, alphabet: set[str]) -> str:
    r"""Escapes `\`, `_` and characters outside the alphabet, and appends "_"."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join([c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token]) + "_"


class Subwords:
    """Longest-match subwords with a cache indexed by the hash of the token."""

    def __init__(self, subtokens: Sequence[str], alphabet: set[str]) -> None:
        self.subtokens = list(subtokens)
        self._ids = {subtoken: i for i, subtoken in enumerate(subtokens)}
        self._alphabet = alphabet
        self._longest = max(map(len, subtokens))
        self._cache: list[tuple[str | None, list[int]]] = [(None, [])] * _CACHE_PLACES

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a line, without EOS."""
        ids: list[int] = []
        for token in tokens(text):
            ids.extend(self._token_ids(token))
        return ids

    def _token_ids(self, token: str) -> list[int]:
        place = hash(token) % _CACHE_PLACES
        cached, ids = self._cache[place]
        if cached == token:
            return ids
        ids = [self._ids[subtoken] for subtoken in self.split(escape(token, self._alphabet))]
        self._cache[place] = (token, ids)
        return ids

    def split(self, escaped: str) -> list[str]:
        """Splits an escaped token, from the left, into the longest subtokens that fit."""
        parts = []
        start = 0
        while start < len(escaped):
            for end in range(min(len(escaped), start + self._longest), start, -1):
                if escaped[start:end] in self._ids:
                    parts.append(escaped[start:end])
                    start = end
                    break
        return parts


def build(counts: Mapping[str, int], min_count: int, iterations: int = 4) -> Subwords:
    """Builds the vocabulary for one guess of `min_count`."""
    alphabet = {c for token in counts for c in token}.union(_ESCAPE_CHARACTERS)
    alphabet = alphabet.union(*_RESERVED)
    subwords = Subwords(list(alphabet), alphabet)
    for _ in range(iterations):
        found: dict[str, int] = collections.defaultdict(int)
        for token, count in counts.items():
            escaped = escape(token, alphabet)
            start = 0
            for part in subwords.split(escaped):
                for end in range(start + 1, len(escaped) + 1):
                    found[escaped[start:end]] += count
                start += len(part)
        subwords = Subwords([*_RESERVED, *_select(found, min_count, alphabet)], alphabet)
    return subwords


def _select(found: dict[str, int], min_count: int, alphabet: set[str]) -> list[str]:
    by_length: dict[int, set[str]] = collections.defaultdict(set)
    for subtoken, count in found.items():
        if count >= min_count:
            by_length[len(subtoken)].add(subtoken)
    chosen = []
    for length in sorted(by_length, reverse=True):
        for subtoken in by_length[length]:
            count = found[subtoken]
            if count < min_count:
                continue
            if subtoken not in alphabet:
                chosen.append((count, subtoken))
            for end in range(1, length):
                found[subtoken[:end]] -= count
    chosen.extend((found.get(character, 0), character) for character in alphabet)
    return [subtoken for _, subtoken in sorted(chosen, reverse=True)]


def build_to_target_size(target: int, counts: Mapping[str, int]) -> Subwords:
    """Bisects `min_count` between 1 and 1,000 until the size is within 1% of the target."""

    def distance(subwords: Subwords) -> int:
        return abs(len(subwords.subtokens) - target)

    def bisect(low: int, high: int) -> Subwords:
        middle = (low + high) // 2
        subwords = build(counts, middle)
        if distance(subwords) * 100 < target or low >= high or middle < 2:
            return subwords
        above = len(subwords.subtokens) > target
        other = bisect(middle + 1, high) if above else bisect(low, middle - 1)
        return other if distance(other) < distance(subwords) else subwords

    return bisect(1, 1000)


def build_vocabulary(lines: Iterable[str], target: int, path: pathlib.Path) -> None:
    """Counts the tokens of the lines, builds the vocabulary and writes its `.subwords` file."""
    counts: dict[str, int] = collections.defaultdict(int)
    for line in lines:
        for token in tokens(line):
            counts[token] += 1
    subwords = build_to_target_size(target, counts)
    text = "".join(f"'{subtoken}'\n" for subtoken in subwords.subtokens)
    path.write_text(text, "utf-8", newline="\n")


def load(path: pathlib.Path) -> Subwords:
    """Reads a `.subwords` file."""
    subtokens = [line[1:-1] for line in path.read_text("utf-8").split("\n")[:-1]]
    return Subwords(subtokens, {character for subtoken in subtokens for character in subtoken})


def generate(
    pairs: Iterable[tuple[str, str]], vocabulary: pathlib.Path, paths: Sequence[pathlib.Path]
) -> None:
    """Encodes pairs of lines and writes them to shuffled shards."""
    examples = _examples(pairs, load(vocabulary))
    unshuffled = [path.with_name(f"{path.name}.unshuffled") for path in paths]
    writers = [tf.io.TFRecordWriter(str(path)) for path in unshuffled]
    for number, example in enumerate(examples):
        writers[number % len(writers)].write(example.SerializeToString())
    for writer in writers:
        writer.close()
    for source, path in zip(unshuffled, paths, strict=True):
        records = list(tf.compat.v1.io.tf_record_iterator(str(source)))
        random.shuffle(records)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
        source.unlink()


def _examples(pairs: Iterable[tuple[str, str]], subwords: Subwords) -> Iterator[tf.train.Example]:
    for source, target in pairs:
        features = {
            side: tf.train.Feature(
                int64_list=tf.train.Int64List(value=[*subwords.encode(text), _EOS_ID])
            )
            for side, text in {"inputs": source, "targets": target}.items()
        }
        yield tf.train.Example(features=tf.train.Features(feature=features))
