"""Decisions that all workers make alike."""

import tensorflow as tf

from t2t_lite.cluster.cluster import Cluster
from t2t_lite.cluster.detector_client import DetectorClient
from t2t_lite.errors import UserError


class WorkerSync:
    """Lets all workers make equal decisions; all must make the same calls in the same order.

    Args:
        cluster: the workers.
        strategy: spans the devices of all workers.
        detector: notices when a worker is lost.
    """

    def __init__(
        self, cluster: Cluster, strategy: tf.distribute.Strategy, detector: DetectorClient
    ) -> None:
        self._cluster = cluster
        self._detector = detector
        self._strategy = strategy
        self._local_replicas = strategy.num_replicas_in_sync // len(cluster.hosts)
        self._compiled_sum = tf.function(self._sum_over_replicas)

    def any(self, *conditions: bool) -> list[bool]:
        """Returns for each condition whether it holds on at least one worker."""
        if self._cluster.is_alone:
            return list(conditions)
        return [count > 0 for count in self._sum([int(condition) for condition in conditions])]

    def wait(self) -> None:
        """Waits for all workers, so that none ends with success if another fails at the end."""
        self.any(True)

    def check(self, name: str, value: int) -> None:
        """Checks that a number equals the chief's.

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
        """Returns the sums over all workers."""
        with self._detector.collective_step():
            sums = self._compiled_sum(tf.constant(numbers, tf.int64))
        return [int(total) // self._local_replicas for total in sums]

    def _sum_over_replicas(self, numbers: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(tf.identity, (numbers,))
        return self._strategy.reduce("SUM", per_replica, axis=None)
