"""The devices that train: GPUs, one CPU, or a CPU split into logical devices; of all workers."""

import signal
import threading
from typing import Any

import tensorflow as tf

from t2t_lite.cluster.cluster import ALONE, Cluster
from t2t_lite.errors import UsageError, UserError, first_line


def make_strategy(
    worker_gpu: int | None, simulate_devices: int = 0, cluster: Cluster = ALONE
) -> tf.distribute.Strategy:
    """Returns a strategy over the devices asked for, in which all have the same variables.

    Must run before TensorFlow has touched its devices.

    Args:
        worker_gpu: how many GPUs to use; None: all there are, or the CPU if there is none.
        simulate_devices: splits the CPU into so many logical devices, each a replica; 0: not.
        cluster: the workers, each of which must ask for as many devices.

    Raises:
        UsageError: logical devices are asked for with more than one worker.
        UserError: fewer GPUs are there than were asked for, or a worker's port is in use.
    """
    if simulate_devices:
        if not cluster.is_alone:
            raise UsageError(
                f"--simulate_devices={simulate_devices} is for one worker: leave it out, and start "
                "more workers"
            )
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * simulate_devices
        tf.config.set_logical_device_configuration(cpu, logical)
        return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(simulate_devices)])
    gpus = tf.config.list_physical_devices("GPU")
    wanted = len(gpus) if worker_gpu is None else worker_gpu
    if wanted > len(gpus):
        raise UserError(
            f"--worker_gpu={wanted}, but TensorFlow sees {len(gpus)} GPUs; "
            "without the flag all that are there are used"
        )
    for gpu in gpus[:wanted]:
        tf.config.experimental.set_memory_growth(gpu, True)
    if not cluster.is_alone:
        return _workers_strategy(cluster, wanted)
    return tf.distribute.MirroredStrategy([f"GPU:{i}" for i in range(wanted)] or ["CPU:0"])


def _workers_strategy(cluster: Cluster, gpus: int) -> tf.distribute.Strategy:
    """Returns the strategy of several workers, after waiting for all of them.

    Raises:
        UserError: another program has taken the port.
    """
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.hosts)}),
        task_type="worker",
        task_id=cluster.worker_id,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except tf.errors.UnknownError as error:
        raise UserError(
            f"{cluster} cannot listen at {cluster.hosts[cluster.worker_id]} ({first_line(error)}): "
            "end what uses the port, or name another port"
        ) from error
    if threading.current_thread() is threading.main_thread():
        # TensorFlow has made SIGTERM its own, for a notice of pre-emption that nobody reads.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def sum_replicas(strategy: tf.distribute.Strategy, per_replica: Any) -> Any:
    """Adds up over all replicas what `strategy.run` has returned, tensor by tensor."""
    # With several workers, `reduce` would not look into a structure by itself.
    return tf.nest.map_structure(
        lambda value: strategy.reduce("SUM", value, axis=None), per_replica
    )
