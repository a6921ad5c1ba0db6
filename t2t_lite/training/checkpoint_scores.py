"""What `t2t-eval` does: every score of some checkpoints, and which of them is better for sure."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.data.input_pipeline import eval_dataset
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.examples import Decodes, decode_examples
from t2t_lite.errors import UserError
from t2t_lite.evaluation.bootstrap import Resampled, paired_bootstrap
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training.evaluation import Evaluation


@dataclasses.dataclass(frozen=True)
class CheckpointScores:
    """The scores of one checkpoint.

    Attributes:
        checkpoint: its prefix.
        step: the updates before it.
        values: by name, as an evaluation in metrics.jsonl has them, of all examples.
        resampled: by the problem's metric, beside the other checkpoints; None if it is the only
            one.
    """

    checkpoint: str
    step: int
    values: dict[str, float | int | str]
    resampled: Resampled | None = None


def score_checkpoints(
    checkpoints: Sequence[str],
    strategy: tf.distribute.Strategy,
    split: str,
    data_dir: str = "",
    decode_hparams: str = "",
) -> list[CheckpointScores]:
    """Scores checkpoints, of one run or of several runs of one problem, on all of a split.

    Args:
        checkpoints: their prefixes, each in its run folder.
        strategy: the devices.
        split: of `DatasetSplit`; what to evaluate on.
        data_dir: folder of the data; empty: each run's own.
        decode_hparams: changes to the problem's search settings.

    Returns:
        The scores in the order of `checkpoints`; if there are several, with paired bootstrap
        resampling of each against the first.

    Raises:
        UserError: a checkpoint or the data is missing, or they are of different tasks.
    """
    folders = [str(pathlib.Path(path).parent) for path in checkpoints]
    scorer = functools.cache(lambda folder: _Scorer(folder, strategy, data_dir, decode_hparams))
    scored, decoded = [], {}
    for folder, path in zip(folders, checkpoints, strict=True):
        scores, decodes = scorer(folder).score(path, split)
        scored.append(scores)
        decoded[path] = decodes
    first, *others = decoded.values()
    if not others:
        return scored
    if any(other.references != first.references for other in others):
        raise UserError(
            f"the {split} sets of {', '.join(dict.fromkeys(folders))} differ: compare runs on one "
            "--data_dir"
        )
    resampled = paired_bootstrap(
        scorer(folders[0]).run.problem.metric,
        {path: [output.text for output in decodes.outputs] for path, decodes in decoded.items()},
        first.references,
    )
    return [dataclasses.replace(s, resampled=resampled[s.checkpoint]) for s in scored]


class _Scorer:
    """The model of one run, for one checkpoint after the other."""

    def __init__(
        self, folder: str, strategy: tf.distribute.Strategy, data_dir: str, decode_hparams: str
    ) -> None:
        self.run = run_folder.open_run(folder)
        problem = self.run.problem
        self._data_dir = data_dir or self.run.flags["data_dir"]
        self.run.refuse_other_vocabulary(self._data_dir)
        with strategy.scope():
            self._model = self.run.build_model()
        self._strategy = strategy
        self._evaluation = Evaluation(strategy, self._model)
        self._decoder = Decoder(
            self._model,
            problem,
            self.run.encoders,
            DecodeHParams.of(problem, decode_hparams),
            devices=strategy.extended.worker_devices,
        )

    def score(self, checkpoint: str, split: str) -> tuple[CheckpointScores, Decodes]:
        """Returns a checkpoint's scores and its outputs."""
        step = self.run.restore_weights(self._model, checkpoint)
        problem, hparams = self.run.problem, self.run.hparams
        paths = problem.existing_filepaths(self._data_dir, split)
        batches = eval_dataset(
            paths,
            BatchingScheme.from_hparams(hparams, training=False),
            ExampleReader.of(problem, hparams),
            workers=self._strategy.num_replicas_in_sync,
        )
        with naming_bad_file(paths):
            values = self._evaluation(batches, limit=None)
            self._decoder.names = [checkpoint]
            decodes = decode_examples(self._decoder, paths, f"{split} example")
        values |= decodes.score(problem.metric).values
        return CheckpointScores(checkpoint, step, values), decodes
