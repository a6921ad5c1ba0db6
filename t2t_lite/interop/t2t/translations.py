"""The classes of T2T's `translate_...` modules that this package has, to derive from.

They read the corpora of `problems.wmt`, `translate` and `translate_low_resource`; themselves they
are registered there.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite.data.corpora.corpora import AlignedCorpus, Corpus, TsvArchive
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.interop.t2t import datasets, generator_utils
from t2t_lite.interop.t2t.text_encoder import SubwordTextEncoder
from t2t_lite.interop.t2t.text_iterators import text2text_generate_encoded
from t2t_lite.interop.t2t.translate import TranslateProblem
from t2t_lite.problems import translate, translate_low_resource, wmt
from t2t_lite.text.text_encoder import EOS_ID

_SPLITS = (DatasetSplit.TRAIN, DatasetSplit.EVAL)


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


def entries(problem: type[wmt.WmtProblem], dataset_split: str) -> list[datasets.Entry]:
    """Returns T2T's list of the data sets of a registered problem."""
    return [entry(corpus) for corpus in problem().corpora(dataset_split)]


def entry(corpus: Corpus) -> datasets.Entry:
    """Returns a corpus as T2T's data set."""
    if isinstance(corpus, TsvArchive):
        return [corpus.file.url, ("tsv", *corpus.columns, f"*{corpus.suffix}")]
    assert isinstance(corpus, AlignedCorpus)
    sides = corpus.inputs, corpus.targets
    return [corpus.inputs.file.url, tuple(side.member for side in sides)]


EOS = EOS_ID
_DERIVED = {
    name: to_derive_from(problem)
    for module in (wmt, translate, translate_low_resource)
    for name, problem in vars(module).items()
    if name.startswith("Translate")
    and issubclass(problem, wmt.T2TWmtProblem)
    and not issubclass(problem, translate.TranslateEnzhWmt8k)  # see below
}
# T2T's lists of the data sets of training and of evaluation.
_LISTS = {
    ("_ENCS_TRAIN_DATASETS", "_ENCS_TEST_DATASETS"): translate.TranslateEncsWmt32k,
    ("_ENDE_TRAIN_DATASETS", "_ENDE_EVAL_DATASETS"): wmt.TranslateEndeWmt32k,
    ("_ENES_TRAIN_DATASETS", "_ENES_TEST_DATASETS"): translate.TranslateEnesWmt32k,
    ("_ENET_TRAIN_DATASETS", "_ENET_TEST_DATASETS"): translate.TranslateEnetWmt32k,
    ("_ENFR_TRAIN_LARGE_DATA", "_ENFR_TEST_LARGE_DATA"): wmt.TranslateEnfrWmt32k,
    ("_ENFR_TRAIN_SMALL_DATA", "_ENFR_TEST_SMALL_DATA"): wmt.TranslateEnfrWmtSmall32k,
    ("_ENID_TRAIN_DATASETS", "_ENID_TEST_DATASETS"): translate_low_resource.TranslateEnidIwslt32k,
    ("_ENMK_TRAIN_DATASETS", "_ENMK_TEST_DATASETS"): translate_low_resource.TranslateEnmkSetimes32k,
    ("_ENRO_TRAIN_DATASETS", "_ENRO_TEST_DATASETS"): translate.TranslateEnroWmt32k,
    ("_ENTN_TRAIN_DATASETS", "_ENTN_TEST_DATASETS"): translate_low_resource.TranslateEntnRma,
    ("_ENVI_TRAIN_DATASETS", "_ENVI_TEST_DATASETS"): translate_low_resource.TranslateEnviIwslt32k,
}
globals().update(_DERIVED)
for _names, _problem in _LISTS.items():
    globals().update(zip(_names, map(entries, [_problem] * 2, _SPLITS), strict=True))
_NC_TRAIN_DATASETS, _NC_TEST_DATASETS = map(entries, [translate.TranslateEnzhWmt8k] * 2, _SPLITS)
*_CWMT_TRAIN_DATASETS, _UN = map(entry, translate.TranslateEnzhWmt32k.optional_corpora)
_UN_TRAIN_DATASETS = [_UN]
__all__ = sorted([*_DERIVED, "TranslateEnzhWmt8k", "TranslateEnzhWmt32k", "get_filename"])


def get_filename(dataset: Sequence[datasets.Entry]) -> str:
    """Returns the name of the file that the first of some data sets is in."""
    return datasets.remote_file(dataset[0][0]).path("").name


class TranslateEnzhWmt32k(TranslateProblem):
    """T2T's English-Chinese, with a vocabulary of each language."""

    approx_vocab_size = translate.TranslateEnzhWmt32k.approx_vocab_size

    @property
    def source_vocab_name(self) -> str:
        """The file of the English vocabulary."""
        return f"{self.vocab_filename}.en"

    @property
    def target_vocab_name(self) -> str:
        """The file of the Chinese vocabulary."""
        return f"{self.vocab_filename}.zh"

    def get_training_dataset(self, tmp_dir: str) -> list[datasets.Entry]:
        """Returns News Commentary, and the larger corpora whose archives are in `tmp_dir`."""
        larger = [*_CWMT_TRAIN_DATASETS, *_UN_TRAIN_DATASETS]
        here = (one for one in larger if datasets.remote_file(one[0]).path(tmp_dir).is_file())
        return [*_NC_TRAIN_DATASETS, *here]

    def source_data_files(self, dataset_split: str) -> list[datasets.Entry]:
        """Returns the data sets that need no registration."""
        return _NC_TRAIN_DATASETS if dataset_split == DatasetSplit.TRAIN else _NC_TEST_DATASETS

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as ids; builds the vocabularies that are missing."""
        training = self.get_training_dataset(tmp_dir)
        source_encoder, target_encoder = (
            generator_utils.get_or_generate_vocab(
                data_dir,
                tmp_dir,
                name,
                self.approx_vocab_size,
                [[url, [members[side]]] for url, members, *_ in training],
                file_byte_budget=1e8,
                max_subtoken_length=self.max_subtoken_length,
            )
            for side, name in enumerate((self.source_vocab_name, self.target_vocab_name))
        )
        is_training = dataset_split == DatasetSplit.TRAIN
        read = training if is_training else self.source_data_files(dataset_split)
        pairs = datasets.pairs(read, tmp_dir)
        return text2text_generate_encoded(pairs, source_encoder, target_encoder)

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoder of each language."""
        names = {"inputs": self.source_vocab_name, "targets": self.target_vocab_name}
        return {
            side: SubwordTextEncoder(os.path.join(data_dir, name)) for side, name in names.items()
        }


class TranslateEnzhWmt8k(TranslateEnzhWmt32k):
    """The same with 2^13 subwords, of News Commentary alone."""

    approx_vocab_size = translate.TranslateEnzhWmt8k.approx_vocab_size

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        """T2T's numbers of files."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 10},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    def get_training_dataset(self, tmp_dir: str) -> list[datasets.Entry]:
        """Returns News Commentary."""
        return _NC_TRAIN_DATASETS
