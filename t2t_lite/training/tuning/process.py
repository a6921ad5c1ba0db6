"""The process of a trial: what it is asked to do, and how the search sees it."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from t2t_lite import t2t_flags
from t2t_lite.lock import locked
from t2t_lite.training.config import TrainerConfig

GPUS = "CUDA_VISIBLE_DEVICES"
INTERRUPTED = 130  # the exit code after Ctrl-C: the shell's 128 + SIGINT
_LOG = "trainer.log"  # in the run folder of a trial


@dataclasses.dataclass(frozen=True)
class Request:
    """A trial to run.

    Attributes:
        search: the folder of the search.
        number: that of the trial.
        config: its training.
        t2t_usr_dir: as for the command; empty: none.
        flags: values of flags that user directories read.
    """

    search: str
    number: int
    config: TrainerConfig
    t2t_usr_dir: str = ""
    flags: Mapping[str, Any] = dataclasses.field(default_factory=t2t_flags.given)

    def to_json(self) -> str:
        """Returns the request on one line."""
        return json.dumps(dataclasses.asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Request":
        """Returns the request that `to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {"config": TrainerConfig(**values["config"])})


class TrialProcess:
    """The process of a trial.

    Args:
        request: what it does.
        gpus: the GPUs that it sees, for CUDA_VISIBLE_DEVICES; "": all.
    """

    def __init__(self, request: Request, gpus: str) -> None:
        self.number = request.number
        folder = pathlib.Path(request.config.output_dir)
        folder.mkdir(exist_ok=True)
        self.log = folder / _LOG
        # The process of a search that was killed may not have ended yet.
        with locked(folder / ".trainer.lock", "t2t-trainer", f"is using {folder}", wait=True):
            pass
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "t2t_lite.bin.console", "t2t_lite.training.tuning.trial"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    "TF_CPP_MIN_LOG_LEVEL": "3",
                    **os.environ,
                    **({GPUS: gpus} if gpus else {}),
                },
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and its code tells
            self._process.stdin.write(f"{request.to_json()}\n".encode())
            self._process.stdin.flush()  # and stays open: its end is ours

    def code(self) -> int | None:
        """Returns its exit code; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Lets it save and end."""
        self._process.terminate()

    def wait(self) -> None:
        """Waits for its end."""
        self._process.wait()
