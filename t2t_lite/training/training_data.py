"""The training data of a run: its files, and the batches that a step takes."""

import functools
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import DataStatistics, count_examples
from t2t_lite.data.example_reader import ExampleReader, require_alignments
from t2t_lite.data.input_pipeline import train_dataset
from t2t_lite.data.mixing import mixing, training_files
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
        seed: of the order and of what is drawn anew in each epoch.
        encoders: the vocabularies of `inputs` and `targets`; None: those of `data_dir`, loaded if
            the hparams change the examples.

    Raises:
        UserError: a file is missing.
        UsageError: the hparams contradict each other or the problem.
        DataError: a member has no example, or the data lacks the alignments that a hparam needs.
    """

    def __init__(
        self,
        problem: Problem,
        data_dir: str,
        hparams: BasicHParams,
        seed: int,
        encoders: Mapping[str, TextEncoder] | None = None,
    ) -> None:
        self._members = training_files(problem, data_dir, hparams)
        self.paths = [path for member in self._members for path in member.paths]
        self.scheme = BatchingScheme.from_hparams(hparams, training=True)
        self._reader = ExampleReader.of(problem, hparams)
        for member in self._members:
            require_alignments(member.paths, hparams)
        if encoders is None:
            rewrites = Rewriter.asked_for(hparams)  # else the vocabulary may be missing
            encoders = problem.get_feature_encoders(data_dir) if rewrites else {}
        self._rewriter = Rewriter.of(hparams, self._reader, encoders, seed)
        self._hparams = hparams
        self._seed = seed

    def require_examples(self) -> None:
        """Checks that the first examples of each member have one that batches keep.

        Raises:
            DataError: none of a member is usable, so that batches might wait for one without end.
        """
        _ = self._counted

    def statistics(self) -> Iterator[str]:
        """Yields a line on the first examples of each member of the problem.

        Raises:
            DataError: none of a member is usable.
        """
        for member, counted in zip(self._members, self._counted, strict=True):
            share = f"{member.rate:.1%}"
            if steps := self._hparams.mixture_annealing_steps:
                share += f", from update {steps:,} on {member.final_rate:.1%},"
            prefix = f"{member.name}, {share} of the examples: " if len(self._members) > 1 else ""
            yield f"{prefix}{counted}"

    @property
    def largest_batch(self) -> tuple[int, int]:
        """The (sentences, subwords) of the largest part of a batch, which the longest example has.

        Where not all examples have been counted, or they vary, an example may have `max_length`.
        """
        hparams, scheme = self._hparams, self.scheme
        if self._rewriter or not all(counted.complete for counted in self._counted):
            return scheme.worst_bucket
        longest = min(scheme.max_length, max(counted.longest for counted in self._counted))
        # XLA gets whole buckets: see bucket_padding.py.
        multiple = scheme.max_length if hparams.xla_compile else hparams.length_multiple
        return scheme.largest_batch(longest, multiple)

    @functools.cached_property
    def _counted(self) -> Sequence[DataStatistics]:
        """Statistics of the first examples of each member."""
        limit = _COUNTED // len(self._members)
        return [
            count_examples(member.paths, self.scheme, self._reader, limit, self._rewriter)
            for member in self._members
        ]

    def batches(self, parts: int, epochs: tf.data.Dataset | None = None) -> tf.data.Dataset:
        """Returns batches of W = `parts` parts, [W, B, L]; by default, without end.

        Args:
            parts: W.
            epochs: as for `train_dataset`.
        """
        counted = self._counted if self._hparams.mixture_annealing_steps else ()
        return train_dataset(
            self.paths,
            self.scheme,
            self._reader,
            parts=parts,
            seed=self._seed,
            batch_shuffle_size=self._hparams.batch_shuffle_size,
            rewriter=self._rewriter,
            epochs=epochs,
            mixing=mixing(self._members, self._hparams, parts, counted),
        )
