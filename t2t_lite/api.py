"""What `import t2t_lite` offers: generate data, train, open a run, translate, evaluate.

The commands call the same functions. TensorFlow is imported only when needed.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite import registry
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import TMP_DIR, DatagenOptions
from t2t_lite.data.problem import SPLITS, DatasetSplit, Problem
from t2t_lite.decoding.config import FLOAT32, TENSORFLOW
from t2t_lite.errors import UsageError, UserError, did_you_mean, quoted
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.progress import shown_progress
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.settings import to_assignments
from t2t_lite.training.config import TrainerConfig

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from t2t_lite.decoding.translator import Translator
    from t2t_lite.models.seq2seq import Seq2Seq
    from t2t_lite.search.parts import SearchPart
    from t2t_lite.training.callbacks import Callback

_SPLITS = SPLITS | {"eval": DatasetSplit.EVAL}


# What names a checkpoint of a run: see `Run`.
CheckpointName = str | int | pathlib.Path


class Run(run_folder.RunFolder):
    """A trained model in its run folder: settings, problem, encoders, checkpoints.

    Returned by `open_run`. To name a checkpoint, give `newest`, `best`, `averaged`, a number of
    updates, a file name in the folder, or a path.
    """

    def checkpoint(self, name: CheckpointName = "newest") -> str:
        """Returns the path prefix of a checkpoint.

        Raises:
            UserError: there is no such checkpoint, or it belongs to another run.
        """
        from t2t_lite.runs.checkpoint_names import named_checkpoint

        path = named_checkpoint(_expanded(str(name)), str(self.folder))
        other = pathlib.Path(path).parent
        if run_folder.is_run(other) and other.resolve() != self.folder.resolve():
            raise UserError(f"{path} belongs to another run: use t2t_lite.open_run({str(other)!r})")
        return path

    def model(self, checkpoint: CheckpointName = "newest") -> "Seq2Seq":
        """Builds the Keras model with the weights of a checkpoint.

        Raises:
            UserError: the checkpoint is missing, or does not fit the model.
        """
        return self.load_model(self.checkpoint(checkpoint)).model

    def translator(
        self,
        checkpoint: CheckpointName = "newest",
        search: "str | Sequence[SearchPart]" = "",
        engine: str = TENSORFLOW,
        compute_type: str = FLOAT32,
        quality_run: str | pathlib.Path = "",
        **decode_hparams: Any,
    ) -> "Translator":
        """Returns a function from text to text.

        Args:
            checkpoint: the checkpoint with the weights.
            search: constraints, and at most one penalty or sampler, of your own: as objects, or
                their registered names joined by +.
            engine: "tensorflow", or "ctranslate2", which is faster on most processors, for
                Transformers alone; it keeps an export of the checkpoint in the run folder.
            compute_type: what CTranslate2 computes in: "float32", "int8"..., or "auto": the fastest
                one that the processor has instructions for.
            quality_run: run folder of a quality model, which tells the `confidence` of each
                `Translation`; "": none.
            **decode_hparams: changes to the problem's search settings, such as `beam_size=8`;
                the names are those of `--decode_hparams`.

        Raises:
            UserError: the checkpoint is missing, or does not fit the model.
            UsageError: a search setting is unknown, has an invalid value, or no counterpart in the
                engine.
        """
        from t2t_lite.decoding.decoder import Decoder
        from t2t_lite.decoding.loading import opened_quality
        from t2t_lite.decoding.translator import Translator

        parts: Sequence[SearchPart] = ()
        if isinstance(search, str):
            decode_hparams |= {"search": search} if search else {}
        else:
            parts = search
        hparams = DecodeHParams.of(self).copy(**decode_hparams)
        decoder = Decoder.from_run(
            *(self, self.checkpoint(checkpoint), hparams, parts, engine, compute_type),
            quality=opened_quality(_expanded(quality_run) if quality_run else ""),
        )
        return Translator(decoder)


def open_run(output_dir: str | pathlib.Path) -> Run:
    """Opens a run folder; reads its settings, but no weights yet.

    Raises:
        UserError: the folder is not a run folder, or one of its files cannot be read.
    """
    return Run.open(_expanded(output_dir))


def load_model(path: str | pathlib.Path, **arguments: Any) -> "keras.Model":
    """Loads a `.keras` file, whichever of this package's models and layers are in it.

    Unlike `keras.models.load_model`, it needs no class of this package to be imported before.

    Args:
        path: the file.
        **arguments: see `keras.models.load_model`.

    Raises:
        UserError: there is no such file, it is of another kind, or Keras cannot build its model.
        DataError: it is damaged or truncated.
    """
    from t2t_lite.models import keras_files

    path = _expanded(path)
    if run_folder.is_run(pathlib.Path(path)):
        raise UserError(f"{path} is a run folder: use t2t_lite.open_run({path!r}).model()")
    registry.import_models()
    return keras_files.load(path, **arguments)


def generate_data(
    problem: str | Problem,
    *,
    data_dir: str | pathlib.Path,
    tmp_dir: str | pathlib.Path = TMP_DIR,
    **options: Any,
) -> None:
    """Generates the vocabulary and TFRecord files of a problem, keeping existing ones.

    Args:
        problem: a registered name, or a `Problem`.
        data_dir: folder of the results; created if missing.
        tmp_dir: folder of the raw files; created if missing. Downloads go there.
        **options: the fields of `DatagenOptions`, such as `num_workers=4`.

    Raises:
        UsageError: the name is not registered.
        UserError: a raw file cannot be obtained, existing files were generated from other data,
            or another process is generating them.
        DataError: the raw data is unusable.
    """
    problem = _problem(problem)
    settings = DatagenOptions(**_known(DatagenOptions, options))
    folders = _expanded(data_dir), _expanded(tmp_dir)
    for name, folder in zip(("data_dir", "tmp_dir"), folders, strict=True):
        if not folder:  # would be the folder in which the program was started
            raise UsageError(f"{name} is empty: name a folder")
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with shown_progress():
        generator.generate_data(problem, *folders, settings)


def train(
    *,
    problem: str | Problem,
    model: str,
    hparams_set: str,
    data_dir: str | pathlib.Path,
    output_dir: str | pathlib.Path,
    hparams: str | Mapping[str, Any] = "",
    decode_hparams: str | Mapping[str, Any] = "",
    callbacks: "str | Sequence[Callback]" = "",
    **settings: Any,
) -> Run:
    """Trains a model, or resumes from the newest checkpoint in `output_dir`.

    Log lines show the progress, unless the program has configured logging itself.

    Args:
        problem: a registered name, or a registered `Problem`.
        model: a registered name.
        hparams_set: a registered name.
        data_dir: folder that `generate_data` filled.
        output_dir: run folder; created if missing.
        hparams: changes to the set, as a mapping or as `"name=value,..."`.
        decode_hparams: changes to the search settings of evaluations, in the same forms.
        callbacks: told the metrics of progress lines and evaluations: objects of classes derived
            from `Callback`, or the registered names of such classes, separated by commas.
        **settings: the other fields of `TrainerConfig`, such as `train_steps=1500`.

    Returns:
        The run.

    Raises:
        UsageError: a name or setting is unknown, or a value is invalid.
        UserError: the data or the run folder is unusable, or a callback failed.
    """
    from t2t_lite.training import trainer

    if isinstance(hparams, Mapping):
        hparams = to_assignments(registry.hparams(hparams_set).copy(**hparams), hparams)
    if isinstance(decode_hparams, Mapping):
        changed = DecodeHParams().copy(**decode_hparams)
        decode_hparams = to_assignments(changed, decode_hparams)
    config = TrainerConfig(
        data_dir=str(data_dir),
        output_dir=str(output_dir),
        problem=problem if isinstance(problem, str) else _problem(problem).name,
        model=model,
        hparams_set=hparams_set,
        hparams=hparams,
        decode_hparams=decode_hparams,
        callbacks=callbacks if isinstance(callbacks, str) else "",
        **_known(TrainerConfig, settings),
    )
    with shown_progress():
        trainer.run(config, () if isinstance(callbacks, str) else callbacks)
    return open_run(output_dir)


def evaluate(
    run: Run | str | pathlib.Path,
    checkpoint: CheckpointName = "newest",
    *,
    split: str = "dev",
    metrics: Sequence[str] = (),
    data_dir: str | pathlib.Path = "",
    **decode_hparams: Any,
) -> dict[str, float | int | str]:
    """Scores a checkpoint on a whole split, as `t2t-eval` does.

    Args:
        run: the run, or its folder.
        checkpoint: the checkpoint to score, as in `Run.checkpoint`.
        split: train, dev, test or, where a problem has it, unseen.
        metrics: names of registered metrics, or `command:PROGRAM` (default: the problem's own).
        data_dir: folder that `generate_data` filled (default: the one used in training).
        **decode_hparams: changes to the problem's search settings.

    Returns:
        The scores by name, including loss, perplexity and accuracy; for a mixture, the means
        ("bleu") and those of its members ("bleu__de").

    Raises:
        UsageError: a split, metric or search setting is unknown.
        UserError: the checkpoint or the data is missing.
    """
    from t2t_lite.training import checkpoint_evaluation, devices

    if isinstance(metrics, str):  # whose letters would be the names
        raise UsageError(f"metrics={metrics!r}: expected a list of names, such as [{metrics!r}]")
    dataset_split = _split(split)
    run = run if isinstance(run, Run) else open_run(run)
    hparams = DecodeHParams.of(run).copy(**decode_hparams)
    with shown_progress():
        (scores,) = checkpoint_evaluation.score_checkpoints(
            [run.checkpoint(checkpoint)],
            devices.make_strategy(None),
            dataset_split,
            _expanded(data_dir),
            to_assignments(hparams, decode_hparams),
            metrics,
        )
    return scores.values


def dataset(
    problem: str | Problem,
    split: str = "train",
    *,
    data_dir: str | pathlib.Path,
    seed: int = 0,
    repeat: bool = False,
    **hparams: Any,
) -> "tf.data.Dataset":
    """Returns batches for `keras.Model.fit`, `evaluate` and `predict`.

    Sentences of similar length share a batch. The training split is reshuffled each time that the
    dataset is iterated; pairs with a side of more than `max_length` subwords are left out. Other
    splits are complete and have a fixed order.

    An iteration is one epoch. An epoch of a mixture's training split has as many examples as the
    files of all members together. Each example is of a member that is drawn by the weights, so that
    some examples of a member come several times in an epoch, or not at all.

    Args:
        problem: a registered name, or a `Problem`.
        split: train, dev, test or, where a problem has it, unseen.
        data_dir: folder that `generate_data` filled.
        seed: seed of the shuffling.
        repeat: whether epochs follow each other without end; `fit` then needs `steps_per_epoch`.
        **hparams: the hparams that batches depend on, such as `batch_size=4096` (subwords),
            `max_length=256` and `bpe_dropout=0.1`.

    Returns:
        A dataset of `({"inputs": [B, S], "targets": [B, T]}, targets [B, T], weights [B, T])`; ids
        are int32, 0 at padding, where the weights, float32, are 0. Of texts with N numbers,
        `({"inputs": [B, S]}, numbers [B, N], weights [B])`, where numbers and weights are float32.

    Raises:
        UsageError: a name is unknown, a hparam is one of the model's, or hparams contradict each
            other.
        UserError: a data file is missing.
        DataError: the training data lacks the alignments that a hparam needs, or has no example
            that the hparams keep.
    """
    import tensorflow as tf

    from t2t_lite.data.batching import BatchingScheme
    from t2t_lite.data.example_reader import ExampleReader
    from t2t_lite.data.input_pipeline import eval_dataset
    from t2t_lite.data.number_ids import numbers_of_ids
    from t2t_lite.training.training_data import TrainingData

    dataset_split = _split(split)
    problem, settings = _problem(problem), BasicHParams().copy(**hparams)
    if others := [name for name in hparams if name not in BasicHParams.of_batches]:
        raise UsageError(
            f"hparam {others[0]!r} does not change batches: give it to the model or its training; "
            f"dataset takes {', '.join(BasicHParams.of_batches)}"
        )
    folder = _expanded(data_dir)
    if dataset_split == DatasetSplit.TRAIN:
        epochs = None if repeat else _next_epoch()
        training = TrainingData(problem, folder, settings, seed)
        training.require_examples()
        batches = training.batches(1, epochs)
    else:
        paths = problem.existing_filepaths(folder, dataset_split)
        scheme = BatchingScheme.from_hparams(settings, training=False)
        batches = eval_dataset(paths, scheme, ExampleReader.of(problem, settings), parts=1)
        batches = batches.repeat() if repeat else batches

    def weigh(features: dict[str, "tf.Tensor"]) -> tuple[Any, "tf.Tensor", "tf.Tensor"]:
        features = {name: ids[0] for name, ids in features.items()}  # [1, B, L] -> [B, L]
        targets = features["targets"]
        weights = tf.cast(targets != 0, tf.float32)
        if problem.has_numbers:  # each text has as many, and EOS
            return {"inputs": features["inputs"]}, numbers_of_ids(targets)[:, :-1], weights[:, 0]
        return features, targets, weights

    return batches.map(weigh)


def _next_epoch() -> "tf.data.Dataset":
    """Returns a dataset of one number, which is greater by one each time that it is iterated."""
    import tensorflow as tf

    with tf.device("CPU:0"):
        count = tf.Variable(-1, dtype=tf.int64)
    return tf.data.Dataset.from_tensors(0).map(lambda _: count.assign_add(1))


def _expanded(path: str | pathlib.Path) -> str:
    """Returns a path in which `~` is the home folder, as in flags."""
    return os.path.expanduser(path)


def _split(name: str) -> str:
    """Returns the split of that name.

    Raises:
        UsageError: there is no such split.
    """
    if name not in _SPLITS:
        raise UsageError(f"split {name!r}: expected {', '.join(SPLITS)}")
    return _SPLITS[name]


def _problem(problem: str | Problem) -> Problem:
    """Returns the problem of that name, or the problem itself.

    Raises:
        UsageError: the name is not registered, or it is neither.
    """
    if isinstance(problem, str):
        return registry.problem(problem)
    if isinstance(problem, Problem):
        return problem
    is_class = isinstance(problem, type) and issubclass(problem, Problem)
    remedy = f"; make one: {problem.__name__}()" if is_class else ""
    raise UsageError(
        f"problem={quoted(problem)}: expected a registered name or an object of a class derived "
        f"from Problem{remedy}"
    )


def _known(config: type, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the settings after checking their names.

    Raises:
        UsageError: a name is not a field of the dataclass; the message suggests the nearest.
    """
    names = [field.name for field in dataclasses.fields(config)]
    for name in settings:
        if name not in names:
            raise UsageError(f"unknown setting {name!r}{did_you_mean(name, names)}")
    return settings
