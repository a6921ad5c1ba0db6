"""Evaluates checkpoints: all their scores, and whether they differ significantly (`t2t-eval`)."""

import dataclasses
import functools
import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite import files
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.data.input_pipeline import eval_dataset
from t2t_lite.decoding.config import CTRANSLATE2, FLOAT32, TENSORFLOW, check_compute_type
from t2t_lite.decoding.dataset_decoding import Decodes, decode_examples, read_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.devices import on_device
from t2t_lite.decoding.engine import Engine
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UsageError, UserError
from t2t_lite.metrics.base import Score
from t2t_lite.metrics.bootstrap import BootstrapResult, resample
from t2t_lite.metrics.by_name import metric_files, output_metric, output_metrics
from t2t_lite.metrics.parts import Part, combined, parts_of, without_split
from t2t_lite.models.copies import copy_weights, empty_copy
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training.evaluation import TeacherForced

log = logging.getLogger(__name__)

# The scores of single outputs: what a model of their quality is trained on.
SEGMENT_METRICS = ("chrf", "ter")


@dataclasses.dataclass(frozen=True)
class CheckpointScores:
    """The scores of one checkpoint.

    Attributes:
        checkpoint: its prefix.
        step: number of updates before it.
        values: scores over all examples, named as in metrics.jsonl.
        resampled: its confidence interval, and comparison with the first checkpoint, by the first
            output metric; None if that has only one value for all outputs, or for a mixture.
        other_resampled: the same by the other output metrics, by name; for a mixture, by all
            metrics of its members, named as their values.
    """

    checkpoint: str
    step: int
    values: dict[str, float | int | str]
    resampled: BootstrapResult | None = None
    other_resampled: dict[str, BootstrapResult] = dataclasses.field(default_factory=dict)


def score_checkpoints(
    checkpoints: Sequence[str],
    strategy: tf.distribute.Strategy,
    split: str,
    data_dir: str = "",
    decode_hparams: str = "",
    metrics: Sequence[str] = (),
    engine: tuple[str, str] = (TENSORFLOW, FLOAT32),
    segments_file: str = "",
) -> list[CheckpointScores]:
    """Scores checkpoints of one or several runs of the same problem on a whole split.

    Args:
        checkpoints: their prefixes, each in its run folder.
        strategy: the devices.
        split: of `DatasetSplit`; what to evaluate on.
        data_dir: folder of the data; empty: each run's own.
        decode_hparams: changes to the problem's search settings.
        metrics: names of registered metrics; none: those of the problem and of its members.
        engine: what decodes, and what CTranslate2 computes in: see `DecoderConfig`.
        segments_file: where to write the texts and scores of each output; "": nowhere.

    Returns:
        The scores in the order of `checkpoints`, with paired bootstrap resampling of each against
        the first. Those of a mixture are means over the members that have the split, and those of
        each: see metrics/parts.py.

    Raises:
        UserError: the runs have different sets, or a setting is invalid.
    """
    check_compute_type(*engine)
    DecodeHParams().override(decode_hparams).require_one_output()  # a problem's own may ask for it
    folders = [str(pathlib.Path(path).parent) for path in checkpoints]
    runs = [RunFolder.open(folder) for folder in dict.fromkeys(folders)]
    problem = runs[0].problem
    first_data = data_dir or runs[0].data_dir
    parts = parts_of(problem, split, metrics, first_data)
    if segments_file:
        _check_segments(segments_file, runs, parts)
    for part in parts:
        part.check()
        for run in runs:  # a missing file is named before a model is built
            part.problem.existing_filepaths(data_dir or run.data_dir, split)
    wanted = {part.label: part.metrics for part in parts}
    for name in without_split(problem, split, first_data):
        log.info("%s has no %s split and is left out", name, split)
    scorer = functools.cache(
        lambda folder: _Scorer(folder, strategy, data_dir, decode_hparams, engine)
    )
    scored = []
    for folder, path in zip(folders, checkpoints, strict=True):
        scored.append(scorer(folder).score(path, split, wanted))
    if any(one.texts != scored[0].texts for one in scored):
        raise UserError(
            f"the {split} sets of {', '.join(dict.fromkeys(folders))} differ: name one --data_dir "
            "for all runs"
        )
    if segments_file:
        _write_segments(segments_file, scored)
    return _compared(scored)


def _check_segments(path: str, runs: Sequence[RunFolder], parts: Sequence[Part]) -> None:
    """Checks that there will be outputs to write, and that they overwrite no file that is read."""
    scored_by = metric_files(name for part in parts for name in part.metrics)
    for run in runs:
        files.refuse_overwriting(path, [*run.own_files(), *scored_by])
    if not any(part.problem.has_inputs for part in parts):
        raise UsageError(
            f"--segment_scores={path}: problem {runs[0].problem.name!r} has no inputs, and thus no "
            "outputs to score"
        )


def _write_segments(path: str, scored: "Sequence[_Scored]") -> None:
    """Writes a JSON object on a line for each output of each checkpoint."""
    records = (
        {"checkpoint": one.checkpoint, **record}
        for one in scored
        for part in one.parts
        for record in part.decodes.segment_records(SEGMENT_METRICS)
    )
    files.write_text(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))


class _ScoredPart(NamedTuple):
    """A checkpoint's scores on a part, and the data to compare them by."""

    part: Part
    values: dict[str, float | int | str]
    by_metric: dict[str, Score]
    references: list[str]
    decodes: Decodes


class _Scored(NamedTuple):
    """A checkpoint's scores."""

    checkpoint: str
    step: int
    parts: list[_ScoredPart]

    @property
    def texts(self) -> dict[str, list[str]]:
        """The references of each part."""
        return {one.part.label: one.references for one in self.parts}

    @property
    def scores(self) -> CheckpointScores:
        """The scores, not yet compared with others."""
        values = combined({one.part.label: one.values for one in self.parts})
        return CheckpointScores(self.checkpoint, self.step, values)


def _compared(scored: Sequence[_Scored]) -> list[CheckpointScores]:
    """Returns the scores with the results of bootstrap resampling."""
    compared = [one.scores for one in scored]
    for same in zip(*(one.parts for one in scored), strict=True):
        part = same[0].part
        for number, name in enumerate(same[0].by_metric):
            found = _resampled(name, [one.by_metric[name] for one in same], same[0].references)
            is_first = not (number or part.label)
            for place, result in enumerate(found):
                scores = compared[place]
                others = scores.other_resampled | {part.field(name): result}
                changes: dict[str, Any] = (
                    {"resampled": result} if is_first else {"other_resampled": others}
                )
                compared[place] = dataclasses.replace(scores, **changes)
    return compared


def _resampled(
    name: str, scores: Sequence[Score], references: Sequence[str]
) -> list[BootstrapResult]:
    """Compares the scores of checkpoints by one metric; none if it cannot be resampled."""
    if any(len(one.statistics) != len(references) for one in scores):
        log.info("%s has only one value for all outputs and is not resampled", name)
        return []
    rows = {str(place): one.statistics for place, one in enumerate(scores)}
    return list(resample(output_metric(name), rows).values())


class _Scorer:
    """Scores checkpoints of one run, one after another."""

    def __init__(
        self,
        folder: str,
        strategy: tf.distribute.Strategy,
        data_dir: str,
        decode_hparams: str,
        engine: tuple[str, str] = (TENSORFLOW, FLOAT32),
    ) -> None:
        self.run = RunFolder.open(folder)
        self._data_dir = data_dir or self.run.data_dir
        self.run.refuse_other_vocabulary(self._data_dir)
        with strategy.scope():
            self._model = self.run.build_model()
        self._strategy = strategy
        self._teacher_forced = TeacherForced(strategy, self._model, self.run)
        self._hparams = DecodeHParams.of(self.run, decode_hparams)
        self._engine_name, self._compute_type = engine

    def score(self, checkpoint: str, split: str, metrics: Mapping[str, Sequence[str]]) -> _Scored:
        """Scores a checkpoint, using `metrics`, by the label of the part, for its outputs."""
        step = self.run.restore_weights(self._model, checkpoint)
        engine = self._engine(checkpoint)
        scored = []
        for part in parts_of(self.run.problem, split, data_dir=self._data_dir):
            names = output_metrics(metrics.get(part.label, ()))  # none: another problem's part
            scored.append(self._scored(part, split, engine, names))
        return _Scored(checkpoint, step, scored)

    def _scored(
        self, part: Part, split: str, engine: Engine, metrics: Sequence[str]
    ) -> _ScoredPart:
        """Scores the checkpoint whose weights the model and the engine have."""
        hparams = self.run.hparams
        paths = part.problem.existing_filepaths(self._data_dir, split)
        batches = eval_dataset(
            paths,
            BatchingScheme.from_hparams(hparams, training=False),
            ExampleReader.of(part.problem, hparams),
            parts=self._strategy.num_replicas_in_sync,
        )
        decoder = Decoder(engine, part.problem)
        with naming_bad_file(paths, part.problem.float_sides):
            values = self._teacher_forced(batches)
            decodes = decode_examples(decoder, paths, part.labelled(f"{split} example"))
            # A language model's texts are not decoded, but its loss is of them.
            references = decodes.references or read_examples(decoder, paths)[1]
        by_metric = decodes.score(metrics)
        for score in by_metric.values():
            values |= score.values
        return _ScoredPart(part, values, by_metric, references, decodes)

    def _engine(self, checkpoint: str) -> Engine:
        """Returns the engine of a checkpoint, whose weights the model has."""
        if self._engine_name == CTRANSLATE2:
            engine = (self._engine_name, self._compute_type)
            return Decoder.from_run(self.run, checkpoint, self._hparams, (), *engine).engine
        if self._decoding_model is not self._model:
            copy_weights(self._model, self._decoding_model)
        self._tensorflow.names = [checkpoint]
        return self._tensorflow

    @functools.cached_property
    def _decoding_model(self) -> Seq2Seq:
        """The model, or a copy in the type to decode in."""
        if not self._hparams.dtype:
            return self._model
        with on_device(self._devices[0]):
            return empty_copy(self._model, self._hparams.dtype)

    @functools.cached_property
    def _tensorflow(self) -> TensorFlowEngine:
        """The engine, compiled once for all checkpoints."""
        encoders = self.run.encoders
        return TensorFlowEngine(self._decoding_model, encoders, self._hparams, self._devices)

    @property
    def _devices(self) -> Sequence[str]:
        return self._strategy.extended.worker_devices
