"""Trees as the symbols that a model learns, and back.

A tree is linearised as in Vinyals et al. 2015 (arXiv:1412.7449) and T2T: `X` where a phrase begins,
`/X` where it ends, a tag for each word, without the words and the outermost bracket.
"""

import collections
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import STRICT, BadInput
from t2t_lite.text.trees import (
    TOP,
    UNKNOWN_TAG,
    OpenPhrases,
    Tree,
    close_or_drop,
    split_words,
    without_function,
)

# The phrase labels of the Penn Treebank and CRAFT; none of them is a tag there.
_PHRASE_LABEL = re.compile(
    "ADJP|ADVP|CAPTION|CIT|CONJP|FRAG|HEADING|INTJ|LST|NAC|NML|NP|NX|PP|PRN|PRT|QP|RRC|S|SBAR|"
    "SBARQ|SINV|SQ|TITLE|UCP|VP|WHADJP|WHADVP|WHNP|WHPP|X"
)


def trees_of_pairs(
    pairs: Iterable[tuple[str, str]],
    names: str,
    bad: BadInput = STRICT,
    form: Callable[[Tree], Tree] = lambda tree: tree,
) -> Iterator[Tree]:
    """Yields trees from lines of words and lines of symbols, as `linearize` returns them.

    Args:
        pairs: line n of the words and line n of the symbols; both may be blank.
        names: the names of both files, for messages.
        bad: receives pairs that do not form a tree, such as one with more tags than words.
        form: as for `trees_of_lines`.
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


def linearize(tree: Tree) -> tuple[list[str], list[str]]:
    """Returns the words of a tree, and its symbols as T2T's `wsj_parsing` writes them.

    `(TOP (S (NP (PRP I)) (VP (VBP am))))` becomes `I am` and `S NP PRP /NP VP VBP /VP /S`. The
    outermost bracket is omitted, whatever its label. A tag that is also a phrase's label in the
    tree gets a slash behind it, unlike in T2T: `(TOP (NP (NP dogs)))` becomes `NP NP/ /NP`.
    `delinearize` inverts this for normalised trees if no label begins with a slash.
    """
    walk = list(tree.walk())
    inner = walk[1:-1]
    labels = {node.label for node, _ in inner if node.word is None}
    symbols = [
        f"/{node.label}"
        if not begins
        else f"{node.label}/"
        if node.word is not None and _is_ambiguous(node.label, labels)
        else node.label
        for node, begins in inner
    ]
    return [node.word for node, _ in walk if node.word is not None], symbols


def _is_ambiguous(tag: str, phrase_labels: Collection[str]) -> bool:
    """Whether a tag is a phrase's label, or would be one without slashes behind it."""
    stem = tag.rstrip("/")
    return tag in phrase_labels or (
        stem != tag
        and any(stem == label.rstrip("/") and len(label) < len(tag) for label in phrase_labels)
    )


def delinearize(words: Sequence[str], symbols: Sequence[str]) -> tuple[Tree, int]:
    """Builds a tree over exactly these words from any symbols that a decoder wrote.

    A closing symbol also closes the phrases inside its own; one whose label is not open closes the
    innermost phrase, but never the outermost. Extra tags and phrases without words are dropped. At
    the end, words without a tag get `UNKNOWN_TAG` and are added to the outermost open phrase.

    Args:
        words: the sentence; no word contains white space.
        symbols: the decoder's output.

    Returns:
        The tree, under `TOP`, and the number of repairs: missing, extra and wrong closing symbols,
        missing and extra tags, empty phrases. 0 means that the symbols are those of the tree.
    """
    phrase_labels = _phrase_labels(symbols, len(words))
    stack: OpenPhrases = [(TOP, [])]
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
            is_marked = symbol.endswith("/") and _is_ambiguous(symbol[:-1], phrase_labels)
            stack[-1][1].append(Tree(symbol[:-1] if is_marked else symbol, (word,)))
        else:
            repairs += 1
    while len(stack) > 2:
        repairs += 1 + close_or_drop(stack)
    missing_tags = [Tree(UNKNOWN_TAG, (word,)) for word in untagged]
    stack[-1][1].extend(missing_tags)
    if len(stack) > 1:
        repairs += 1 + close_or_drop(stack)
    return Tree(TOP, tuple(stack[0][1])), repairs + len(missing_tags)


def _whole_tree(words: Sequence[str], symbols: Sequence[str]) -> Tree:
    """Inverts `linearize`; raises DataError where `delinearize` would repair."""
    tree, repairs = delinearize(words, symbols)
    tags = _leaf_count(symbols, _closed_labels(symbols))
    if tags != len(words):
        raise DataError(f"{len(words)} words but {tags} tags; there must be one tag for each word")
    if repairs:
        raise DataError(f"the symbols do not form a tree; repairs needed: {repairs}")
    return tree


def _is_closing(symbol: str) -> bool:
    return len(symbol) > 1 and symbol.startswith("/")


def _phrase_labels(symbols: Sequence[str], word_count: int) -> set[str]:
    """Returns the symbols that begin a phrase; the other opening symbols are tags."""
    labels = _closed_labels(symbols)
    if _leaf_count(symbols, labels) == word_count:
        return labels
    # Some closing symbols may be missing: common phrase labels count as phrases.
    return labels | {s for s in symbols if _PHRASE_LABEL.fullmatch(without_function(s))}


def _closed_labels(symbols: Sequence[str]) -> set[str]:
    return {symbol[1:] for symbol in symbols if _is_closing(symbol)}


def _leaf_count(symbols: Sequence[str], phrase_labels: set[str]) -> int:
    return sum(not _is_closing(symbol) and symbol not in phrase_labels for symbol in symbols)


def _close_labelled(stack: OpenPhrases, begun: Mapping[str, list[int]], label: str) -> int:
    """Closes the innermost phrase with a label, or repairs; returns the number of repairs.

    Args:
        stack: the open phrases.
        begun: stack indices of the phrases of each label, some of them closed by now.
        label: the label to close.
    """
    places = begun.get(label, [])
    while places and (places[-1] >= len(stack) or stack[places[-1]][0] != label):
        places.pop()
    if not places:
        return 1 + (close_or_drop(stack) if len(stack) > 2 else 0)
    index = places.pop()
    repairs = 0
    while len(stack) > index + 1:
        repairs += 1 + close_or_drop(stack)
    return repairs + close_or_drop(stack)
