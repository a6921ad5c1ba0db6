"""T2T's classes of other data sets that this package has, to derive from.

They read what the registered problems of the same name read.
"""

import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from t2t_lite.data import text_problems as native
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.interop.t2t.adapter import module_of
from t2t_lite.interop.t2t.text_iterators import receiver
from t2t_lite.interop.t2t.text_problems import Text2ClassProblem, Text2SelfProblem, Text2TextProblem
from t2t_lite.problems import cnn_dailymail, language_modeling, parsing, sentiment
from t2t_lite.text import linear_trees, trees
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType

__all__ = [
    "LanguagemodelLm1b32k",
    "LanguagemodelPtb10k",
    "LanguagemodelWikitext103",
    "SentimentIMDB",
    "SentimentIMDBCharacters",
    "SummarizeCnnDailymail32k",
    "WsjParsing",
    "words_and_tags_from_wsj_tree",
]


# T2T's settings that a class takes over from the registered one, where that one has them.
_SETTINGS = (
    *("approx_vocab_size", "dataset_splits", "max_samples_for_vocab", "num_classes"),
    *("oov_token", "vocab_type"),
)


def _to_derive_from(problem: type[native.Text2TextProblem], base: type[Text2TextProblem]) -> Any:
    """Returns T2T's class for a registered problem."""
    ours = problem()

    def reader(self: Text2TextProblem) -> native.Text2TextProblem:
        """Returns the registered problem, with the vocabulary's name in the subclass."""
        members = {"vocab_filename": self.vocab_filename}
        found: native.Text2TextProblem = type(problem.__name__, (problem,), members)()
        found.bad_input = receiver()
        return found

    def generate_samples(
        self: Text2TextProblem, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Sample]:
        found = reader(self)
        found.fetch_sources(tmp_dir, dataset_split)  # of a subclass that calls it, nobody has
        path = os.path.join(data_dir, self.vocab_filename)
        if self.vocab_type == VocabType.TOKEN and not os.path.exists(path):
            found.build_vocab(data_dir, tmp_dir)
        return found.generate_samples(data_dir, tmp_dir, dataset_split)

    def source_files(self: Any, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        return ours.source_files(tmp_dir, dataset_split) if reads_ours(self) else []

    def fetch_sources(self: Any, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        return ours.fetch_sources(tmp_dir, dataset_split) if reads_ours(self) else []

    def reads_ours(adapter: Any) -> bool:
        """Whether the samples are the data set's, not a subclass's."""
        is_ours = module_of(adapter.upstream, "generate_samples") == __name__
        return is_ours and not adapter.encodes_samples

    files = {"source_files": source_files, "fetch_sources": fetch_sources}
    members = {
        "__doc__": problem.__doc__,
        "__module__": __name__,
        "generate_samples": generate_samples,
        "_t2t_lite_adapter": type("TextAdapter", (base._t2t_lite_adapter,), files),
        **{name: getattr(ours, name) for name in _SETTINGS if hasattr(ours, name)},
    }
    if isinstance(ours, native.Text2ClassProblem):
        labels = ours.class_labels("")
        members["class_labels"] = lambda self, data_dir: labels
    return type(problem.__name__, (base,), members)


LanguagemodelLm1b32k = _to_derive_from(language_modeling.LanguagemodelLm1b32k, Text2SelfProblem)
LanguagemodelPtb10k = _to_derive_from(language_modeling.LanguagemodelPtb10k, Text2SelfProblem)
LanguagemodelPtb10k.vocab_filename = language_modeling.LanguagemodelPtb10k().vocab_filename
LanguagemodelWikitext103 = _to_derive_from(
    language_modeling.LanguagemodelWikitext103, Text2SelfProblem
)
SentimentIMDB = _to_derive_from(sentiment.SentimentIMDB, Text2ClassProblem)
SentimentIMDBCharacters = _to_derive_from(sentiment.SentimentIMDBCharacters, Text2ClassProblem)
SummarizeCnnDailymail32k = _to_derive_from(cnn_dailymail.SummarizeCnnDailymail32k, Text2TextProblem)


class WsjParsing(Text2TextProblem):
    """Sentences and the symbols of their trees, which are text to this class, as in T2T.

    Attributes:
        TRAIN_FILES_TREE: the file of training trees in `tmp_dir`, one tree on a line.
        EVAL_FILES_TREE: that of evaluation trees.
    """

    TRAIN_FILES_TREE = parsing.WsjParsing.FILES[DatasetSplit.TRAIN]
    EVAL_FILES_TREE = parsing.WsjParsing.FILES[DatasetSplit.EVAL]
    max_samples_for_vocab = parsing.WsjParsing.max_samples_for_vocab

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the pairs of a split, as the registered problem does."""
        files = {
            DatasetSplit.TRAIN: self.TRAIN_FILES_TREE,
            DatasetSplit.EVAL: self.EVAL_FILES_TREE,
        }
        ours = type("WsjParsing", (parsing.WsjParsing,), {"FILES": files})()
        ours.bad_input = receiver()
        samples: Iterable[Sample] = ours.generate_samples(data_dir, tmp_dir, dataset_split)
        return samples


def words_and_tags_from_wsj_tree(tree_string: str) -> tuple[str, str]:
    """Returns the words of a tree, and its symbols without the outermost bracket."""
    words, symbols = linear_trees.linearize(trees.parse_full_tree(tree_string))
    return " ".join(words), " ".join(symbols)
