"""The devices that train: GPUs, one CPU, or a CPU split into logical devices."""

import tensorflow as tf

from t2t_lite.errors import UserError


def make_strategy(worker_gpu: int | None, simulate_devices: int = 0) -> tf.distribute.Strategy:
    """Returns a MirroredStrategy over the devices asked for.

    Must run before TensorFlow has touched its devices.

    Args:
        worker_gpu: how many GPUs to use; None: all there are, or the CPU if there is none.
        simulate_devices: splits the CPU into so many logical devices, each a replica; 0: not.

    Raises:
        UserError: fewer GPUs are there than were asked for.
    """
    if simulate_devices:
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
    return tf.distribute.MirroredStrategy([f"GPU:{i}" for i in range(wanted)] or ["CPU:0"])
