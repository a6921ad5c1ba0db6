"""The training data of a run: its files, and the batches that a step takes."""

from collections.abc import Mapping

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import DataStatistics, count_examples
from t2t_lite.data.example_reader import ExampleReader, require_alignments
from t2t_lite.data.input_pipeline import train_dataset
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text.text_encoder import TextEncoder


class TrainingData:
    """The training files of a problem, and how `hparams` make batches of them.

    Args:
        problem: the problem.
        data_dir: folder of the data.
        hparams: of the model.
        encoders: the vocabularies of `inputs` and `targets`.
        seed: of the order and of what is drawn anew in each epoch.
    """

    def __init__(
        self,
        problem: Problem,
        data_dir: str,
        hparams: BasicHParams,
        encoders: Mapping[str, TextEncoder],
        seed: int,
    ) -> None:
        self.paths = problem.existing_filepaths(data_dir, DatasetSplit.TRAIN)
        self.scheme = BatchingScheme.from_hparams(hparams, training=True)
        self._reader = ExampleReader.of(problem, hparams)
        self._rewriter = Rewriter.of(hparams, self._reader, encoders, seed)
        self._hparams = hparams
        self._seed = seed

    def statistics(self) -> DataStatistics:
        """Counts the first examples; an error if none is usable.

        Raises:
            DataError: there is none, or the data lacks the alignments that the hparams ask for.
        """
        require_alignments(self.paths, self._hparams)
        return count_examples(self.paths, self.scheme, self._reader, rewriter=self._rewriter)

    def batches(self, parts: int) -> tf.data.Dataset:
        """Returns batches of W = `parts` parts, [W, B, L], without end."""
        return train_dataset(
            self.paths,
            self.scheme,
            self._reader,
            parts=parts,
            seed=self._seed,
            batch_shuffle_size=self._hparams.batch_shuffle_size,
            rewriter=self._rewriter,
        )
