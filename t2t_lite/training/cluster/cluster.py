"""The workers: processes, on one machine or several, that train one model together.

All run the same program on the same batches, compute different parts of each batch, and have equal
weights after every step. Worker 0, the chief, owns the run folder. Every other worker uses a
scratch folder instead, so that the training loop is the same on all.
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
from t2t_lite.runs import metrics_jsonl, run_creation, run_folder

log = logging.getLogger(__name__)

_FLAGS = "--worker_hosts=HOST:PORT,HOST:PORT --worker_id=N"
_TF_CONFIG = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": N}}'
# A shared folder may show a new file late: NFS caches a missing file for about a minute.
_SECONDS_TO_SEE = 120.0


class LostWorkerError(UserError):
    """Another worker has ended; when all are restarted, the run resumes from its checkpoint."""

    exit_code = os.EX_TEMPFAIL  # 75: "try again", as after SIGTERM


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The addresses of all workers, and which worker this process is."""

    hosts: tuple[str, ...] = ("localhost:0",)  # "host:port" of each
    worker_id: int = 0

    @classmethod
    def of(cls, worker_hosts: str, worker_id: int | None) -> "Cluster":
        """Returns the cluster described by the flags or, without them, by TF_CONFIG.

        Without either, the cluster has one worker.

        Args:
            worker_hosts: "host:port" of every worker, separated by commas; empty if not given.
            worker_id: index of this process, from 0; None if not given.

        Raises:
            UsageError: a flag is invalid, or one is given without the other.
            UserError: TF_CONFIG is invalid.
        """
        if worker_hosts:
            hosts = tuple(host.strip() for host in worker_hosts.split(","))
            if worker_id is None:
                raise UsageError(f"--worker_hosts needs --worker_id: {_FLAGS}")
            return cls(hosts, worker_id)._checked(UsageError, "--worker_hosts", "--worker_id")
        if worker_id is not None:
            raise UsageError(f"--worker_id needs --worker_hosts: {_FLAGS}")
        text = os.environ.get("TF_CONFIG", "")
        return cls._from_tf_config(text) if text else cls()

    @classmethod
    def _from_tf_config(cls, text: str) -> "Cluster":
        """Reads TensorFlow's JSON description of a cluster."""
        try:
            config = json.loads(text)
            jobs: Mapping[str, list[str]] = config.get("cluster", {})
            if not jobs:
                return cls()
            others = jobs.keys() - {"chief", "worker"}
            if others:
                raise UserError(f"TF_CONFIG has a {min(others)!r} job: list only workers")
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
        """Returns itself, if it is valid.

        Raises:
            UserError: it is not; the class is `error`, and `hosts` and `worker_id` name the sources
                of the values.
        """
        for host in self.hosts:
            if not _is_address(host):
                raise error(
                    f"{hosts}: {host!r} is not of the form HOST:PORT, a host's name or address "
                    "and a port from 1 to 65535"
                )
            if self.hosts.count(host) > 1:
                raise error(f"{hosts}: {host} is listed twice; each worker needs its own port")
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
        """Returns the name of a worker in messages."""
        known = 0 <= worker < len(self.hosts)
        return f"worker {worker} at {self.hosts[worker]}" if known else f"worker {worker}"

    def lost(self, worker: int, reason: str) -> str:
        """Returns the message with which this worker ends when one is lost."""
        is_self = worker == self.worker_id
        what = f"{self.name(worker)} is lost" if is_self else f"{self} has lost {self.name(worker)}"
        return (
            f"{what}: {reason.rstrip('.')}. Restart all workers to resume from the newest "
            "checkpoint"
        )

    # ---- folders

    @contextlib.contextmanager
    def own_folder(self, output_dir: str) -> Iterator[str]:
        """Yields the folder that this worker writes to; only the chief logs below warnings.

        Args:
            output_dir: the run folder, the same on all workers, which the chief writes to.
        """
        if self.is_chief:
            with run_creation.exclusive(output_dir):
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
        """Brings the contents of the run folder into `folder`, for a worker other than the chief.

        Files are linked, as writing replaces the link; a file that is appended to is copied.

        Raises:
            UserError: this worker does not see the folder.
        """
        if self.is_chief:
            return
        shared = pathlib.Path(output_dir).absolute()
        deadline = time.monotonic() + _SECONDS_TO_SEE
        while not run_folder.is_run(shared):
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self} does not see {shared / run_folder.FLAGS}, which worker 0 writes: "
                    "--output_dir must be a folder that all workers share"
                )
            time.sleep(0.2)
        for path in shared.iterdir():
            own = pathlib.Path(folder) / path.name
            if path.name == metrics_jsonl.METRICS:
                shutil.copyfile(path, own)
            elif path.is_file() and files.INCOMPLETE not in path.name:
                own.symlink_to(path)


def _is_address(host: str) -> bool:
    """Whether sockets accept the name and the port of "host:port"."""
    found = re.fullmatch(r"(.+):([0-9]{1,5})", host)
    try:
        return bool(found and found[1].encode("idna") and 1 <= int(found[2]) <= 65535)
    except UnicodeError:
        return False


ALONE = Cluster()
