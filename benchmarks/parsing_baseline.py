"""The baseline of `parsing_treebank_sample`: a PCFG that NLTK induces from the treebank sample.

    pip install -e '.[bench]'
    python benchmarks/parsing_baseline.py path/to/folder/of/treebank

Rules and probabilities are NLTK's `induce_pcfg` over the training trees in its Chomsky normal form.
A rare word is represented by its shape, so that unknown words have tags. The most probable tree is
found by CKY on arrays: NLTK's own parser would take hours for sentences of this length.
"""

import argparse
import collections
import math
import time
from collections.abc import Sequence

import nltk
import numpy as np

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.metrics.parseval import bracketing_f1
from t2t_lite.text.trees import TOP, Tree, parse_tree

KNOWN_FROM = 2  # rarer words are replaced by their shape
UNKNOWN_NOUN = "NN"  # the tag of a word of unknown shape
JOINT = "¦"  # marks labels that NLTK creates; its default, |, occurs in the label ADVP|PRT
IMPOSSIBLE = -np.inf  # log-probability


def shape(word: str) -> str:
    """Returns the shape of a rare word: digits, or capital, hyphen and last two letters."""
    if any(character.isdigit() for character in word):
        return "<number>"
    marks = ("capital" if word[0].isupper() else "") + ("-" if "-" in word else "")
    return f"<{marks}~{word[-2:].lower()}>"


class Grammar:
    """A PCFG in Chomsky normal form, N labels, M binary rules; chains of phrases are one label.

    Args:
        trees: normalised training trees.
        vertical: phrases in a label: 1 for its own, 2 for its own and its parent.
    """

    def __init__(self, trees: Sequence[Tree], vertical: int) -> None:
        counts = collections.Counter(word for tree in trees for word in tree.words())
        self.known = {word for word, count in counts.items() if count >= KNOWN_FROM}
        productions = []
        for tree in trees:
            one = nltk.Tree.fromstring(str(tree))
            for position in one.treepositions("leaves"):
                one[position] = self.token(one[position])
            one.collapse_unary(collapsePOS=True)
            one.chomsky_normal_form(horzMarkov=1, vertMarkov=vertical - 1, childChar=JOINT)
            productions += one.productions()
        rules = nltk.induce_pcfg(nltk.Nonterminal(TOP), productions).productions()
        self.labels = sorted({rule.lhs().symbol() for rule in rules})
        number = {label: i for i, label in enumerate(self.labels)}
        self.lexicon: dict[str, list[tuple[int, float]]] = collections.defaultdict(list)
        self.roots: list[tuple[int, float]] = []  # below TOP, the one label of unary rules
        binary = []
        for rule in rules:
            parent, log_probability = number[rule.lhs().symbol()], math.log(rule.prob())
            if rule.is_lexical():
                self.lexicon[rule.rhs()[0]].append((parent, log_probability))
            elif len(rule.rhs()) == 1:
                self.roots.append((number[rule.rhs()[0].symbol()], log_probability))
            else:
                left, right = (number[child.symbol()] for child in rule.rhs())
                binary.append((parent, left, right, log_probability))
        binary.sort()
        self.parents, self.lefts, self.rights = np.array([rule[:3] for rule in binary]).T  # [M]
        self.log_probabilities = np.array([rule[3] for rule in binary])  # [M]
        self.first_rules = np.unique(self.parents, return_index=True)[
            1
        ]  # first rule of each parent

    def token(self, word: str) -> str:
        """Returns the word, or its shape if it is rare."""
        return word if word in self.known else shape(word)

    def parse(self, words: Sequence[str]) -> Tree | None:
        """Returns the most probable tree; None if the grammar has none."""
        n = len(words)
        chart = np.full((n, n + 1, len(self.labels)), IMPOSSIBLE)  # [first, end, label]
        for i, word in enumerate(words):
            for label, log_probability in self.lexicon.get(self.token(word), []):
                chart[i, i + 1, label] = log_probability
        for length in range(2, n + 1):
            for i in range(n - length + 1):
                best = self._splits(chart, i, i + length).max(axis=0)  # [M]
                parents = self.parents[self.first_rules]
                chart[i, i + length, parents] = np.maximum.reduceat(best, self.first_rules)
        top = self.labels.index(TOP)
        candidates = [(chart[0, n, label] + p, [label]) for label, p in self.roots]
        score, labels = max([*candidates, (chart[0, n, top], [])])
        if score == IMPOSSIBLE:
            return None
        below = [self._build(chart, words, 0, n, label) for label in labels]
        tree = nltk.Tree(TOP, below) if below else self._build(chart, words, 0, n, top)
        tree.un_chomsky_normal_form(childChar=JOINT)
        return parse_tree(tree.pformat(margin=10**9))

    def flat(self, words: Sequence[str]) -> Tree:
        """Returns the words with their likeliest tags, for a sentence without a tree."""
        children = []
        for word in words:
            rules = self.lexicon.get(self.token(word), [(self.labels.index(UNKNOWN_NOUN), 0.0)])
            label, _ = max(rules, key=lambda rule: rule[1])
            children.append(Tree(self.labels[label].rpartition("+")[2], (word,)))
        return Tree(TOP, tuple(children))

    def _splits(self, chart: np.ndarray, start: int, end: int) -> np.ndarray:
        """Returns the log-probability of each rule for each split of a span, [splits, M]."""
        left = chart[start, start + 1 : end][:, self.lefts]
        right = chart[start + 1 : end, end][:, self.rights]
        return left + right + self.log_probabilities

    def _build(
        self, chart: np.ndarray, words: Sequence[str], start: int, end: int, label: int
    ) -> nltk.Tree:
        if end == start + 1:
            return nltk.Tree(self.labels[label], [words[start]])
        scores = np.where(self.parents == label, self._splits(chart, start, end), IMPOSSIBLE)
        split, rule = np.unravel_index(scores.argmax(), scores.shape)
        middle = start + 1 + int(split)
        left = self._build(chart, words, start, middle, self.lefts[rule])
        return nltk.Tree(
            self.labels[label], [left, self._build(chart, words, middle, end, self.rights[rule])]
        )


def main() -> None:
    """Prints bracketing scores of two grammars on the test split."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tmp_dir", help="the --tmp_dir of t2t-datagen")
    args = parser.parse_args()
    problem = registry.problem("parsing_treebank_sample")
    training = list(problem.trees(args.tmp_dir, DatasetSplit.TRAIN))
    test = list(problem.trees(args.tmp_dir, DatasetSplit.TEST))
    for vertical in (1, 2):
        grammar = Grammar(training, vertical)
        start = time.perf_counter()
        found = [grammar.parse(tree.words()) for tree in test]
        best = [
            [tree or grammar.flat(right.words())] for tree, right in zip(found, test, strict=True)
        ]
        gold = [[tree] for tree in test]
        scores, of_all = (bracketing_f1(gold, best, skip_invalid=left) for left in (True, False))
        print(
            f"PCFG with {vertical} label(s) a phrase, {len(grammar.parents):,} binary rules: "
            f"F1 {scores.f1:.2f} (recall {scores.recall:.2f}, precision {scores.precision:.2f}; "
            f"of all sentences {of_all.f1:.2f}), tags {scores.tagging_accuracy:.2f}, "
            f"{found.count(None)} of {len(test)} sentences without a tree, "
            f"{time.perf_counter() - start:.0f} s"
        )


if __name__ == "__main__":
    main()
