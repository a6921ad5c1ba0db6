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
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping

import tensorflow as tf

from t2t_lite import files, run_folder
from t2t_lite.errors import UsageError, UserError

log = logging.getLogger(__name__)

_FLAGS = "--worker_hosts=HOST:PORT,HOST:PORT --worker_id=N"
_TF_CONFIG = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": N}}'
# Schedulers start workers minutes apart, and restart them after pauses of up to five minutes.
_SECONDS_TO_MEET = 600.0
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
        except (ValueError, KeyError, TypeError, AttributeError) as error:
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
            if not re.fullmatch(r".+:[0-9]{1,5}", host):
                raise error(f"{hosts}: {host!r} is not of the form HOST:PORT")
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

    # ---- meeting

    def make_strategy(self, gpus: int) -> tf.distribute.Strategy:
        """Waits for the other workers and returns the strategy of them all.

        Args:
            gpus: how many of them each worker uses; 0: its CPU.

        Raises:
            UserError: this worker's port is in use, or another worker cannot be reached.
        """
        self._meet()
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(self.hosts)}),
            task_type="worker",
            task_id=self.worker_id,
            num_accelerators={"GPU": gpus},
            rpc_layer="grpc",
        )
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
        if threading.current_thread() is threading.main_thread():
            # TensorFlow has made SIGTERM its own, for a notice of pre-emption that nobody reads.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        return strategy

    def _meet(self) -> None:
        """Returns when every worker has been there; TensorFlow itself would wait without a word."""
        deadline = time.monotonic() + _SECONDS_TO_MEET
        own = self.hosts[self.worker_id]
        ipv6 = socket.has_dualstack_ipv6()  # as TensorFlow's server listens
        try:
            server = socket.create_server(
                ("", _port(own)),
                family=socket.AF_INET6 if ipv6 else socket.AF_INET,
                dualstack_ipv6=ipv6,
            )
        except OSError as error:
            raise UserError(
                f"{self} cannot listen at {own}: {error.strerror}; end what uses the port, such as "
                "another worker of the same number, or name another port"
            ) from error
        with server:
            for worker, host in enumerate(self.hosts):
                if worker != self.worker_id:
                    log.info("%s waits for worker %d at %s", self, worker, host)
                    _reach(worker, host, deadline)

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

        By links, which are replaced when somebody writes to them.

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
            if path.is_file() and files.INCOMPLETE not in path.name:
                (pathlib.Path(folder) / path.name).symlink_to(path)

    # ---- parting

    @contextlib.contextmanager
    def naming_lost_worker(self) -> Iterator[None]:
        """Turns TensorFlow's error about another worker that has ended into one line.

        Raises:
            LostWorkerError: in its place.
        """
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.DeadlineExceededError) as error:
            if self.is_alone:
                raise
            found = re.search(r"replica:0/task:([0-9]+)", str(error))
            # The one that answers no sign of life, and that no message names, is the chief.
            lost = int(found[1]) if found else 0
            raise LostWorkerError(
                f"{self} has lost worker {lost} at {self.hosts[lost]}: its own messages may "
                "say why. Start all workers again to go on from the newest checkpoint"
            ) from error


ALONE = Cluster()


class Agreement:
    """Lets all workers decide alike; each must ask the same questions in the same order.

    Args:
        cluster: the workers.
        strategy: made by all of them.
    """

    def __init__(self, cluster: Cluster, strategy: tf.distribute.Strategy) -> None:
        self._cluster = cluster
        self._strategy = strategy
        self._local_replicas = strategy.num_replicas_in_sync // len(cluster.hosts)
        self._compiled_sum = tf.function(self._sum_over_replicas)

    def any(self, *conditions: bool) -> list[bool]:
        """Returns for each condition whether it holds on one worker or more."""
        if self._cluster.is_alone:
            return list(conditions)
        return [count > 0 for count in self._sum([int(condition) for condition in conditions])]

    def wait(self) -> None:
        """Waits until all workers are here, so that none ends well if another fails at the last."""
        self.any(True)

    def check(self, name: str, value: int) -> None:
        """Compares a number with the chief's.

        Raises:
            UserError: it differs.
        """
        if self._cluster.is_alone:
            return
        (chiefs,) = self._sum([value if self._cluster.is_chief else 0])
        if value != chiefs:
            raise UserError(
                f"{self._cluster} has {name} {value}, but worker 0 has {chiefs}: they must see "
                "the same --data_dir and --output_dir"
            )

    def _sum(self, numbers: list[int]) -> list[int]:
        """Adds up what the workers say."""
        sums = self._compiled_sum(tf.constant(numbers, tf.int64))
        return [int(total) // self._local_replicas for total in sums]

    def _sum_over_replicas(self, numbers: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(tf.identity, (numbers,))
        return self._strategy.reduce("SUM", per_replica, axis=None)


def _port(host: str) -> int:
    return int(host.rpartition(":")[2])


def _reach(worker: int, host: str, deadline: float) -> None:
    """Waits until something listens at `host`.

    Raises:
        UserError: nothing does before the deadline.
    """
    address = (host.rpartition(":")[0].strip("[]"), _port(host))
    while True:
        try:
            socket.create_connection(address, timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise UserError(
                    f"worker {worker} at {host} cannot be reached ({error}): start it with the "
                    "same list of hosts, and let its port through"
                ) from error
            time.sleep(0.2)
