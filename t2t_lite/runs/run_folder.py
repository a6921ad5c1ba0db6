"""The run folder (`--output_dir`): everything needed to resume training or to decode.

hparams.json     the resolved hyperparameters
flags.json       the problem, model and hparams set, and the other settings of the trainer
versions.json    releases of this package and of its main dependencies
vocab.*          a copy of the vocabulary
model.ckpt-N.*   checkpoints after N updates, listed in `checkpoint`
best.ckpt-N.*    checkpoints with the best evaluations, kept when others are deleted
averaged.ckpt-N.*  averages of several checkpoints, only for decoding
engines/         exports of checkpoints by which other engines decode; may be deleted
metrics.jsonl    one line for every log line and evaluation
summary.json     the cost of the run: steps, tokens, time, operations
eval/, eval_train/, decode/  what processes beside the trainer made of each checkpoint
followers/       what they have finished with, for the trainer: see followers.py
"""

import contextlib
import dataclasses
import logging
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

from t2t_lite import json_files, registry
from t2t_lite.errors import UsageError, UserError, quoted
from t2t_lite.runs import checkpoint_files
from t2t_lite.runs.metrics_jsonl import METRICS
from t2t_lite.runs.run_settings import RunSettings

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem
    from t2t_lite.hparams.basic import BasicHParams
    from t2t_lite.models.seq2seq import Seq2Seq
    from t2t_lite.text.text_encoder import TextEncoder

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

HPARAMS, FLAGS, VERSIONS = "hparams.json", "flags.json", "versions.json"
SUMMARY = "summary.json"
_LONGEST_TRAINING = 1e12  # seconds


class LoadedModel(NamedTuple):
    """A model with the weights of a checkpoint."""

    model: "Seq2Seq"
    step: int
    checkpoint: str  # the prefix of its files


@dataclasses.dataclass(frozen=True, repr=False)
class RunFolder:
    """An opened run folder."""

    folder: pathlib.Path
    settings: RunSettings
    hparams: "BasicHParams"
    problem: "Problem"

    def __repr__(self) -> str:
        what = f"{self.model_name} with {self.hparams_set} for {self.problem.name}"
        return f"<{type(self).__name__} {str(self.folder)!r}: {what}>"

    @classmethod
    def open(cls, output_dir: str) -> Self:
        """Opens a run folder that t2t-trainer has created.

        Raises:
            UserError: it is not a run folder, or one of its files cannot be read.
        """
        folder = pathlib.Path(output_dir)
        settings = _read_run_settings(output_dir)
        try:
            hparams_class = _hparams_class(settings.model, settings.hparams_set)
            problem = registry.problem(settings.problem)
        except UsageError as error:
            raise UsageError(f"{folder / FLAGS}: {error}") from error
        try:
            hparams = hparams_class.from_dict(_read_json(folder / HPARAMS, output_dir))
        except UsageError as error:
            raise UserError(f"{folder / HPARAMS}: {error}") from error
        return cls(folder, settings, hparams.freeze(), problem)

    @property
    def model_name(self) -> str:
        """The registered name of its model."""
        return self.settings.model

    @property
    def hparams_set(self) -> str:
        """The name of the set that its hyperparameters come from."""
        return self.settings.hparams_set

    @property
    def data_dir(self) -> str:
        """The folder of its training data.

        Raises:
            UserError: flags.json does not name it.
        """
        return known(self.folder, "data_dir", self.settings.data_dir)

    @property
    def random_seed(self) -> int:
        """The seed of weights, data order and dropout.

        Raises:
            UserError: flags.json lacks it.
        """
        return known(self.folder, "random_seed", self.settings.random_seed)

    @property
    def parts(self) -> int:
        """W, the parts of a batch.

        Raises:
            UserError: flags.json lacks it.
        """
        return known(self.folder, "parts", self.settings.parts)

    @property
    def decode_hparams(self) -> str:
        """Changes to the defaults of `--decode_hparams`: an imported model's, then the problem's.

        Where both set the same, the problem's is left.
        """
        published = self.settings.published_decode_hparams
        both = ",".join(filter(None, (published, self.problem.decode_hparams))).split(",")
        return ",".join({one.partition("=")[0].strip(): one for one in both}.values())

    @property
    def encoders(self) -> "dict[str, TextEncoder]":
        """The encoders of `inputs` and `targets`, with the vocabularies in the folder.

        Raises:
            UserError: a vocabulary is missing.
        """
        self.vocabulary()
        return self.problem.get_feature_encoders(str(self.folder))

    def vocabulary(self) -> list[pathlib.Path]:
        """Returns the files of the vocabulary.

        Raises:
            UserError: one is missing.
        """
        paths = [self.folder / name for name in self.problem.vocab_files()]
        for path in paths:
            if not path.is_file():
                raise UserError(
                    f"{path}, the vocabulary that this run was trained with, is "
                    f"missing: copy it from --data_dir={self.settings.data_dir or '...'}"
                )
        return paths

    def build_model(self) -> "Seq2Seq":
        """Builds the model, freshly initialised, for the vocabularies in the folder.

        Raises:
            UserError: a vocabulary is missing.
        """
        encoders = self.encoders
        return registry.model(self.model_name)(
            self.hparams, encoders["inputs"].vocab_size, encoders["targets"].vocab_size
        )

    def load_model(self, checkpoint: str | None = None, dtype: str = "") -> LoadedModel:
        """Builds the model with the weights of a checkpoint, by default the newest readable one.

        Args:
            checkpoint: its prefix.
            dtype: what the model computes in and stores its weights in, for decoding only; "": as
                in training.

        Raises:
            UserError: as for `build_model` and `restore_weights`.
        """
        from t2t_lite.layers.base import without_initial_values
        from t2t_lite.models.copies import in_dtype

        with without_initial_values():
            model = self.build_model()
        step, path = self._restore(model, checkpoint)
        return LoadedModel(in_dtype(model, dtype) if dtype else model, step, path)

    def refuse_other_vocabulary(self, data_dir: str) -> None:
        """Compares the vocabularies in the folder with those that exist in `data_dir`.

        Raises:
            UserError: one differs, so that the ids in the data stand for other subwords; or the run
                lacks one.
        """
        for name, own in zip(self.problem.vocab_files(), self.vocabulary(), strict=True):
            other = pathlib.Path(data_dir, name)
            if other.is_file() and own.read_bytes() != other.read_bytes():
                raise UserError(
                    f"{own}, which this run was trained with, differs from {other}; use the "
                    "run's own --data_dir, or decode from text with --decode_from_file"
                )

    def latest_checkpoint(self) -> str:
        """Returns the prefix of the newest readable checkpoint.

        Raises:
            UserError: there is no checkpoint yet, or none can be read.
        """
        return self._newest(checkpoint_files.read_all)

    def restore_weights(self, model: "Seq2Seq", checkpoint: str | None = None) -> int:
        """Reads the weights of `model` from a checkpoint, by default the newest readable one.

        With the hparam `ema_decay`, reads the moving averages of the weights.

        Returns:
            The step of the checkpoint.

        Raises:
            UserError: the checkpoint is missing, cannot be read, or does not fit the model.
        """
        return self._restore(model, checkpoint)[0]

    def _restore(self, model: "Seq2Seq", checkpoint: str | None) -> tuple[int, str]:
        """Does what `restore_weights` does; also returns the prefix of the checkpoint."""
        import tensorflow as tf

        step = tf.Variable(0, dtype=tf.int64)
        saved = tf.train.Checkpoint(model=model, step=step)

        def read(path: str) -> None:
            # Not `restore`, which requires the save counter: averages have none.
            saved.read(path).expect_partial().assert_existing_objects_matched()
            if self.hparams.ema_decay and checkpoint_files.has_optimizer(path):
                _read_moving_averages(model, path)

        if checkpoint is None:
            checkpoint = self._newest(read)
        elif not checkpoint_files.is_whole(checkpoint):
            raise UserError(
                f"checkpoint {checkpoint} does not exist: {checkpoint}.index is missing"
            )
        elif reason := checkpoint_files.unreadable(checkpoint, read):
            raise UserError(f"checkpoint {checkpoint} cannot be read: {reason}")
        return int(step.numpy()), checkpoint  # `int(step)` fails under a strategy

    def own_files(self) -> list[pathlib.Path]:
        """Returns the files of the run, which no command's output may replace."""
        return [*own_files(self.folder), *(self.folder / n for n in self.problem.vocab_files())]

    def _newest(self, read: Callable[[str], None]) -> str:
        path = checkpoint_files.read_newest(self.folder, read)
        if path is None:
            raise UserError(f"{self.folder} holds no checkpoint yet; train first (t2t-trainer)")
        return path


def _read_moving_averages(model: "Seq2Seq", path: str) -> None:
    """Gives a model the moving averages of its weights from a checkpoint of training.

    Keras's optimizers know under which name they keep them; one without moments has nothing else
    for each weight.
    """
    import keras
    import tensorflow as tf

    rate = keras.optimizers.schedules.ExponentialDecay(0.0, 1, 1.0)  # no variable, as in training
    optimizer = keras.optimizers.SGD(rate, use_ema=True)
    weights = model.trainable_variables
    optimizer.build(weights)
    saved = tf.train.Checkpoint(optimizer=optimizer)
    saved.read(path).expect_partial().assert_existing_objects_matched()
    # Not `finalize_variable_values`, which fails under a strategy.
    for weight, average in zip(weights, optimizer.variables[-len(weights) :], strict=True):
        weight.assign(keras.ops.convert_to_numpy(average))


def own_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Like `RunFolder.own_files`, for a folder that cannot be opened.

    Finds vocabularies by their usual names, and includes settings that do not exist yet.
    """
    settings = (HPARAMS, FLAGS, VERSIONS, METRICS, SUMMARY, "checkpoint")
    patterns = ("vocab.*", "*.ckpt-*.index", "*.ckpt-*.data-*", "events.out.tfevents.*")
    there = (path for pattern in patterns for path in folder.glob(pattern))
    return [*(folder / name for name in settings), *there]


def release(folder: pathlib.Path) -> str:
    """Returns the release of t2t_lite that last trained a run, for messages."""
    path = folder / VERSIONS
    versions = _read_json(path, str(folder)) if path.is_file() else {}
    return str(versions.get("t2t_lite", "unknown"))


def read_run_settings(output_dir: str) -> RunSettings | None:
    """Returns the settings of a run; None if the folder is not a run folder yet."""
    return _read_run_settings(output_dir) if is_run(pathlib.Path(output_dir)) else None


def known(folder: pathlib.Path, name: str, value: _Value | None) -> _Value:
    """Returns a setting that is in the flags.json of every run.

    Raises:
        UserError: it is None: the file lacks it.
    """
    if value is None:
        raise UserError(f"{folder / FLAGS} has no field {name!r}: restore the file from a copy")
    return value


def read_settings(output_dir: str) -> dict[str, Any]:
    """Returns all flags and hyperparameters of a run, by name, without building anything."""
    folder = pathlib.Path(output_dir)
    hparams = _read_json(folder / HPARAMS, output_dir)
    return _read_run_settings(output_dir).flags() | hparams


def read_summary(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the non-negative numbers in summary.json; none if there is no such file.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / SUMMARY
    if not path.is_file():
        return json_files.Fields(path, {})
    summary = _read_json(path, str(folder))
    for name, value in summary.items():
        largest = _LONGEST_TRAINING if name == "train_seconds" else math.inf
        if not (json_files.is_number(value) and 0 <= value <= largest and math.isfinite(value)):
            raise UserError(
                f"{path}: expected a plausible cost for {name!r}, got {quoted(value)}; restore "
                "the file from a backup, or delete it to count from 0"
            )
    return summary


def is_run(folder: pathlib.Path) -> bool:
    """Whether a folder is a run folder."""
    return (folder / FLAGS).is_file()


def _hparams_class(model: str, hparams_set: str) -> "type[BasicHParams]":
    """Returns the class of a run's hparams; without importing Keras if the set is registered."""
    registry.require_model(model)
    if hparams_set in registry.list_hparams():
        return type(cast("BasicHParams", registry.hparams(hparams_set)))
    return registry.model(model).hparams_class


def _read_run_settings(output_dir: str) -> RunSettings:
    path = pathlib.Path(output_dir) / FLAGS
    with _naming_missing(path, output_dir):
        return RunSettings.read(path)


def _read_json(path: pathlib.Path, output_dir: str) -> json_files.Fields:
    with _naming_missing(path, output_dir):
        return json_files.read_object(path)


@contextlib.contextmanager
def _naming_missing(path: pathlib.Path, output_dir: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{output_dir or 'an empty name'} is not a run folder: {path} is missing (t2t-trainer "
            "creates it)"
        ) from None
