"""The run folder (`--output_dir`): all that is needed to go on training or to decode.

hparams.json     the resolved hyperparameters
flags.json       the problem, model and hparams set, and the other settings of the trainer
versions.json    releases of this package and of what it computes with
vocab.*          a copy of the vocabulary
model.ckpt-N.*   checkpoints after N updates; `checkpoint` lists them
best.ckpt-N.*    those with the best evaluations, which stay when the others go
averaged.ckpt-N.*  means of several, for decoding alone
metrics.jsonl    one line for every log line and evaluation
summary.json     what the run has cost: steps, tokens, time, operations
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import logging
import math
import os
import pathlib
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite import files, json_files, registry
from t2t_lite.errors import UsageError, UserError, first_line, quoted
from t2t_lite.lock import locked
from t2t_lite.version import __version__

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem
    from t2t_lite.hparams.basic import BasicHParams
    from t2t_lite.models.seq2seq import Seq2Seq

log = logging.getLogger(__name__)

HPARAMS, FLAGS, VERSIONS = "hparams.json", "flags.json", "versions.json"
METRICS, SUMMARY = "metrics.jsonl", "summary.json"
CHECKPOINT_NAME = "model.ckpt"
INFERENCE_ONLY = "inference_only"  # in checkpoints that training cannot go on from
CHECKPOINT_INDEX = ".index"  # the file that is written last, and deleted first
_CHECKPOINT_FILE = re.compile(
    rf"({re.escape(CHECKPOINT_NAME)}-[0-9]+)\.(index|data-[0-9]{{5}}-of-[0-9]{{5}})"
)
# A line of metrics.jsonl that is longer is none of ours; only values of such names are text.
_LONGEST_RECORD = 1 << 20
_TEXT_SUFFIX = "_signature"
_LONGEST_TRAINING = 1e12  # seconds
# Types of the flags that are read again.
_FLAG_KINDS = {
    "problem": str,
    "model": str,
    "hparams_set": str,
    "data_dir": str,
    "best_metric": str,
    "random_seed": int,
    "parts": int,
}
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
        """Builds the model, freshly initialised, for the vocabularies in the folder.

        Raises:
            UserError: a vocabulary is not there any more.
        """
        for name in self.problem.vocab_files():
            if not (self.folder / name).is_file():
                raise UserError(
                    f"{self.folder / name} is missing, the vocabulary that this run was trained "
                    f"with: copy it from --data_dir={self.flags.get('data_dir', '...')}"
                )
        encoders = self.problem.get_feature_encoders(str(self.folder))
        return registry.model(self.model_name)(
            self.hparams, encoders["inputs"].vocab_size, encoders["targets"].vocab_size
        )

    def load_model(self, checkpoint: str | None = None) -> tuple["Seq2Seq", int]:
        """Builds the model with the weights of a checkpoint, by default the newest readable one.

        Returns:
            The model; the number of updates that the checkpoint was saved after.

        Raises:
            UserError: as `build_model` and `restore_weights` do.
        """
        from t2t_lite.layers.base import without_initial_values

        with without_initial_values():
            model = self.build_model()
        return model, self.restore_weights(model, checkpoint)

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
        """Returns the prefix of the newest checkpoint that can be read.

        Raises:
            UserError: there is none yet, or none can be read.
        """
        return self._newest(_read_all)

    def restore_weights(self, model: "Seq2Seq", checkpoint: str | None = None) -> int:
        """Reads the weights of `model` from a checkpoint, by default the newest readable one.

        With the hparam `ema_decay` these are the moving averages.

        Returns:
            The number of updates that the checkpoint was saved after.

        Raises:
            UserError: the file is missing or cannot be read, or does not fit the model.
        """
        import tensorflow as tf

        step = tf.Variable(0, dtype=tf.int64)
        saved = tf.train.Checkpoint(model=model, step=step)
        # Keras's name for them; they are in the order of the weights.
        averages = {"_model_variables_moving_average": list(model.trainable_variables)}
        moving = tf.train.Checkpoint(optimizer=tf.train.Checkpoint(**averages))

        def read(path: str) -> None:
            # Not `restore`, which wants the counter of saves, too: an average has none.
            saved.read(path).expect_partial().assert_existing_objects_matched()
            if self.hparams.ema_decay and _has_optimizer(path):
                moving.read(path).expect_partial().assert_existing_objects_matched()

        if checkpoint is None:
            self._newest(read)
        elif not is_whole(checkpoint):
            raise UserError(f"checkpoint {checkpoint} is not there: {checkpoint}.index is missing")
        elif reason := _unreadable(checkpoint, read):
            raise UserError(f"checkpoint {checkpoint} cannot be read: {reason}")
        return int(step)

    def own_files(self) -> list[pathlib.Path]:
        """Returns the files that the run lives by, which no command's output may replace."""
        return [*own_files(self.folder), *(self.folder / n for n in self.problem.vocab_files())]

    def _newest(self, read: Callable[[str], None]) -> str:
        path = read_newest(self.folder, read)
        if path is None:
            raise UserError(f"{self.folder} holds no checkpoint yet; train first (t2t-trainer)")
        return path


@contextlib.contextmanager
def exclusive(output_dir: str) -> Iterator[None]:
    """Keeps a second trainer out of a run folder, which is made if missing, within the block.

    Raises:
        UserError: a trainer is at work there.
    """
    folder = pathlib.Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / ".trainer.lock", "t2t-trainer", f"is at work in {folder}"):
            yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is empty: nothing came of the run


def own_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns what `Run.own_files` does, if the vocabulary has its usual name.

    Of the settings those too that are not there yet.
    """
    settings = (HPARAMS, FLAGS, VERSIONS, METRICS, SUMMARY, "checkpoint")
    patterns = ("vocab.*", "*.ckpt-*.index", "*.ckpt-*.data-*", "events.out.tfevents.*")
    there = (path for pattern in patterns for path in folder.glob(pattern))
    return [*(folder / name for name in settings), *there]


def checkpoints(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of a run's checkpoints, torn ones included, by their steps.

    They are found by their files: the list in the file `checkpoint` may be torn itself.
    """
    paths = {
        str(path.with_name(found[1]))
        for path in folder.glob(f"{CHECKPOINT_NAME}-*")
        if (found := _CHECKPOINT_FILE.fullmatch(path.name))
    }
    return sorted(paths, key=step_of)


def is_whole(path: str) -> bool:
    """Whether all files of a checkpoint have been written, be they sound or not."""
    return os.path.isfile(path + CHECKPOINT_INDEX)


def split_checkpoints(text: str, output_dir: str = "") -> list[str]:
    """Splits the names of checkpoints at commas, except those in the path of one that is there.

    Args:
        text: what a flag was given; in each name, `~` is the home folder.
        output_dir: a run folder, where some of the names may be; may be empty.
    """
    names, parts = [], text.split(",")
    while parts:
        for count in range(len(parts), 0, -1):  # at last, the text up to the first comma
            name = os.path.expanduser(",".join(parts[:count]).strip())
            if is_whole(name) or is_whole(os.path.join(output_dir, name)):
                break
        names.append(name)
        del parts[:count]
    return list(filter(None, names))


def step_of(path: str) -> int:
    """Returns the updates before a checkpoint, by its name."""
    return int(path.rpartition("-")[2])


def read_newest(folder: pathlib.Path, read: Callable[[str], None]) -> str | None:
    """Reads the newest checkpoint; if it is torn or corrupt, says so and reads the one before it.

    Args:
        folder: the run folder.
        read: restores all of its variables from a prefix, which may be another name of the files.

    Returns:
        The prefix that was read; None if the folder holds no checkpoint.

    Raises:
        UserError: there are checkpoints, none of which can be read; or one holds other variables.
    """
    torn = []
    for path in reversed(checkpoints(folder)):
        reason = _unreadable(path, read)
        if reason is None:
            return path
        log.warning("skipping checkpoint %s, which cannot be read: %s", path, reason)
        torn.append(f"{path} ({reason})")
    if torn:
        raise UserError(
            f"no checkpoint in {folder} can be read: {'; '.join(torn)}. Bring one back from a "
            "copy, or begin anew in another --output_dir"
        )
    return None


def damage(path: str) -> str | None:
    """Reads all of a checkpoint; returns why it is torn or corrupt, None if it is neither."""
    return _unreadable(path, _read_all)


def _unreadable(path: str, read: Callable[[str], None]) -> str | None:
    """Reads a checkpoint; returns why its files are torn or corrupt, None if it has been read.

    Raises:
        UserError: the files are whole, but hold other variables.
    """
    with files.plain_prefix(path) as plain:
        return _reading_failed(path, plain, read)


def _reading_failed(path: str, plain: str, read: Callable[[str], None]) -> str | None:
    """Does what `_unreadable` does, by another name of the files."""
    import tensorflow as tf

    # TensorFlow raises IndexError where a file of values is too short.
    damage = (tf.errors.OpError, IndexError)
    try:
        read(plain)
    except (*damage, ValueError, AssertionError) as error:
        try:
            _read_all(plain)
        except damage as found:
            return first_line(found).replace(plain, path)
        raise UserError(
            f"checkpoint {path} does not fit the model, {HPARAMS} and vocabulary of this run: name "
            "another checkpoint, or bring back the files that it was trained with "
            f"({first_line(error)})"
        ) from error
    return None


def _has_optimizer(path: str) -> bool:
    """Whether a checkpoint is of a training run, not a mean of several."""
    import tensorflow as tf

    return any(name.startswith("optimizer/") for name, _ in tf.train.list_variables(path))


def _read_all(path: str) -> None:
    """Reads every value of a checkpoint, for TensorFlow's checks of their checksums."""
    import tensorflow as tf

    types = tf.train.load_checkpoint(path).get_variable_to_dtype_map()
    tf.raw_ops.RestoreV2(
        prefix=path,
        tensor_names=list(types),
        shape_and_slices=[""] * len(types),
        dtypes=list(types.values()),
    )


def release(folder: pathlib.Path) -> str:
    """Returns the release of this package that a run was last trained with, for messages."""
    path = folder / VERSIONS
    versions = _read_json(path, str(folder)) if path.is_file() else {}
    return str(versions.get("t2t_lite", "unknown"))


def read_flags(output_dir: str) -> dict[str, Any] | None:
    """Returns the settings that a run folder was made with; None if it is not one yet.

    Raises:
        UserError: the file is damaged; so does the result, asked for what it does not hold.
    """
    return _read_flags(output_dir) if (pathlib.Path(output_dir) / FLAGS).is_file() else None


def read_metrics(folder: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the whole lines of metrics.jsonl and what they hold; none if there is no such file.

    Every record has the text `kind` and the whole number `step`. A line that was cut short by a
    kill is left out, and one that is damaged (a power cut may leave zeros), with a warning.
    """
    path, damaged = folder / METRICS, []
    if not path.is_file():
        return
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(_LONGEST_RECORD), b"")
        for number, line in enumerate(lines, 1):
            record = _record(line) if line.endswith(b"\n") else None
            if record is not None:
                yield line.decode(), record
            elif line.endswith(b"\n") or b"\0" in line or len(line) == _LONGEST_RECORD:
                damaged.append(number)
    if damaged:
        log.warning(
            "%s is damaged: %d of its lines skipped, line %d the first; they are cut when "
            "training goes on",
            path,
            len(damaged),
            damaged[0],
        )


def _record(line: bytes) -> dict[str, Any] | None:
    """Returns the record that a line of metrics.jsonl is; None if it is none."""
    try:
        record = json_files.Fields(pathlib.Path(METRICS), json_files.parse_object(line))
        record.check({"kind": str, "step": int})
    except (ValueError, UserError):
        return None
    rest = [(name, value) for name, value in record.items() if name != "kind"]
    sound = "kind" in record and "step" in record and all(_is_value(*field) for field in rest)
    return dict(record) if sound else None


def _is_value(name: str, value: Any) -> bool:
    return isinstance(value, str) if name.endswith(_TEXT_SUFFIX) else json_files.is_number(value)


def read_settings(output_dir: str) -> dict[str, Any]:
    """Returns all flags and hyperparameters of a run, by name, without building anything.

    Raises:
        UserError: the folder is none of a run, or a file cannot be read.
    """
    folder = pathlib.Path(output_dir)
    hparams = _read_json(folder / HPARAMS, output_dir)
    return _read_flags(output_dir) | hparams


def read_summary(folder: pathlib.Path) -> dict[str, Any]:
    """Returns what summary.json holds, numbers from 0 on; nothing if there is no such file.

    Raises:
        UserError: it is damaged; so does the result, asked for what it does not hold.
    """
    path = folder / SUMMARY
    if not path.is_file():
        return json_files.Fields(path, {})
    summary = _read_json(path, str(folder))
    for name, value in summary.items():
        largest = _LONGEST_TRAINING if name == "train_seconds" else math.inf
        if not (json_files.is_number(value) and 0 <= value <= largest and math.isfinite(value)):
            raise UserError(
                f"{path}: expected what a run can cost as {name!r}, got "
                f"{quoted(value)}; bring the file back from a copy, or delete it: "
                "the run then counts from 0"
            )
    return summary


def open_run(output_dir: str) -> Run:
    """Opens a run folder that a trainer has made.

    Raises:
        UserError: it is none, or one of its files cannot be read.
    """
    folder = pathlib.Path(output_dir)
    flags = _read_flags(output_dir)
    try:
        model_class = registry.model(flags["model"])
        problem = registry.problem(flags["problem"])
    except UsageError as error:
        raise UsageError(f"{folder / FLAGS}: {error}") from error
    try:
        hparams = model_class.hparams_class.from_dict(_read_json(folder / HPARAMS, output_dir))
    except UsageError as error:
        raise UserError(f"{folder / HPARAMS}: {error}") from error
    return Run(
        folder=folder,
        model_name=flags["model"],
        hparams_set=flags["hparams_set"],
        hparams=hparams.freeze(),
        problem=problem,
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
        old = open_run(str(folder))
        refuse_another_run(old, flags, hparams)
        if flags.get("schedule") == "evaluate":  # the run's own settings stay
            return old
    write_run(folder, flags, hparams, data_dir)
    return open_run(str(folder))


def write_run(
    folder: pathlib.Path, flags: Mapping[str, Any], hparams: "BasicHParams", data_dir: str
) -> None:
    """Writes the settings of a run and copies its vocabulary into a folder that is there.

    Args:
        folder: the run folder.
        flags: must hold problem, model and hparams_set.
        hparams: the resolved hyperparameters.
        data_dir: where the vocabulary is copied from.

    Raises:
        UserError: another vocabulary is in the folder already.
    """
    for name in registry.problem(flags["problem"]).vocab_files():
        _copy_vocabulary(pathlib.Path(data_dir) / name, folder / name)
    files.write_text(folder / HPARAMS, hparams.to_json())
    files.write_text(folder / VERSIONS, json.dumps(versions(), indent=1) + "\n")
    # Last: a folder that has this file has all the others.
    files.write_text(folder / FLAGS, json.dumps(dict(flags), indent=1) + "\n")


def refuse_another_run(old: Run, flags: Mapping[str, Any], hparams: "BasicHParams") -> None:
    """Compares a run that is there with what it should be.

    Raises:
        UserError: problem, model or hyperparameters differ.
    """
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


def _read_flags(output_dir: str) -> json_files.Fields:
    flags = _read_json(pathlib.Path(output_dir) / FLAGS, output_dir)
    flags.check(_FLAG_KINDS)
    return flags


def _read_json(path: pathlib.Path, output_dir: str) -> json_files.Fields:
    try:
        return json_files.read_object(path)
    except FileNotFoundError:
        raise UserError(
            f"{output_dir} is no run folder: {path} is missing (t2t-trainer makes it)"
        ) from None


def versions() -> dict[str, str]:
    """Returns the releases of this package and of what it computes with, by name."""
    own = {"t2t_lite": __version__, "python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in _PACKAGES}
