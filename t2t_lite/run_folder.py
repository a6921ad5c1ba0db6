"""The run folder (`--output_dir`): all that is needed to go on training or to decode.

hparams.json     the resolved hyperparameters
flags.json       the problem, model and hparams set, and the other settings of the trainer
versions.json    releases of this package and of what it computes with
vocab.*          a copy of the vocabulary
model.ckpt-N.*   checkpoints after N updates; `checkpoint` lists them
metrics.jsonl    one line for every log line and evaluation
"""

import dataclasses
import importlib.metadata
import json
import pathlib
import platform
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite import files, registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.version import __version__

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem
    from t2t_lite.hparams.basic import BasicHParams
    from t2t_lite.models.seq2seq import Seq2Seq

HPARAMS, FLAGS, VERSIONS = "hparams.json", "flags.json", "versions.json"
CHECKPOINT_NAME = "model.ckpt"
_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "sacrebleu", "numpy")


@dataclasses.dataclass(frozen=True)
class Run:
    """An opened run folder."""

    folder: pathlib.Path
    model_name: str
    hparams_set: str
    hparams: "BasicHParams"
    problem: "Problem"
    flags: Mapping[str, Any]  # the trainer's other settings, by name

    def build_model(self) -> "Seq2Seq":
        """Builds the model, freshly initialised, for the vocabularies in the folder."""
        encoders = self.problem.get_feature_encoders(str(self.folder))
        return registry.model(self.model_name)(
            self.hparams, encoders["inputs"].vocab_size, encoders["targets"].vocab_size
        )

    def refuse_other_vocabulary(self, data_dir: str) -> None:
        """Compares the vocabularies in the folder with those of `data_dir` that are there.

        Raises:
            UserError: one differs, so that the ids of the data mean other words.
        """
        for name in self.problem.vocab_files():
            own, other = self.folder / name, pathlib.Path(data_dir, name)
            if other.is_file() and own.read_bytes() != other.read_bytes():
                raise UserError(
                    f"{own}, which this run was trained with, differs from {other}; name the "
                    "run's own --data_dir, or decode from text with --decode_from_file"
                )

    def latest_checkpoint(self) -> str:
        """Returns the prefix of the newest checkpoint.

        Raises:
            UserError: there is none yet.
        """
        import tensorflow as tf

        path = tf.train.latest_checkpoint(str(self.folder))
        if path is None:
            raise UserError(f"{self.folder} holds no checkpoint yet; train first (t2t-trainer)")
        return path

    def restore_weights(self, model: "Seq2Seq", checkpoint: str | None = None) -> int:
        """Reads the weights of `model` from a checkpoint, by default the newest.

        Returns:
            The number of updates that the checkpoint was saved after.

        Raises:
            UserError: the file is missing, or does not fit the model.
        """
        import tensorflow as tf

        path = checkpoint or self.latest_checkpoint()
        if not pathlib.Path(path + ".index").is_file():
            raise UserError(f"checkpoint {path} is not there: {path}.index is missing")
        step = tf.Variable(0, dtype=tf.int64)
        try:
            saved = tf.train.Checkpoint(model=model, step=step)
            # Not `restore`, which wants the counter of saves, too: an average has none.
            saved.read(path).expect_partial().assert_existing_objects_matched()
        except (ValueError, AssertionError, tf.errors.OpError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"checkpoint {path} does not fit model {self.model_name!r} with the "
                f"vocabulary and {HPARAMS} in {self.folder}: {reason}"
            ) from error
        return int(step)


def read_flags(output_dir: str) -> dict[str, Any] | None:
    """Returns the settings that a run folder was made with; None if it is not one yet."""
    path = pathlib.Path(output_dir) / FLAGS
    return _read_json(path, output_dir) if path.is_file() else None


def open_run(output_dir: str) -> Run:
    """Opens a run folder that a trainer has made.

    Raises:
        UserError: it is none, or one of its files cannot be read.
    """
    folder = pathlib.Path(output_dir)
    flags = _read_json(folder / FLAGS, output_dir)
    model_class = registry.model(flags["model"])
    try:
        hparams = model_class.hparams_class.from_dict(_read_json(folder / HPARAMS, output_dir))
    except UsageError as error:
        raise UserError(f"{folder / HPARAMS}: {error}") from error
    return Run(
        folder=folder,
        model_name=flags["model"],
        hparams_set=flags["hparams_set"],
        hparams=hparams.freeze(),
        problem=registry.problem(flags["problem"]),
        flags=flags,
    )


def create_run(flags: Mapping[str, Any], hparams: "BasicHParams", data_dir: str) -> Run:
    """Makes a run folder, or opens the one that is there if it was made for the same task.

    Args:
        flags: the trainer's settings; must hold output_dir, problem, model and hparams_set.
        hparams: the resolved hyperparameters.
        data_dir: where the vocabulary is copied from.

    Raises:
        UserError: the vocabulary is missing, or the folder holds a run of another problem, model,
            vocabulary or other hyperparameters.
    """
    folder = pathlib.Path(flags["output_dir"])
    problem = registry.problem(flags["problem"])
    problem.get_feature_encoders(data_dir)  # a vocabulary that cannot be read leaves no folder
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / FLAGS).is_file():
        _refuse_another_run(open_run(str(folder)), flags, hparams)
    for name in problem.vocab_files():
        _copy_vocabulary(pathlib.Path(data_dir) / name, folder / name)
    files.write_text(folder / HPARAMS, hparams.to_json())
    files.write_text(folder / VERSIONS, json.dumps(_versions(), indent=1) + "\n")
    # Last: a folder that has this file has all the others.
    files.write_text(folder / FLAGS, json.dumps(dict(flags), indent=1) + "\n")
    return open_run(str(folder))


def _refuse_another_run(old: Run, flags: Mapping[str, Any], hparams: "BasicHParams") -> None:
    differences = [
        f"{name}: {was!r} != {flags[name]!r}"
        for name, was in (
            ("problem", old.problem.name),
            ("model", old.model_name),
            ("hparams_set", old.hparams_set),
        )
        if was != flags[name]
    ] or old.hparams.differences(hparams)
    if differences:
        raise UserError(
            f"{old.folder} holds a run with other settings (there != now): "
            f"{'; '.join(differences)}. Name another --output_dir, or repeat the old settings"
        )


def _copy_vocabulary(source: pathlib.Path, copy: pathlib.Path) -> None:
    if copy.is_file():
        if copy.read_bytes() != source.read_bytes():
            raise UserError(
                f"{copy}, which this run was trained with, differs from {source}: "
                "name the run's own --data_dir, or another --output_dir"
            )
        return
    with files.whole_file(copy) as temporary:
        shutil.copyfile(source, temporary)


def _read_json(path: pathlib.Path, output_dir: str) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{output_dir} is no run folder: {path} is missing (t2t-trainer makes it)"
        ) from None
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}") from error


def _versions() -> dict[str, str]:
    versions = {"t2t_lite": __version__, "python": platform.python_version()}
    return versions | {name: importlib.metadata.version(name) for name in _PACKAGES}
