"""Constituency trees: from bracketed text to the symbols that a model learns, and back.

A tree is linearised as in Vinyals et al. 2015 (arXiv:1412.7449) and T2T: `X` where a phrase begins,
`/X` where it ends, a tag for each word, and neither the words nor the outermost bracket. Trees may
be nested as deep as memory allows: nothing here recurses.
"""

import collections
import dataclasses
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.bad_input import STRICT, BadInput
from t2t_lite.text.text_files import MAX_LINE_BYTES, iterate_lines

TOP = "TOP"  # label of the outermost bracket after normalisation
UNKNOWN_TAG = "XX"  # OntoNotes' tag for a word of unknown part of speech

_TRACE = "-NONE-"
_OUTER_LABELS = frozenset(["", TOP, "ROOT", "S1"])  # of the LDC, T2T, and the usual parsers

# The phrase labels of the Penn Treebank and CRAFT; none of them is a tag there.
_PHRASE_LABEL = re.compile(
    "ADJP|ADVP|CAPTION|CIT|CONJP|FRAG|HEADING|INTJ|LST|NAC|NML|NP|NX|PP|PRN|PRT|QP|RRC|S|SBAR|"
    "SBARQ|SINV|SQ|TITLE|UCP|VP|WHADJP|WHADVP|WHNP|WHPP|X"
)

# ASCII white space alone separates: words of CRAFT hold U+2009 and U+200A.
_TOKEN = re.compile(r"[()]|[^\s()]+", re.ASCII)
_WORD = re.compile(r"\S+", re.ASCII)


@dataclasses.dataclass(frozen=True, repr=False, slots=True)
class Tree:
    """A labelled bracket: a phrase over other trees, or a pre-terminal: a tag over one word.

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
        """Yields the brackets of the tree in the order of the text.

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
        """One line of brackets; a round bracket in a word or label is written -LRB- or -RRB-."""
        parts = []
        for tree, begins in self.walk():
            if tree.word is not None:
                parts.append(f" ({escape_brackets(tree.label)} {escape_brackets(tree.word)})")
            else:
                parts.append(f" ({escape_brackets(tree.label)}" if begins else ")")
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"parse_tree({str(self)!r})"

    # The methods that a dataclass would have for these recurse.

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[str, str | None, bool], ...]:
        return tuple((tree.label, tree.word, begins) for tree, begins in self.walk())


# Phrases that have begun and not ended: their labels and children so far.
_Open = list[tuple[str, list[Tree | str]]]


def parse_tree(text: str) -> Tree:
    """Reads one bracketed tree, on one line or several.

    Raises:
        DataError: there is no tree, text before or after it, a bracket too few or too many, one
            inside without a label, a word that is not alone in its bracket, or no word at all.
    """
    stack: _Open = [("", [])]
    previous = ""
    for token in _TOKEN.findall(text):
        label, children = stack[-1]
        if token == "(":
            if children and isinstance(children[0], str):
                raise _beside_word(label)
            stack.append(("", []))
        elif len(stack) == 1:
            raise DataError(
                "a closing bracket too many; remove it"
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
    if not isinstance(tree, Tree) or not tree.words():
        raise DataError("a tree without words; remove it")
    return tree


def read_trees(path: str | os.PathLike[str], bad: BadInput = STRICT) -> Iterator[Tree]:
    """Yields the trees of a file, reading as it goes.

    A tree stands on one line, or goes over several of which all but the first are indented, as in
    the LDC's `.mrg` files.

    Args:
        path: a UTF-8 file, plain or compressed, as `iterate_lines` takes it.
        bad: told of every malformed tree, by its first line, and of what `iterate_lines` tells.

    Raises:
        UserError: there is no such file.
        DataError: what `bad` is told, with file and line.
    """
    return trees_of_lines(iterate_lines(path, bad), os.fspath(path), bad)


def trees_of_lines(
    lines: Iterable[str],
    name: str,
    bad: BadInput = STRICT,
    form: Callable[[Tree], Tree] = lambda tree: tree,
) -> Iterator[Tree]:
    """Yields the trees of the lines of a file; see `read_trees`.

    Args:
        lines: of the file.
        name: of the file, for messages.
        bad: told of every malformed tree, and of those that `form` refuses.
        form: what is made of each tree, such as `normalise`.
    """
    for number, text in _tree_texts(lines):
        if not bad.is_usable(text):
            continue  # counted when it was decoded
        try:
            tree = form(parse_tree(text))
        except DataError as error:
            bad(DataError(f"{name}, line {number}: {error}"))
        else:
            yield tree


def trees_of_pairs(
    pairs: Iterable[tuple[str, str]],
    names: str,
    bad: BadInput = STRICT,
    form: Callable[[Tree], Tree] = lambda tree: tree,
) -> Iterator[Tree]:
    """Yields the trees of lines of words and of their symbols, as `linearize` makes them.

    Args:
        pairs: line n of the words and line n of the symbols; both may be blank.
        names: of both files, for messages.
        bad: told of every pair that is no tree, such as one with more tags than words.
        form: as in `trees_of_lines`.
    """
    for number, (text, tags) in enumerate(pairs, 1):
        words, symbols = split_words(text), split_words(tags)
        if not bad.is_usable(text, tags) or not (words or symbols):
            continue
        try:
            tree = form(_whole_tree(words, symbols))
        except DataError as error:
            bad(DataError(f"{names}, line {number}: {error}"))
        else:
            yield tree


def _tree_texts(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields the number of the first line and the text of each tree, complete or not."""
    first, depth, size = 0, 0, 0
    pending: list[str] = []
    for number, line in enumerate(lines, 1):
        # A tree that is never closed must not swallow all that follow.
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
    """Splits a line of words or symbols where `parse_tree` would: at ASCII white space only."""
    return _WORD.findall(text)


def normalise(tree: Tree) -> Tree:
    """Returns the tree that parsers are usually trained on and scored by.

    Function tags and indices are removed (`NP-SBJ-1` becomes `NP`), so are traces and the phrases
    that hold nothing else; phrases over a single phrase are kept. The outermost bracket is `TOP`.

    Raises:
        DataError: only traces, no words.
    """
    stack: _Open = [("", [])]
    for node, begins in tree.walk():
        if node.word is not None:
            if node.label != _TRACE:
                stack[-1][1].append(Tree(_without_function(node.label), node.children))
        elif begins:
            stack.append((_without_function(node.label), []))
        else:
            _close_or_drop(stack)
    children = tuple(stack[0][1])
    if not children:
        raise DataError(
            f"a tree of traces without words: {textwrap.shorten(str(tree), 100)}; remove it"
        )
    (root,) = children
    if isinstance(root, Tree) and root.word is None and root.label in _OUTER_LABELS:
        children = root.children
    return Tree(TOP, children)


def phrases(tree: Tree) -> Iterator[Tree]:
    """Yields the phrases inside a tree, each under `TOP`.

    Left out are those of a single word, and those of as many words as the one around them.
    """
    sizes = _sizes(tree)
    stack = [tree]
    while stack:
        node = stack.pop()
        around = sizes.get(id(node), 1)  # the whole tree may be a single word
        inner = [child for child in node.children if isinstance(child, Tree) and child.word is None]
        yield from (Tree(TOP, (child,)) for child in inner if 1 < sizes[id(child)] < around)
        stack += reversed(inner)


def _sizes(tree: Tree) -> dict[int, int]:
    """Returns the number of words of each phrase by its `id`: hashing a tree reads all of it."""
    sizes: dict[int, int] = {}
    before: list[int] = []  # words before each phrase that has begun
    words = 0
    for node, begins in tree.walk():
        if node.word is not None:
            words += 1
        elif begins:
            before.append(words)
        else:
            sizes[id(node)] = words - before.pop()
    return sizes


def linearize(tree: Tree) -> tuple[list[str], list[str]]:
    """Returns the words of a tree, and its symbols as T2T's `wsj_parsing` writes them.

    `(TOP (S (NP (PRP I)) (VP (VBP am))))` gives `I am` and `S NP PRP /NP VP VBP /VP /S`. The
    outermost bracket is left out whatever its label. `delinearize` inverts this for normalised
    trees, if no label begins with a slash and no phrase label is also a tag in the same tree.
    """
    symbols = [node.label if begins else f"/{node.label}" for node, begins in tree.walk()]
    return tree.words(), symbols[1:-1]


def delinearize(words: Sequence[str], symbols: Sequence[str]) -> tuple[Tree, int]:
    """Makes a tree over exactly these words from whatever symbols a decoder wrote.

    A closing symbol also closes the phrases inside its own; one whose label is not open closes the
    innermost phrase, but never the outermost. Tags beyond the last word are dropped, and so are
    phrases without words. At the end, words without a tag get `UNKNOWN_TAG` and go into the
    outermost phrase that is open.

    Args:
        words: the sentence; without white space inside the words.
        symbols: the decoder's output.

    Returns:
        The tree, under `TOP`, and the number of repairs: missing, extra and wrong closing symbols,
        missing and extra tags, empty phrases. 0 means that the symbols are those of the tree.
    """
    phrase_labels = _phrase_labels(symbols, len(words))
    stack: _Open = [(TOP, [])]
    begun: dict[str, list[int]] = collections.defaultdict(list)
    untagged = iter(words)
    repairs = 0
    for symbol in symbols:
        if _is_closing(symbol):
            repairs += _close_labelled(stack, begun, symbol[1:])
        elif symbol in phrase_labels:
            begun[symbol].append(len(stack))
            stack.append((symbol, []))
        elif (word := next(untagged, None)) is not None:
            stack[-1][1].append(Tree(symbol, (word,)))
        else:
            repairs += 1
    while len(stack) > 2:
        repairs += 1 + _close_or_drop(stack)
    missing_tags = [Tree(UNKNOWN_TAG, (word,)) for word in untagged]
    stack[-1][1].extend(missing_tags)
    if len(stack) > 1:
        repairs += 1 + _close_or_drop(stack)
    return Tree(TOP, tuple(stack[0][1])), repairs + len(missing_tags)


def _whole_tree(words: Sequence[str], symbols: Sequence[str]) -> Tree:
    """Inverts `linearize`; DataError where `delinearize` would mend."""
    tree, repairs = delinearize(words, symbols)
    tags = _leaf_count(symbols, _closed_labels(symbols))
    if tags != len(words):
        raise DataError(f"{len(words)} words but {tags} tags; there must be one tag for each word")
    if repairs:
        raise DataError(f"the symbols are not those of a tree: {repairs} would have to be mended")
    return tree


def _is_closing(symbol: str) -> bool:
    return len(symbol) > 1 and symbol.startswith("/")


def _phrase_labels(symbols: Sequence[str], word_count: int) -> set[str]:
    """Returns those symbols that begin a phrase; the others are tags."""
    labels = _closed_labels(symbols)
    if _leaf_count(symbols, labels) == word_count:
        return labels
    # Some closing symbols may be missing: what is commonly a phrase is one here.
    return labels | {s for s in symbols if _PHRASE_LABEL.fullmatch(_without_function(s))}


def _closed_labels(symbols: Sequence[str]) -> set[str]:
    return {symbol[1:] for symbol in symbols if _is_closing(symbol)}


def _leaf_count(symbols: Sequence[str], phrase_labels: set[str]) -> int:
    return sum(not _is_closing(symbol) and symbol not in phrase_labels for symbol in symbols)


def _close_labelled(stack: _Open, begun: Mapping[str, list[int]], label: str) -> int:
    """Closes the innermost phrase of that label, or mends; returns the number of repairs.

    Args:
        stack: the open phrases.
        begun: where in the stack the phrases of each label were put; some are closed by now.
        label: of the phrase to close.
    """
    places = begun.get(label, [])
    while places and (places[-1] >= len(stack) or stack[places[-1]][0] != label):
        places.pop()
    if not places:
        return 1 + (_close_or_drop(stack) if len(stack) > 2 else 0)
    index = places.pop()
    repairs = 0
    while len(stack) > index + 1:
        repairs += 1 + _close_or_drop(stack)
    return repairs + _close_or_drop(stack)


def _close_or_drop(stack: _Open) -> int:
    """Closes the innermost phrase, but drops it if it is empty; returns how many were dropped."""
    if stack[-1][1]:
        _close(stack)
        return 0
    stack.pop()
    return 1


def _without_function(label: str) -> str:
    """`NP-SBJ-1` and `NP=2` without what follows the `NP`; `-LRB-` and its like as they are."""
    return label.partition("-")[0].partition("=")[0] or label


def _beside_word(label: str) -> DataError:
    return DataError(
        f"bracket {quoted(label)} holds a word beside other things; a word needs a bracket of its "
        "own"
    )


def _close(stack: _Open) -> None:
    """Ends the innermost phrase: it becomes a child of the one around it."""
    label, children = stack.pop()
    stack[-1][1].append(Tree(label, tuple(children)))


def escape_brackets(text: str) -> str:
    """Writes round brackets as treebanks write them in words and labels: -LRB- and -RRB-."""
    return text.replace("(", "-LRB-").replace(")", "-RRB-")
