"""The classes of T2T's `translate_ende` and `translate_enfr` that this package has, to derive from.

They read the corpora of `problems.wmt`; themselves they are registered there.
"""

from collections.abc import Sequence
from typing import Any

from t2t_lite.corpora.corpora import AlignedCorpus, Corpus, TsvArchive
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems import wmt
from t2t_lite.t2t import datasets
from t2t_lite.t2t.translate import TranslateProblem
from t2t_lite.text.text_encoder import EOS_ID

__all__ = [
    "TranslateEndeWmt8k",
    "TranslateEndeWmt32k",
    "TranslateEndeWmtCharacters",
    "TranslateEnfrWmt8k",
    "TranslateEnfrWmt32k",
    "TranslateEnfrWmtCharacters",
    "TranslateEnfrWmtSmall8k",
    "TranslateEnfrWmtSmall32k",
    "TranslateEnfrWmtSmallCharacters",
]


def to_derive_from(problem: type[wmt.WmtProblem]) -> Any:
    """Returns T2T's class for a registered problem."""
    ours = problem()

    def source_data_files(self: TranslateProblem, dataset_split: str) -> Sequence[datasets.Entry]:
        training = dataset_split == DatasetSplit.TRAIN
        return [
            *entries(problem, dataset_split),
            *(self.additional_training_datasets if training else ()),
        ]

    members: dict[str, Any] = {
        "__doc__": problem.__doc__,
        "__module__": __name__,
        "approx_vocab_size": ours.approx_vocab_size,
        "source_data_files": source_data_files,
        "vocab_type": ours.vocab_type,
    }
    if isinstance(getattr(problem, "vocab_filename", None), str):
        members["vocab_filename"] = problem.vocab_filename
    return type(problem.__name__, (TranslateProblem,), members)


def entries(
    problem: type[wmt.WmtProblem], dataset_split: str = DatasetSplit.TRAIN
) -> list[datasets.Entry]:
    """Returns T2T's list of the data sets of a registered problem."""
    return [entry(corpus) for corpus in problem().corpora(dataset_split)]


def entry(corpus: Corpus) -> datasets.Entry:
    """Returns a corpus as T2T's data set."""
    if isinstance(corpus, TsvArchive):
        return [corpus.file.url, ("tsv", *corpus.columns, f"*{corpus.suffix}")]
    assert isinstance(corpus, AlignedCorpus)
    sides = corpus.inputs, corpus.targets
    return [corpus.inputs.file.url, tuple(side.member for side in sides)]


TranslateEndeWmt8k = to_derive_from(wmt.TranslateEndeWmt8k)
TranslateEndeWmt32k = to_derive_from(wmt.TranslateEndeWmt32k)
TranslateEndeWmtCharacters = to_derive_from(wmt.TranslateEndeWmtCharacters)
TranslateEnfrWmt8k = to_derive_from(wmt.TranslateEnfrWmt8k)
TranslateEnfrWmt32k = to_derive_from(wmt.TranslateEnfrWmt32k)
TranslateEnfrWmtCharacters = to_derive_from(wmt.TranslateEnfrWmtCharacters)
TranslateEnfrWmtSmall8k = to_derive_from(wmt.TranslateEnfrWmtSmall8k)
TranslateEnfrWmtSmall32k = to_derive_from(wmt.TranslateEnfrWmtSmall32k)
TranslateEnfrWmtSmallCharacters = to_derive_from(wmt.TranslateEnfrWmtSmallCharacters)

EOS = EOS_ID
_ENDE_TRAIN_DATASETS = entries(wmt.TranslateEndeWmt32k)
_ENDE_EVAL_DATASETS = entries(wmt.TranslateEndeWmt32k, DatasetSplit.EVAL)
_ENFR_TRAIN_SMALL_DATA = entries(wmt.TranslateEnfrWmtSmall32k)
_ENFR_TEST_SMALL_DATA = entries(wmt.TranslateEnfrWmtSmall32k, DatasetSplit.EVAL)
_ENFR_TRAIN_LARGE_DATA = entries(wmt.TranslateEnfrWmt32k)
_ENFR_TEST_LARGE_DATA = entries(wmt.TranslateEnfrWmt32k, DatasetSplit.EVAL)
