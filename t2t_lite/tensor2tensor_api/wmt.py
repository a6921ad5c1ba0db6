"""The classes of T2T's `translate_ende` and `translate_enfr` that this package has, to derive from.

They read the corpora of `problems.wmt`; themselves they are registered there.
"""

from collections.abc import Sequence
from typing import Any

from t2t_lite.corpora.corpora import AlignedCorpus, Corpus
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems import wmt
from t2t_lite.tensor2tensor_api import datasets
from t2t_lite.tensor2tensor_api.translate import TranslateProblem

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


def _to_derive_from(problem: type[wmt.WmtProblem]) -> Any:
    """Returns T2T's class for a registered problem."""
    ours = problem()

    def source_data_files(self: TranslateProblem, dataset_split: str) -> Sequence[datasets.Entry]:
        found = [_entry(corpus) for corpus in ours.corpora(dataset_split)]
        training = dataset_split == DatasetSplit.TRAIN
        return [*found, *(self.additional_training_datasets if training else ())]

    members = {
        "__doc__": problem.__doc__,
        "__module__": __name__,
        "approx_vocab_size": ours.approx_vocab_size,
        "source_data_files": source_data_files,
        "vocab_type": ours.vocab_type,
    }
    return type(problem.__name__, (TranslateProblem,), members)


def _entry(corpus: Corpus) -> datasets.Entry:
    assert isinstance(corpus, AlignedCorpus)
    sides = corpus.inputs, corpus.targets
    return [corpus.inputs.file.url, tuple(side.member for side in sides)]


TranslateEndeWmt8k = _to_derive_from(wmt.TranslateEndeWmt8k)
TranslateEndeWmt32k = _to_derive_from(wmt.TranslateEndeWmt32k)
TranslateEndeWmtCharacters = _to_derive_from(wmt.TranslateEndeWmtCharacters)
TranslateEnfrWmt8k = _to_derive_from(wmt.TranslateEnfrWmt8k)
TranslateEnfrWmt32k = _to_derive_from(wmt.TranslateEnfrWmt32k)
TranslateEnfrWmtCharacters = _to_derive_from(wmt.TranslateEnfrWmtCharacters)
TranslateEnfrWmtSmall8k = _to_derive_from(wmt.TranslateEnfrWmtSmall8k)
TranslateEnfrWmtSmall32k = _to_derive_from(wmt.TranslateEnfrWmtSmall32k)
TranslateEnfrWmtSmallCharacters = _to_derive_from(wmt.TranslateEnfrWmtSmallCharacters)
