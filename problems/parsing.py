"""Constituency parsing as translation: from words to a tree as symbols (`text/linear_trees`)."""

import abc
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from t2t_lite import files, registry
from t2t_lite.data.corpora import corpora
from t2t_lite.data.problem import DatasetSplit, Output
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, quoted
from t2t_lite.text import linear_trees, text_encoder, trees
from t2t_lite.text.lexicon import TagCounts, TreeSymbolEncoder
from t2t_lite.text.sample import Sample
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import VocabType
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.text.trees import Tree


def require_trees(path: pathlib.Path, split: str, form: str = "") -> pathlib.Path:
    """Returns the file of a user's trees, which may be compressed.

    Args:
        path: its path.
        split: the split whose trees it has.
        form: what its form is, for the error.

    Raises:
        UserError: it is missing.
    """
    remedy = ": move some of those for training there" if split == DatasetSplit.EVAL else ""
    return corpora.require_file(path, f"it should contain bracketed trees{form}{remedy}")


class ParsingProblem(Text2TextProblem):
    """Base class of parsing; words and symbols are separated by single spaces.

    Outputs are written as trees over the words and scored by bracketing F1. The `_rev` and `_copy`
    forms are not parsing: their outputs are plain text, scored by BLEU.
    """

    @abc.abstractmethod
    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the trees of a split in the form to be learned."""

    def examples(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the trees of the samples: `trees`, to which a subclass may add others."""
        return self.trees(tmp_dir, dataset_split)

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the words and symbols of each of `examples`; errors as in `trees`."""
        found = self.examples(tmp_dir, dataset_split)
        for tree in self.bad_input.counted(found, f"{self.base_name} {dataset_split}"):
            words, symbols = linear_trees.linearize(tree)
            yield {"inputs": " ".join(words), "targets": " ".join(symbols)}

    def normalise(self, tree: Tree) -> Tree:
        """Converts a treebank's tree to the form of `trees`, with the outermost bracket `TOP`."""
        return trees.normalise(tree)

    def learned(self, tree: Tree) -> Tree:
        """Normalises a treebank's tree, which must then come back from its words and symbols.

        Raises:
            DataError: another tree comes back.
        """
        normal = self.normalise(tree)
        found, repairs = linear_trees.delinearize(*linear_trees.linearize(normal))
        if repairs or found != normal:
            raise DataError(
                f"another tree comes back from the tree's symbols: {quoted(str(normal))} becomes "
                f"{quoted(str(found))}; put a phrase around a lone word, and rename labels and "
                "tags that begin or end with a slash"
            )
        return normal

    @property
    def sides_of_words(self) -> Sequence[str]:
        """The sentences."""
        return ("inputs",)

    @property
    def _writes_trees(self) -> bool:
        return not (self.was_reversed or self.was_copy)

    @property
    def decode_hparams(self) -> str:
        """The search of section 6.3 of arXiv:1706.03762; each word takes two to three symbols."""
        if not self._writes_trees:
            return super().decode_hparams
        return "beam_size=21,alpha=0.3,extra_length=300"

    @property
    def metrics(self) -> Sequence[str]:
        """Bracketing F1 if outputs are trees, else BLEU."""
        return ("bracketing_f1",) if self._writes_trees else super().metrics

    @property
    def can_split_sources(self) -> bool:
        """No, if outputs are trees: the trees of the pieces do not form one."""
        return not self._writes_trees

    @property
    def allows_source_form(self) -> bool:
        """No: the form could make two words of one, to which symbols belong, or one of two."""
        return False

    def source(self, line: str) -> str:
        """Separates words by single spaces; round brackets become -LRB- and -RRB-, as in trees."""
        if not has_text(line):
            return ""
        return trees.escape_brackets(" ".join(trees.split_words(line)))

    def postprocess(self, source: str, target: str) -> Output:
        """Builds a bracketed tree over the words of the source, repairing the symbols."""
        if not self._writes_trees:
            return super().postprocess(source, target)
        words, symbols = trees.split_words(source), trees.split_words(target)
        tree, repairs = linear_trees.delinearize(words, symbols)
        return Output(str(tree), repairs)

    def reference(self, source: str, line: str) -> str:
        """Parses a treebank's tree; only a sentence without words may lack one.

        Raises:
            DataError: the tree has other words than the sentence.
        """
        words = trees.split_words(self.source(source))
        if not self._writes_trees or not (words or trees.split_words(line)):
            return super().reference(source, line)
        tree = self.normalise(trees.parse_full_tree(line))
        pairs = itertools.zip_longest(tree.words(), words, fillvalue="")
        for number, (right, word) in enumerate(pairs, 1):
            if right != word:
                raise DataError(
                    f"word {number} is {right!r} in the tree but {word!r} in the sentence; take "
                    "the sentence's words from the tree"
                )
        return str(tree)


@registry.register_problem
class WsjParsing(ParsingProblem):
    """T2T's problem of this name: your own trees, unchanged.

    Put `wsjTrain.trees` and `wsjEval.trees` into `--tmp_dir`, plain or `.gz`, one tree per line,
    each within an outermost bracket such as `(TOP ...)`, which is not learned. Function tags and
    traces are learned if present. As in T2T, words and symbols share a subword vocabulary, built
    from the first 1,000 pairs; T2T reads these from two more files with the same pairs as text
    (`wsj.train.text.txt`, `wsj.train.tags.txt`), which are not needed here.

    Attributes:
        FILES: the names of the files by split.
    """

    FILES: ClassVar[Mapping[str, str]] = {
        DatasetSplit.TRAIN: "wsjTrain.trees",
        DatasetSplit.EVAL: "wsjEval.trees",
    }

    max_samples_for_vocab = 1000  # T2T's number of pairs

    def normalise(self, tree: Tree) -> Tree:
        """Returns the tree, unchanged except for the outermost label, which is not learned."""
        return Tree(trees.TOP, tree.children)

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the one file, if it exists."""
        return corpora.existing_files([pathlib.Path(tmp_dir) / self.FILES[dataset_split]])

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the one file, which must exist before data is generated."""
        return [self._file(tmp_dir, dataset_split)]

    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the trees of a file, unchanged except for the outermost label."""
        path = self._file(tmp_dir, dataset_split)
        lines = iterate_lines(path, self.bad_input)
        return trees.trees_of_lines(lines, str(path), self.bad_input, self.learned)

    def _file(self, tmp_dir: str, dataset_split: str) -> pathlib.Path:
        path = pathlib.Path(tmp_dir) / self.FILES[dataset_split]
        return require_trees(path, dataset_split, ", one per line")


class TreebankProblem(ParsingProblem):
    """Normalised trees with two vocabularies: SentencePiece BPE for words, and whole symbols."""

    vocab_type = VocabType.SENTENCEPIECE_BPE  # of the words

    @property
    def symbols_filename(self) -> str:
        """Name of the targets' vocabulary, one symbol per line."""
        return f"vocab.{self.base_name}.symbols.{VocabType.TOKEN}"

    @property
    def decode_hparams(self) -> str:
        """Restricts the search to well-formed trees, which whole symbols as targets allow."""
        default = super().decode_hparams
        return f"{default},well_formed=true" if self._writes_trees else default

    @property
    def lexicon_filename(self) -> str:
        """Name of the file with the tags of each word."""
        return f"vocab.{self.base_name}.lexicon.tsv"

    def vocab_files(self) -> list[str]:
        """Returns the vocabulary of the words, that of the symbols, and the tags of words."""
        return [self.vocab_filename, self.symbols_filename, self.lexicon_filename]

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns the files of all splits, since the symbols come from all of them."""
        splits = [entry["split"] for entry in self.dataset_splits]
        return [path for split in splits for path in self.source_files(tmp_dir, split)]

    def feature_encoders(self, data_dir: str) -> dict[str, text_encoder.TextEncoder]:
        """Returns an encoder of the words and one of the symbols."""
        words = self.load_vocab(data_dir)
        folder = pathlib.Path(data_dir)
        symbols = TreeSymbolEncoder(folder / self.symbols_filename, folder / self.lexicon_filename)
        return {"inputs": words, "targets": symbols}

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes the missing vocabularies.

        The symbols come from every split: labels are part of a treebank's guidelines, and a rare
        one must not make a development tree unreadable. The tags of words come from training.
        """
        symbols_path = pathlib.Path(data_dir) / self.symbols_filename
        lexicon_path = pathlib.Path(data_dir) / self.lexicon_filename
        if not (symbols_path.is_file() and lexicon_path.is_file()):
            symbols: set[str] = set()
            tag_counts = TagCounts()
            for entry in self.splits_to_generate(tmp_dir):
                for tree in self.trees(tmp_dir, entry["split"]):
                    symbols.update(linear_trees.linearize(tree)[1])
                    if entry["split"] == DatasetSplit.TRAIN:
                        tag_counts.add(tree)
            files.write_text(symbols_path, "".join(f"{symbol}\n" for symbol in sorted(symbols)))
            tag_counts.write(lexicon_path)
        super().build_vocab(data_dir, tmp_dir)

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the words of the training trees."""
        for sample in self.kept_samples(data_dir, tmp_dir):
            yield sample["inputs"]
