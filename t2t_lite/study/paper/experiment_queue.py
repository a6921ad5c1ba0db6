"""A queue of experiments: results that survive a kill, and the commands to run."""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite import files, json_files, registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.lock import locked
from t2t_lite.runs import run_folder
from t2t_lite.settings import meant_by

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)

# The types of the figures that results have.
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(["row", "command"], str),
    **dict.fromkeys(["seed", "parameters", "beam_size"], int),
    **dict.fromkeys(["updates", "target_tokens", "operations", "seconds"], float),
    **dict.fromkeys(["bleu", "half_width", "perplexity", "dropout", "learning_rate"], float),
    **dict.fromkeys(["checkpoints", "scores"], dict),
}


@dataclasses.dataclass(frozen=True)
class Folders:
    """The folders of a queue; results do not depend on their paths.

    Attributes:
        data_dir: folder with t2t-datagen's files.
        output_dir: folder for the results and the run folders of the trainings.
        t2t_usr_dir: folder of the user's registered classes; "": none.
    """

    data_dir: str
    output_dir: str
    t2t_usr_dir: str = ""

    def flags(self) -> list[str]:
        """Returns the flags that every command of an experiment needs."""
        usr_dir = [f"--t2t_usr_dir={self.t2t_usr_dir}"] if self.t2t_usr_dir else []
        return [f"--data_dir={self.data_dir}", *usr_dir]


class Queue:
    """Experiments that share their settings, each run once.

    Args:
        file: name of the JSON file of the results, which is in `folders.output_dir`.
        settings: what all experiments share.
        folders: where the experiments read and write.
        sections: names of the sections that hold results.

    Attributes:
        results: the content of the file.
    """

    def __init__(
        self, file: str, settings: "DataclassInstance", folders: Folders, sections: Sequence[str]
    ) -> None:
        self.folders = folders
        self._path = pathlib.Path(folders.output_dir, file)
        self.results = _read_results(self._path, dataclasses.asdict(settings), sections)

    def path(self, name: str) -> pathlib.Path:
        """Returns the path of a file of results, or of a training's run folder."""
        return self._path.parent / name

    def once(self, section: str, name: str, run: Callable[[], Mapping[str, Any]]) -> None:
        """Runs an experiment and records its result, unless that is recorded already."""
        if name in self.results[section]:
            log.info("%s is already done", name)
        else:
            self.record(section, {name: run()})

    def record(self, section: str, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds results by name to a section, and writes all results, whole or not at all."""
        self.results[section].update(found)
        text = json.dumps(self.results, indent=1, ensure_ascii=False) + "\n"
        files.write_text(self._path, text)


@contextlib.contextmanager
def opened(
    file: str, settings: "DataclassInstance", folders: Folders, sections: Sequence[str]
) -> Iterator[Queue]:
    """Yields a queue, made of these arguments, and keeps other processes from its file.

    Each process writes all results that it knows, and would lose those of another.

    Raises:
        UserError: another process fills the file.
    """
    path = pathlib.Path(folders.output_dir, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{file}.lock"), "t2t-paper", f"is filling {path}"):
        yield Queue(file, settings, folders, sections)


def _read_results(
    path: pathlib.Path, settings: Mapping[str, Any], sections: Sequence[str]
) -> dict[str, Any]:
    """Returns the existing results, or empty ones."""
    if not path.is_file():
        return {"settings": dict(settings), **{section: {} for section in sections}}
    results = json_files.read_object(path)
    results.check(dict.fromkeys(["settings", *sections], dict))
    for section in sections:
        found = json_files.Fields(path, results[section])
        found.check(dict.fromkeys(found, dict))
        results[section] = found
        for name, entry in found.items():
            found[name] = _checked(path, entry)
    for name, value in settings.items():
        there = results["settings"].get(name)
        if there != value and _meant(name, there) != _meant(name, value):
            raise UsageError(
                f"{path} was made with {name}={there!r}, not {value!r}: use the same value, or "
                "another --output_dir"
            )
    return results


def _meant(name: str, value: Any) -> Any:
    """Returns what a setting stands for, however it is spelled."""
    if name == "problem" and isinstance(value, str):
        return registry.problem(value).name
    if name == "hparams" and isinstance(value, str):
        return meant_by(value)
    return value


def _checked(path: pathlib.Path, entry: Mapping[str, Any]) -> json_files.Fields:
    """Returns a result whose figures have the right types."""
    fields = json_files.Fields(path, entry)
    fields.check(_KINDS)
    for name in {"checkpoints", "scores"} & fields.keys():
        figures = fields[name] = json_files.Fields(path, fields[name])
        figures.check({key: float for key in figures if not key.endswith("_signature")})
    return fields


def paper_command(table: str, settings: "DataclassInstance", **others: object) -> str:
    """Returns the t2t-paper command that makes a table with these settings.

    Its folders have placeholders. A problem of the user's own needs `--t2t_usr_dir` besides.

    Args:
        table: as in `--table`.
        settings: what all trainings share.
        **others: the other flags, by name.
    """
    given = {"table": table, **dataclasses.asdict(settings), **others}
    flags = [f"--{name}={value}" for name, value in given.items() if value]
    return shlex.join(["t2t-paper", *flags, "--data_dir=DATA_DIR", "--output_dir=OUTPUT_DIR"])


def trainer_flags(
    problem: str, model: str, hparams_set: str, hparams: str, folders: Folders, name: str
) -> list[str]:
    """Returns the flags of t2t-trainer for a training of that name, but not its length."""
    return [
        f"--problem={problem}",
        f"--model={model}",
        f"--hparams_set={hparams_set}",
        f"--hparams={hparams}",
        *folders.flags(),
        f"--output_dir={pathlib.Path(folders.output_dir, name)}",
    ]


def fitted_decay(hparams_set: str, hparams: str, steps: int) -> str:
    """Returns `--hparams` with which a learning rate that falls to 0 gets there with the training.

    Args:
        hparams_set: the set.
        hparams: changes to it; a schedule or a length of its own stays as it is.
        steps: updates of the training; 0: time ends it, at an update that nobody knows. Then the
            rate falls with the inverse square root of the step, and never to 0.
    """
    resolved = registry.hparams(hparams_set).override(hparams)
    assert isinstance(resolved, BasicHParams)
    own = {"learning_rate_schedule", "learning_rate_decay_steps"}
    if resolved.learning_rate_end is None or own & meant_by(hparams).keys():
        return hparams
    fitted = f"learning_rate_decay_steps={max(1, steps - resolved.learning_rate_warmup_steps)}"
    if not steps:
        cosine, slower = "single_cycle_cos_decay", "rsqrt_normalized_decay"
        schedule = resolved.learning_rate_schedule.replace(cosine, slower)
        fitted = f"learning_rate_schedule={schedule}"
    return ",".join(filter(None, [fitted, hparams]))


def length_flags(steps: int) -> list[str]:
    """Returns the flags of t2t-trainer for an unattended training of so many updates."""
    return [
        f"--train_steps={steps}",
        # At most one evaluation, at the end; more frequent checkpoints, to resume from.
        f"--local_eval_frequency={steps}",
        "--save_checkpoints_secs=300",
        "--keep_checkpoint_max=1",
    ]


def train(name: str, flags: Sequence[str], folder: pathlib.Path) -> dict[str, Any]:
    """Trains in a separate process; returns the training time, and the command to record.

    Args:
        name: the training's name, for error messages.
        flags: of t2t-trainer.
        folder: the run folder that they name.
    """
    run_command("t2t-trainer", flags, name)
    return trained(flags, folder)


def trained(flags: Sequence[str], folder: pathlib.Path) -> dict[str, Any]:
    """Returns the training time of a finished training, and its command; arguments as `train`."""
    return {
        "seconds": run_folder.read_summary(folder)["train_seconds"],
        "command": shlex.join(["t2t-trainer", *flags]),
    }


def evaluate(
    name: str, checkpoints: Sequence[str], decode_hparams: str, folders: Folders, *others: str
) -> tuple[list[dict[str, Any]], str]:
    """Scores checkpoints in a separate process.

    Args:
        name: the experiment's name, for error messages.
        checkpoints: flags of t2t-eval that say which.
        decode_hparams: changes to the problem's search settings.
        folders: the folders of the queue.
        *others: other flags of t2t-eval.

    Returns:
        The scores of each, as t2t-eval writes them in JSON; the command to record.
    """
    flags = [
        *checkpoints,
        *folders.flags(),
        f"--decode_hparams={decode_hparams}",
        "--output_format=json",
        *others,
    ]
    printed = run_command("t2t-eval", flags, name, capture=True)
    return json.loads(printed)["checkpoints"], shlex.join(["t2t-eval", *flags])


def run_command(name: str, flags: Sequence[str], experiment: str, capture: bool = False) -> str:
    """Runs a command of this package in a separate process.

    Args:
        name: the command, such as t2t-trainer.
        flags: its flags.
        experiment: the experiment's name, for error messages.
        capture: whether to return its output; otherwise it goes to standard error, because
            standard output is for the table.
    """
    done = subprocess.run(
        [sys.executable, "-m", f"t2t_lite.bin.{name.replace('-', '_')}", *flags],
        stdout=subprocess.PIPE if capture else sys.stderr,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
        encoding="utf-8",
    )
    if done.returncode:
        raise UserError(
            f"{experiment}: {name} ended with code {done.returncode}; its message is above. "
            "Run the same command to resume here"
        )
    return done.stdout or ""
