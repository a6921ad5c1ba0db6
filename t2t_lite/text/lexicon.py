"""Tag dictionary: the tags that each word of a treebank takes, as in taggers (Ratnaparkhi 1996).

A file has one word per line, a tab, and the word's tags separated by spaces. The word of the first
line is empty: its tags are those of all unlisted words.
"""

import collections
import pathlib
from collections.abc import Mapping, Sequence

from t2t_lite import files
from t2t_lite.errors import DataError
from t2t_lite.text.linear_trees import linearize
from t2t_lite.text.text_encoder import TokenTextEncoder
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.text.trees import Tree

UNKNOWN = ""  # the entry of all unlisted words

# Least count of a listed word: a rarer one may have tags with which it was not seen.
_KNOWN_FROM = 3
# Words held while counting; beyond it, words seen once are dropped (they count as unknown anyway).
_MAX_WORDS = 2**20


class TagCounts:
    """Counts the tags of words, in memory that does not grow with the treebank."""

    def __init__(self) -> None:
        self._tags: dict[str, collections.Counter[str]] = {}
        self._rare: set[str] = set()
        self._room = _MAX_WORDS

    def add(self, tree: Tree) -> None:
        """Counts the words of a tree, by the symbols of their tags."""
        words, symbols = linearize(tree)
        labels = {f"/{node.label}" for node, _ in tree.walk() if node.word is None}
        tags = [s for s in symbols if s not in labels and f"/{s}" not in labels]
        for word, tag in zip(words, tags, strict=True):
            self._tags.setdefault(word, collections.Counter())[tag] += 1
        if len(self._tags) > self._room:
            self._forget(seen_less_than=2)
            # If most words are frequent, scanning them all for every tree would be too slow.
            self._room = max(_MAX_WORDS, 2 * len(self._tags))

    def write(self, path: pathlib.Path) -> None:
        """Writes the dictionary atomically; consumes the counts."""
        self._forget(seen_less_than=_KNOWN_FROM)
        entries = {UNKNOWN: self._rare or set().union(*self._tags.values()), **self._tags}
        lines = (f"{word}\t{' '.join(sorted(entries[word]))}\n" for word in sorted(entries))
        files.write_text(path, "".join(lines))

    def _forget(self, seen_less_than: int) -> None:
        rare = [word for word, tags in self._tags.items() if tags.total() < seen_less_than]
        for word in rare:
            self._rare.update(self._tags.pop(word))


class TreeSymbolEncoder(TokenTextEncoder):
    """Encoder of the symbols of linearised trees, with the tags that each word takes.

    Args:
        path: the symbols, one per line.
        lexicon_path: the tag dictionary.

    Raises:
        UserError: a file is missing.
        DataError: a file is damaged; names file and line.
    """

    def __init__(self, path: pathlib.Path, lexicon_path: pathlib.Path) -> None:
        super().__init__(path)
        self.lexicon: Mapping[str, Sequence[str]] = _read(lexicon_path)


def _read(path: pathlib.Path) -> dict[str, list[str]]:
    lexicon: dict[str, list[str]] = {}
    for number, line in enumerate(iterate_lines(path), 1):
        word, _, tags = line.partition("\t")
        if not tags or (number == 1) != (word == UNKNOWN):
            raise _damaged(path, number)
        lexicon[word] = tags.split(" ")
    if not lexicon:
        raise _damaged(path, 1)
    return lexicon


def _damaged(path: pathlib.Path, line: int) -> DataError:
    return DataError(
        f"{path}, line {line}: expected a word, a tab and its tags; delete the file and run "
        "t2t-datagen again"
    )
