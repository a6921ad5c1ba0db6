"""Several processes, on one machine or many, that train one model together: the workers.

Each runs the same program on the same batches, of which it computes its own parts, and has the
same weights after every step. Worker 0, the chief, owns the run folder. The others do all that
it does in a scratch folder of their own, so that nothing in a training loop has to ask who it is.
"""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping

from t2t_lite import files
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import metrics_file, run_folder

log = logging.getLogger(__name__)

_FLAGS = "--worker_hosts=HOST:PORT,HOST:PORT --worker_id=N"
_TF_CONFIG = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": N}}'
# A shared folder may show a new file late: NFS remembers for about a minute that it was not there.
_SECONDS_TO_SEE = 120.0


class LostWorkerError(UserError):
    """Another worker has ended; after a restart of all, the run goes on from its checkpoint."""

    exit_code = os.EX_TEMPFAIL  # 75: "try again", as after SIGTERM


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Where all workers are, and which of them this process is."""

    hosts: tuple[str, ...] = ("localhost:0",)  # "host:port" of each
    worker_id: int = 0

    @classmethod
    def of(cls, worker_hosts: str, worker_id: int | None) -> "Cluster":
        """Returns the cluster that the flags or else TF_CONFIG describe; without both, one worker.

        Args:
            worker_hosts: "host:port" of every worker, with commas between them; empty: no flag.
            worker_id: which of them this process is, from 0; None: no flag.

        Raises:
            UsageError: a flag is wrong or misses the other.
            UserError: TF_CONFIG is wrong.
        """
        if worker_hosts:
            hosts = tuple(host.strip() for host in worker_hosts.split(","))
            if worker_id is None:
                raise UsageError(f"--worker_hosts needs --worker_id as well: {_FLAGS}")
            return cls(hosts, worker_id)._checked(UsageError, "--worker_hosts", "--worker_id")
        if worker_id is not None:
            raise UsageError(f"--worker_id needs --worker_hosts as well: {_FLAGS}")
        text = os.environ.get("TF_CONFIG", "")
        return cls._from_tf_config(text) if text else cls()

    @classmethod
    def _from_tf_config(cls, text: str) -> "Cluster":
        """Reads TensorFlow's own description of a cluster, JSON."""
        try:
            config = json.loads(text)
            jobs: Mapping[str, list[str]] = config.get("cluster", {})
            if not jobs:
                return cls()
            others = jobs.keys() - {"chief", "worker"}
            if others:
                raise UserError(f"TF_CONFIG has a {min(others)!r} job: list workers alone")
            chiefs, workers = jobs.get("chief", []), jobs.get("worker", [])
            task = config["task"]
            first = {"chief": 0, "worker": len(chiefs)}[task["type"]]
            found = cls((*map(str, chiefs), *map(str, workers)), first + int(task["index"]))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise UserError(
                f"TF_CONFIG={text} is not of the form {_TF_CONFIG} "
                f"({type(error).__name__}: {error})"
            ) from error
        return found._checked(UserError, "TF_CONFIG: cluster", "TF_CONFIG: task index")

    def _checked(self, error: type[UserError], hosts: str, worker_id: str) -> "Cluster":
        """Returns itself.

        Raises:
            UserError: of the class `error`; `hosts` and `worker_id` say where the values are from.
        """
        for host in self.hosts:
            if not _can_be_reached(host):
                raise error(
                    f"{hosts}: {host!r} is not of the form HOST:PORT, a host's name or address "
                    "and a port from 1 to 65535"
                )
            if self.hosts.count(host) > 1:
                raise error(f"{hosts}: {host} is there twice; each worker needs a port of its own")
        if not 0 <= self.worker_id < len(self.hosts):
            raise error(
                f"{worker_id}={self.worker_id}, but {hosts} lists {len(self.hosts)} workers: "
                f"0 to {len(self.hosts) - 1}"
            )
        return self

    @property
    def is_alone(self) -> bool:
        """Whether there is no other worker."""
        return len(self.hosts) == 1

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that writes the run folder."""
        return self.worker_id == 0

    def __str__(self) -> str:
        return f"worker {self.worker_id} of {len(self.hosts)}"

    def name(self, worker: int) -> str:
        """Returns how messages call any of the workers."""
        known = 0 <= worker < len(self.hosts)
        return f"worker {worker} at {self.hosts[worker]}" if known else f"worker {worker}"

    def lost(self, worker: int, reason: str) -> str:
        """Returns the line that all end with when one is lost."""
        is_self = worker == self.worker_id
        what = f"{self.name(worker)} is lost" if is_self else f"{self} has lost {self.name(worker)}"
        return (
            f"{what}: {reason.rstrip('.')}. Start all workers again to go on from the newest "
            "checkpoint"
        )

    # ---- folders

    @contextlib.contextmanager
    def own_folder(self, output_dir: str) -> Iterator[str]:
        """Yields the folder that this worker writes to, and lets none but the chief speak.

        Args:
            output_dir: the run folder, the same on all workers; it is the chief's.

        Raises:
            UserError: a trainer is at work in the run folder.
        """
        if self.is_chief:
            with run_folder.exclusive(output_dir):
                yield output_dir
            return
        logger = logging.getLogger("t2t_lite")
        level = logger.level
        logger.setLevel(logging.WARNING)
        try:
            with tempfile.TemporaryDirectory(prefix="t2t_trainer_worker_") as scratch:
                yield scratch
        finally:
            logger.setLevel(level)

    def bring_run(self, output_dir: str, folder: str) -> None:
        """Gives `folder` the state of the run folder, for a worker that is not the chief.

        By links, which are replaced when somebody writes to them; what is appended to, by a copy.

        Raises:
            UserError: the chief's files do not appear.
        """
        if self.is_chief:
            return
        shared = pathlib.Path(output_dir).absolute()
        deadline = time.monotonic() + _SECONDS_TO_SEE
        while not (shared / run_folder.FLAGS).is_file():
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self} does not see {shared / run_folder.FLAGS}, which worker 0 writes: "
                    "--output_dir must be a folder that all workers share"
                )
            time.sleep(0.2)
        for path in shared.iterdir():
            own = pathlib.Path(folder) / path.name
            if path.name == metrics_file.METRICS:
                shutil.copyfile(path, own)
            elif path.is_file() and files.INCOMPLETE not in path.name:
                own.symlink_to(path)


def _can_be_reached(host: str) -> bool:
    """Whether "host:port" can be one: sockets take no other names and numbers."""
    found = re.fullmatch(r"(.+):([0-9]{1,5})", host)
    try:
        return bool(found and found[1].encode("idna") and 1 <= int(found[2]) <= 65535)
    except UnicodeError:
        return False


ALONE = Cluster()
