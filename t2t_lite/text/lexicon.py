"""Which tags each word of a treebank takes: a tag dictionary, as taggers use it (Ratnaparkhi 1996).

A file has one word a line, a tab, and its tags with spaces between them. The first line is of no
word: its tags are those of all words that the file does not name.
"""

import collections
import pathlib
from collections.abc import Mapping, Sequence

from t2t_lite import files
from t2t_lite.errors import DataError
from t2t_lite.text.text_encoder import TokenTextEncoder
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.text.trees import Tree

UNKNOWN = ""  # stands for every word that is not named

# A word that is seen less often may have tags that it was not seen with.
_KNOWN_FROM = 3
# Words held while counting; beyond, those seen once are forgotten (they count as unknown anyway).
_MAX_WORDS = 2**20


class TagCounts:
    """Counts the tags of words, in memory that does not grow with the treebank."""

    def __init__(self) -> None:
        self._tags: dict[str, collections.Counter[str]] = {}
        self._rare: set[str] = set()
        self._room = _MAX_WORDS

    def add(self, tree: Tree) -> None:
        """Counts the words of a tree."""
        for word, tag in zip(tree.words(), tree.tags(), strict=True):
            self._tags.setdefault(word, collections.Counter())[tag] += 1
        if len(self._tags) > self._room:
            self._forget(seen_less_than=2)
            # If most are seen again, looking through them for every tree would take for ever.
            self._room = max(_MAX_WORDS, 2 * len(self._tags))

    def write(self, path: pathlib.Path) -> None:
        """Writes the dictionary, whole or not at all; the counts are used up."""
        self._forget(seen_less_than=_KNOWN_FROM)
        entries = {UNKNOWN: self._rare or set().union(*self._tags.values()), **self._tags}
        lines = (f"{word}\t{' '.join(sorted(entries[word]))}\n" for word in sorted(entries))
        files.write_text(path, "".join(lines))

    def _forget(self, seen_less_than: int) -> None:
        rare = [word for word, tags in self._tags.items() if tags.total() < seen_less_than]
        for word in rare:
            self._rare.update(self._tags.pop(word))


class TreeSymbolEncoder(TokenTextEncoder):
    """The symbols of linearised trees, and which of them a word takes as its tag.

    Args:
        path: the symbols, one a line.
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
        f"{path}, line {line}: no word with its tags; delete the file and run t2t-datagen again"
    )
