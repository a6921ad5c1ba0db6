"""The devices of all workers: GPUs, one CPU each, or a CPU split into logical devices."""

import logging
import signal
import threading
from typing import Any

import tensorflow as tf

from t2t_lite.errors import UsageError, UserError, first_line
from t2t_lite.training.cluster.cluster import ALONE, Cluster

log = logging.getLogger(__name__)


def make_strategy(
    worker_gpu: int | None, simulate_devices: int = 0, cluster: Cluster = ALONE
) -> tf.distribute.Strategy:
    """Returns a strategy over the requested devices, on which variables are mirrored.

    Must run before TensorFlow initialises its devices.

    Args:
        worker_gpu: number of GPUs to use; None: all GPUs, or the CPU if there is none.
        simulate_devices: number of logical devices to split the CPU into, each a replica; 0: none.
        cluster: the workers, all of which must request the same number of devices.
    """
    if simulate_devices:
        if worker_gpu:
            raise UsageError(
                f"--simulate_devices={simulate_devices} splits the CPU: omit it, or "
                f"--worker_gpu={worker_gpu}"
            )
        if not cluster.is_alone:
            raise UsageError(
                f"--simulate_devices={simulate_devices} is for a single worker: omit it, and start "
                "more workers"
            )
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * simulate_devices
        try:
            tf.config.set_logical_device_configuration(cpu, logical)
        except RuntimeError as error:
            raise UsageError(
                f"simulate_devices={simulate_devices}: TensorFlow has already computed in this "
                "process, and can no longer split its CPU; start a new process"
            ) from error
        return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(simulate_devices)])
    gpus = tf.config.list_physical_devices("GPU")
    wanted = len(gpus) if worker_gpu is None else worker_gpu
    if wanted > len(gpus):
        raise UserError(
            f"--worker_gpu={wanted}, but TensorFlow sees {len(gpus)} GPUs; "
            "omit the flag to use all GPUs"
        )
    for gpu in gpus[:wanted]:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (RuntimeError, ValueError) as error:
            # This process has already computed, as a translator does, or divided the GPU.
            log.info("the memory of %s does not grow with its use: %s", gpu.name, error)
    if not cluster.is_alone:
        return _workers_strategy(cluster, wanted)
    return tf.distribute.MirroredStrategy([f"GPU:{i}" for i in range(wanted)] or ["CPU:0"])


def _workers_strategy(cluster: Cluster, gpus: int) -> tf.distribute.Strategy:
    """Returns the strategy of several workers, after waiting for all of them."""
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
            "end the program that uses the port, or choose another port"
        ) from error
    if threading.current_thread() is threading.main_thread():
        # TensorFlow has replaced the handler of SIGTERM with one for its own preemption notices.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def sum_replicas(strategy: tf.distribute.Strategy, per_replica: Any) -> Any:
    """Sums the result of `strategy.run` over all replicas, tensor by tensor."""
    # With several workers, `reduce` does not accept nested structures.
    return tf.nest.map_structure(
        lambda value: strategy.reduce("SUM", value, axis=None), per_replica
    )
