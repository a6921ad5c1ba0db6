"""T2T's problem of parsing, to derive from; itself it is registered in `problems.parsing`."""

from collections.abc import Iterable

from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems import parsing as native
from t2t_lite.t2t.text_iterators import receiver
from t2t_lite.t2t.text_problems import Text2TextProblem
from t2t_lite.text import trees
from t2t_lite.text.sample import Sample

__all__ = ["WsjParsing", "words_and_tags_from_wsj_tree"]


class WsjParsing(Text2TextProblem):
    """Sentences and the symbols of their trees, which are text to this class, as in T2T.

    Attributes:
        TRAIN_FILES_TREE: the file of training trees in `tmp_dir`, one tree on a line.
        EVAL_FILES_TREE: that of evaluation trees.
    """

    TRAIN_FILES_TREE = native.WsjParsing.FILES[DatasetSplit.TRAIN]
    EVAL_FILES_TREE = native.WsjParsing.FILES[DatasetSplit.EVAL]

    @property
    def max_samples_for_vocab(self) -> int:
        """Number of pairs the vocabulary is built from."""
        return native.WsjParsing().max_samples_for_vocab

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the pairs of a split, as the registered problem does."""
        files = {
            DatasetSplit.TRAIN: self.TRAIN_FILES_TREE,
            DatasetSplit.EVAL: self.EVAL_FILES_TREE,
        }
        ours = type("WsjParsing", (native.WsjParsing,), {"FILES": files})()
        ours.bad_input = receiver()
        samples: Iterable[Sample] = ours.generate_samples(data_dir, tmp_dir, dataset_split)
        return samples


def words_and_tags_from_wsj_tree(tree_string: str) -> tuple[str, str]:
    """Returns the words of a tree, and its symbols without the outermost bracket."""
    words, symbols = trees.linearize(trees.parse_full_tree(tree_string))
    return " ".join(words), " ".join(symbols)
