"""A queue of experiments: results that survive a kill, and the commands to run."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import files
from t2t_lite.errors import UsageError, UserError


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


def read_results(
    path: pathlib.Path, settings: Mapping[str, Any], sections: Sequence[str]
) -> dict[str, Any]:
    """Returns the existing results, or empty ones.

    Args:
        path: the JSON file.
        settings: the settings shared by all experiments of the queue.
        sections: names of the sections that hold results.

    Raises:
        UsageError: the results are from other settings.
    """
    if not path.is_file():
        return {"settings": dict(settings), **{section: {} for section in sections}}
    results = json.loads(path.read_text(encoding="utf-8"))
    for name, value in settings.items():
        there = results["settings"].get(name)
        if there != value:
            raise UsageError(
                f"{path} was made with {name}={there!r}, not {value!r}: use the same value, or "
                "another --output_dir"
            )
    return results


def write_results(path: pathlib.Path, results: Mapping[str, Any]) -> None:
    """Writes results as JSON, whole or not at all."""
    files.write_text(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def trainer_flags(
    problem: str, hparams_set: str, hparams: str, steps: int, folders: Folders, name: str
) -> list[str]:
    """Returns the flags of t2t-trainer for an unattended training of that name."""
    return [
        f"--problem={problem}",
        "--model=transformer",
        f"--hparams_set={hparams_set}",
        f"--hparams={hparams}",
        *folders.flags(),
        f"--output_dir={pathlib.Path(folders.output_dir, name)}",
        f"--train_steps={steps}",
        # At most one evaluation, at the end; more frequent checkpoints, to resume from.
        f"--local_eval_frequency={steps}",
        "--save_checkpoints_secs=300",
        "--keep_checkpoint_max=1",
    ]


def run_command(name: str, flags: Sequence[str], experiment: str, capture: bool = False) -> str:
    """Runs a command of this package in a separate process.

    Args:
        name: the command, such as t2t-trainer.
        flags: its flags.
        experiment: the experiment's name, for error messages.
        capture: whether to return its output; otherwise it goes to standard error, because
            standard output is for the table.

    Raises:
        UserError: the command failed.
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
