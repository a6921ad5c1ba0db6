"""What queues of experiments share: results that outlive a kill, and commands to run."""

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
class Places:
    """Folders of a queue: results do not depend on where they are.

    Attributes:
        data_dir: t2t-datagen's files.
        output_dir: for the results, and a run folder for each training.
        t2t_usr_dir: what the user has registered; "": nothing.
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
    """Returns the results that are there, or the beginning of them.

    Args:
        path: the JSON file.
        settings: what all experiments of the queue have in common.
        sections: names of the parts that experiments are recorded in.

    Raises:
        UsageError: the results were made with other settings.
    """
    if not path.is_file():
        return {"settings": dict(settings), **{section: {} for section in sections}}
    results = json.loads(path.read_text(encoding="utf-8"))
    for name, value in settings.items():
        there = results["settings"].get(name)
        if there != value:
            raise UsageError(
                f"{path} was made with {name}={there!r}, not {value!r}: say the same, or name "
                "another --output_dir"
            )
    return results


def write_results(path: pathlib.Path, results: Mapping[str, Any]) -> None:
    """Writes results as JSON, whole or not at all."""
    files.write_text(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def trainer_flags(
    problem: str, hparams_set: str, hparams: str, steps: int, places: Places, name: str
) -> list[str]:
    """Returns the flags of t2t-trainer for a training of that name, which nobody watches."""
    return [
        f"--problem={problem}",
        "--model=transformer",
        f"--hparams_set={hparams_set}",
        f"--hparams={hparams}",
        *places.flags(),
        f"--output_dir={pathlib.Path(places.output_dir, name)}",
        f"--train_steps={steps}",
        # One evaluation at most, at the end; checkpoints more often, to go on from.
        f"--local_eval_frequency={steps}",
        "--save_checkpoints_secs=300",
        "--keep_checkpoint_max=1",
    ]


def run_command(name: str, flags: Sequence[str], experiment: str, capture: bool = False) -> str:
    """Runs a command of this package in a process of its own.

    Args:
        name: such as t2t-trainer.
        flags: its flags.
        experiment: what it is for, for the message of an error.
        capture: return what it prints; if not, that goes to standard error, since standard output
            is for the table.

    Raises:
        UserError: it failed.
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
            "The same command goes on here"
        )
    return done.stdout or ""
