"""The selection of devices, and sums over them."""

import logging

import pytest
import tensorflow as tf

from support.limits import strategy_over
from t2t_lite.errors import UsageError, UserError
from t2t_lite.training.cluster.cluster import Cluster
from t2t_lite.training.devices import make_strategy, sum_replicas


def test_without_gpus_the_cpu_trains():
    assert make_strategy(0).num_replicas_in_sync == 1


def test_more_gpus_than_there_are():
    with pytest.raises(UserError, match=r"--worker_gpu=999, but TensorFlow sees \d+ GPUs"):
        make_strategy(999)


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_gpu_that_is_already_in_use_is_taken_as_it_is(monkeypatch, caplog, error):
    def set_memory_growth(gpu, enable):
        raise error("Physical devices cannot be modified after being initialized")

    gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(2)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", set_memory_growth)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda devices: devices)
    caplog.set_level(logging.INFO)
    assert make_strategy(None) == ["GPU:0", "GPU:1"]
    assert "GPU:1 does not grow with its use: Physical devices cannot be modified" in caplog.text


def test_logical_devices_are_the_cpus():
    with pytest.raises(UsageError, match=r"=2 splits the CPU: omit it, or --worker_gpu=1"):
        make_strategy(1, 2)


def test_several_workers_have_no_logical_devices():
    with pytest.raises(UsageError, match="--simulate_devices=2 is for a single worker"):
        make_strategy(None, 2, Cluster(("a:1", "b:2"), 0))


@pytest.mark.parametrize("replicas", [1, 3])
def test_sum_of_replicas_keeps_the_structure(replicas):
    strategy = strategy_over(replicas)

    def values() -> dict[str, list[tf.Tensor]]:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        number = tf.cast(replica, tf.float32) + 1.0
        return {"a": [number, tf.fill([2], number)]}

    total = sum(range(1, replicas + 1))
    first, second = sum_replicas(strategy, strategy.run(values))["a"]
    assert float(first) == total
    assert second.numpy().tolist() == [total, total]
