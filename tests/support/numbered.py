"""A problem of numbers, and how its data is generated and read."""

import itertools
import pathlib

from t2t_lite.data import records
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError
from t2t_lite.text.text_encoder import ByteTextEncoder, VocabType


class Small(Text2TextProblem):
    """Numbers as text in bytes, without a vocabulary file; 4 training files."""

    vocab_type = VocabType.CHARACTER
    base_name = "small"
    train_files = 4

    def __init__(self, **sizes: int):
        super().__init__()
        self.sizes = {"train": 10, "eval": 5, "test": 3, **sizes}

    @property
    def dataset_splits(self):
        return [
            {"split": DatasetSplit.TRAIN, "shards": self.train_files},
            {"split": DatasetSplit.EVAL, "shards": 2},
            {"split": DatasetSplit.TEST, "shards": 1},
        ]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for i in range(self.sizes[dataset_split]):
            yield {"inputs": f"{i}", "targets": f"{i:x}é"}


class Dealt(Small):
    """One sequence of samples over the files of all splits."""

    is_generate_per_split = False


class Stopping(Small):
    """Stops after a number of samples of a split."""

    stop = 120

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        samples = super().generate_samples(data_dir, tmp_dir, dataset_split)
        yield from itertools.islice(samples, self.stop)
        raise DataError("the next line is bad")


def generate(problem: Text2TextProblem, folder: pathlib.Path, **options) -> None:
    """Generates a problem in a folder."""
    generator.write_records(problem, str(folder), "", DatagenOptions(**options))


def numbers(path: pathlib.Path) -> list[int]:
    """The samples in a file, in order."""
    decode = ByteTextEncoder().decode
    return [int(decode(example["inputs"])) for example in records.read_examples([path])]
