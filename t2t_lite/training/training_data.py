"""The training data of a run: its files, and the batches that a step takes."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import DataStatistics, count_examples
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.input_pipeline import train_dataset
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text.text_encoder import TextEncoder


class TrainingData(NamedTuple):
    """The training files of a problem, and how `hparams` make batches of them."""

    paths: list[str]
    scheme: BatchingScheme
    reader: ExampleReader
    rewriter: Rewriter | None
    seed: int
    batch_shuffle_size: int

    @classmethod
    def of(
        cls,
        problem: Problem,
        data_dir: str,
        hparams: BasicHParams,
        encoders: Mapping[str, TextEncoder],
        seed: int,
    ) -> Self:
        """Finds the files in `data_dir`.

        Args:
            problem: the problem.
            data_dir: folder of the data.
            hparams: of the model.
            encoders: the vocabularies of `inputs` and `targets`.
            seed: of the order and of what is drawn anew in each epoch.

        Raises:
            UserError: a file is missing, or the vocabularies do not allow what `hparams` ask for.
        """
        reader = ExampleReader.of(problem, hparams)
        return cls(
            paths=problem.existing_filepaths(data_dir, DatasetSplit.TRAIN),
            scheme=BatchingScheme.from_hparams(hparams, training=True),
            reader=reader,
            rewriter=Rewriter.of(hparams, reader, encoders, seed),
            seed=seed,
            batch_shuffle_size=hparams.batch_shuffle_size,
        )

    def statistics(self) -> DataStatistics:
        """Counts the first examples; an error if none is usable."""
        return count_examples(self.paths, self.scheme, self.reader, rewriter=self.rewriter)

    def batches(self, parts: int) -> tf.data.Dataset:
        """Returns batches of W = `parts` parts, [W, B, L], without end."""
        return train_dataset(
            self.paths,
            self.scheme,
            self.reader,
            parts=parts,
            seed=self.seed,
            batch_shuffle_size=self.batch_shuffle_size,
            rewriter=self.rewriter,
        )
