"""Constituency trees in brackets: reading, writing, and the usual forms.

Only memory limits the depth of trees: no function recurses.
"""

import dataclasses
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.bad_input import STRICT, BadInput
from t2t_lite.text.text_files import MAX_LINE_BYTES, iterate_lines

TOP = "TOP"  # label of the outermost bracket after normalisation
UNKNOWN_TAG = "XX"  # OntoNotes' tag for a word of unknown part of speech

_TRACE = "-NONE-"
_OUTER_LABELS = frozenset(["", TOP, "ROOT", "S1"])  # of the LDC, T2T, and the usual parsers


# Only ASCII white space separates: words of CRAFT contain U+2009 and U+200A.
_TOKEN = re.compile(r"[()]|[^\s()]+", re.ASCII)
_WORD = re.compile(r"\S+", re.ASCII)


@dataclasses.dataclass(frozen=True, repr=False, slots=True)
class Tree:
    """A labelled bracket: a phrase over other trees, or a pre-terminal (a tag over one word).

    Attributes:
        label: a phrase label or a part-of-speech tag; empty for the LDC's outer bracket.
        children: trees, or exactly one word.
    """

    label: str
    children: tuple["Tree | str", ...]

    @property
    def word(self) -> str | None:
        """The word under a pre-terminal; None for a phrase."""
        first = self.children[0] if self.children else None
        return first if isinstance(first, str) else None

    def walk(self) -> Iterator[tuple["Tree", bool]]:
        """Traverses the brackets of the tree in the order of the text.

        Yields:
            `(phrase, True)` where a phrase begins, `(phrase, False)` where it ends, and
            `(pre-terminal, True)` alone.
        """
        stack: list[tuple[Tree, bool]] = [(self, True)]
        while stack:
            tree, begins = stack.pop()
            yield tree, begins
            if begins and tree.word is None:
                stack.append((tree, False))
                stack += [(c, True) for c in reversed(tree.children) if isinstance(c, Tree)]

    def words(self) -> list[str]:
        """Returns the words in order."""
        return [tree.word for tree, _ in self.walk() if tree.word is not None]

    def tags(self) -> list[str]:
        """Returns the tag of each word in order."""
        return [tree.label for tree, _ in self.walk() if tree.word is not None]

    def __str__(self) -> str:
        """The tree in brackets, on one line; round brackets inside words and labels are escaped."""
        parts = []
        for tree, begins in self.walk():
            if tree.word is not None:
                parts.append(f" ({escape_brackets(tree.label)} {escape_brackets(tree.word)})")
            else:
                parts.append(f" ({escape_brackets(tree.label)}" if begins else ")")
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"parse_tree({str(self)!r})"

    # A dataclass's own versions of these methods would recurse.

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[str, str | None, bool], ...]:
        return tuple((tree.label, tree.word, begins) for tree, begins in self.walk())


# Stack of open phrases: their labels and children so far.
OpenPhrases = list[tuple[str, list[Tree | str]]]


def parse_tree(text: str) -> Tree:
    """Parses one bracketed tree, on one line or several.

    Raises:
        DataError: there is not exactly one tree; there is text outside it, an unbalanced bracket,
            an inner bracket without a label, a word that is not alone in its bracket, or no word.
    """
    stack: OpenPhrases = [("", [])]
    previous = ""
    for token in _TOKEN.findall(text):
        label, children = stack[-1]
        if token == "(":
            if children and isinstance(children[0], str):
                raise _beside_word(label)
            stack.append(("", []))
        elif len(stack) == 1:
            raise DataError(
                "an extra closing bracket; remove it"
                if token == ")"
                else f"text outside the tree: {quoted(token)}; remove it"
            )
        elif token == ")":
            if len(stack) > 2 and not label:
                raise DataError("a bracket without a label inside the tree; label it")
            _close(stack)
        elif previous == "(":
            stack[-1] = (token, [])
        elif children:
            raise _beside_word(label)
        else:
            children.append(token)
        previous = token
    if len(stack) > 1:
        raise DataError(f"closing brackets missing at the end: {len(stack) - 1}; add them")
    trees = stack[0][1]
    if len(trees) != 1:
        raise DataError(f"expected one tree, got {len(trees)}; write one bracket around each")
    (tree,) = trees
    if not isinstance(tree, Tree) or all(node.word is None for node, _ in tree.walk()):
        raise DataError("a tree without words; remove it")
    return tree


def parse_full_tree(text: str) -> Tree:
    """Parses one tree as `parse_tree` does; every bracket inside it contains a word.

    Raises:
        DataError: as in `parse_tree`, or a bracket inside the tree contains nothing.
    """
    tree = parse_tree(text)
    empty = next((node.label for node, _ in tree.walk() if not node.children), None)
    if empty is not None:
        raise DataError(
            f"bracket {quoted(f'({empty})')} lacks a word or a tag: write (TAG WORD), or remove it"
        )
    return tree


def read_trees(path: str | os.PathLike[str], bad: BadInput = STRICT) -> Iterator[Tree]:
    """Yields the trees of a file, as a stream.

    A tree takes one line, or several of which all but the first are indented, as in the LDC's
    `.mrg` files.

    Args:
        path: a UTF-8 file, plain or compressed, as for `iterate_lines`.
        bad: receives malformed trees, by their first line, and the errors of `iterate_lines`.

    Raises:
        UserError: the file does not exist.
        DataError: an error that `bad` does not skip; names file and line.
    """
    return trees_of_lines(iterate_lines(path, bad), os.fspath(path), bad)


def trees_of_lines(
    lines: Iterable[str],
    name: str,
    bad: BadInput = STRICT,
    form: Callable[[Tree], Tree] = lambda tree: tree,
) -> Iterator[Tree]:
    """Yields the trees in the lines of a file; see `read_trees`.

    Args:
        lines: lines of the file.
        name: the file's name, for messages.
        bad: receives malformed trees, and those that `form` refuses.
        form: transforms each tree, such as `normalise`.
    """
    for number, text in _tree_texts(lines):
        if not bad.is_usable(text):
            continue  # counted when it was decoded
        try:
            tree = form(parse_full_tree(text))
        except DataError as error:
            bad(DataError(f"{name}, line {number}: {error}"))
        else:
            yield tree


def _tree_texts(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields the first line's number and the text of each tree, complete or not."""
    first, depth, size = 0, 0, 0
    pending: list[str] = []
    for number, line in enumerate(lines, 1):
        # An unclosed tree must not absorb all following ones.
        if pending and (depth <= 0 or line.startswith("(") or size > MAX_LINE_BYTES):
            yield first, "\n".join(pending)
            pending, depth, size = [], 0, 0
        if not pending:
            first = number
        if pending or line.strip():
            pending.append(line)
            depth += line.count("(") - line.count(")")
            size += len(line)
    if pending:
        yield first, "\n".join(pending)


def split_words(text: str) -> list[str]:
    """Splits a line of words or symbols as `parse_tree` does: at ASCII white space only."""
    return _WORD.findall(text)


def normalise(tree: Tree) -> Tree:
    """Returns the form of a tree on which parsers are usually trained and scored.

    Removes function tags and indices (`NP-SBJ-1` becomes `NP`), traces, and phrases that contain
    only traces; keeps phrases over a single phrase. The outermost bracket becomes `TOP`.

    Raises:
        DataError: the tree has only traces, no words.
    """
    stack: OpenPhrases = [("", [])]
    for node, begins in tree.walk():
        if node.word is not None:
            if node.label != _TRACE:
                stack[-1][1].append(Tree(without_function(node.label), node.children))
        elif begins:
            stack.append((without_function(node.label), []))
        else:
            close_or_drop(stack)
    children = tuple(stack[0][1])
    if not children:
        raise DataError(
            f"a tree of traces without words: {textwrap.shorten(str(tree), 100)}; remove it"
        )
    (root,) = children
    if isinstance(root, Tree) and root.word is None and root.label in _OUTER_LABELS:
        children = root.children
    return Tree(TOP, children)


def anonymise(tree: Tree) -> Tree:
    """Replaces the tags of words by `UNKNOWN_TAG`, so that a model need not learn them.

    Tags of punctuation, which begin with no letter, remain: EVALB recognises punctuation by them.
    Source: Vinyals et al. 2015 (arXiv:1412.7449), who replace all.
    """
    stack: OpenPhrases = [("", [])]
    for node, begins in tree.walk():
        if node.word is not None:
            label = UNKNOWN_TAG if node.label[0].isalpha() else node.label
            stack[-1][1].append(Tree(label, node.children))
        elif begins:
            stack.append((node.label, []))
        else:
            _close(stack)
    (root,) = stack[0][1]
    assert isinstance(root, Tree)
    return root


def phrases(tree: Tree) -> Iterator[Tree]:
    """Yields the phrases inside a tree, each under `TOP`.

    Omits phrases of a single word, and those with as many words as their parent.
    """
    sizes = _sizes(tree)
    stack = [tree]
    while stack:
        node = stack.pop()
        size = sizes.get(id(node), 1)  # the whole tree may be a single word
        inner = [child for child in node.children if isinstance(child, Tree) and child.word is None]
        yield from (Tree(TOP, (child,)) for child in inner if 1 < sizes[id(child)] < size)
        stack += reversed(inner)


def _sizes(tree: Tree) -> dict[int, int]:
    """Returns the number of words of each phrase, by `id`: hashing a tree traverses it."""
    sizes: dict[int, int] = {}
    before: list[int] = []  # number of words before each open phrase
    words = 0
    for node, begins in tree.walk():
        if node.word is not None:
            words += 1
        elif begins:
            before.append(words)
        else:
            sizes[id(node)] = words - before.pop()
    return sizes


def close_or_drop(stack: OpenPhrases) -> int:
    """Closes the innermost phrase, or drops it if empty; returns the number dropped."""
    if stack[-1][1]:
        _close(stack)
        return 0
    stack.pop()
    return 1


def without_function(label: str) -> str:
    """Reduces `NP-SBJ-1` and `NP=2` to `NP`; keeps labels such as `-LRB-`."""
    return label.partition("-")[0].partition("=")[0] or label


def _beside_word(label: str) -> DataError:
    return DataError(
        f"bracket {quoted(label)} contains a word and something else; put each word into its own "
        "bracket"
    )


def _close(stack: OpenPhrases) -> None:
    """Closes the innermost phrase, which becomes a child of its parent."""
    label, children = stack.pop()
    stack[-1][1].append(Tree(label, tuple(children)))


def escape_brackets(text: str) -> str:
    """Replaces round brackets by -LRB- and -RRB-, as treebanks do in words and labels."""
    return text.replace("(", "-LRB-").replace(")", "-RRB-")
