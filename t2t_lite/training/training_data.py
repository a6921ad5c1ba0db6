"""The training data of a run: its files, and the batches that a step takes."""

from collections.abc import Iterator, Mapping

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.example_reader import ExampleReader, require_alignments
from t2t_lite.data.input_pipeline import train_dataset
from t2t_lite.data.mixing import streams, training_files
from t2t_lite.data.problem import Problem
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text.text_encoder import TextEncoder

# Records counted, of all members together.
_COUNTED = 100_000


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
        self._members = training_files(problem, data_dir, hparams.mixture_temperature)
        self.paths = [path for member in self._members for path in member.paths]
        self.scheme = BatchingScheme.from_hparams(hparams, training=True)
        self._reader = ExampleReader.of(problem, hparams)
        self._rewriter = Rewriter.of(hparams, self._reader, encoders, seed)
        self._hparams = hparams
        self._seed = seed

    def statistics(self) -> Iterator[str]:
        """Yields a line on the first examples of each member of the problem.

        Raises:
            DataError: none of a member is usable, or the data lacks the alignments that the
                hparams ask for.
        """
        limit = _COUNTED // len(self._members)
        for name, paths, rate in self._members:
            require_alignments(paths, self._hparams)
            counted = count_examples(paths, self.scheme, self._reader, limit, self._rewriter)
            share = f"{name}, {rate:.1%} of the examples: " if len(self._members) > 1 else ""
            yield f"{share}{counted}"

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
            streams=streams(self._members),
        )
