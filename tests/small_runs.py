"""Short trainings of a small model on `data_dir`, and the comparison of their results."""

import pathlib

import numpy as np
import tensorflow as tf

from t2t_lite.runs import checkpoint_files
from t2t_lite.training.config import TrainerConfig

HPARAMS = "batch_size=64,max_length=16,num_hidden_layers=1"


def make_config(
    data_dir, output_dir, hparams: str = "batch_shuffle_size=2", **changes
) -> TrainerConfig:
    """Returns the configuration of a short training.

    Args:
        data_dir: folder of the data.
        output_dir: the run folder.
        hparams: further hyperparameters.
        **changes: other fields of `TrainerConfig`.
    """
    settings = {
        "data_dir": str(data_dir),
        "output_dir": str(output_dir),
        "problem": "text2text_tmpdir",
        "model": "transformer",
        "hparams_set": "transformer_test",
        "hparams": f"{HPARAMS},{hparams}",
        "local_eval_frequency": 2,
        "log_step_count_steps": 2,
        "decode_hparams": "beam_size=1,extra_length=1",
        "random_seed": 5,
    }
    return TrainerConfig(**(settings | changes))


def newest_state(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the values of the newest checkpoint, without the position in the data."""
    reader = tf.train.load_checkpoint(checkpoint_files.checkpoints(folder)[-1])
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if not name.startswith(("batches", "_CHECKPOINTABLE"))
    }


def assert_equal_runs(one: pathlib.Path, other: pathlib.Path) -> None:
    """Compares the newest checkpoints and the metrics of two runs."""
    first, second = newest_state(one), newest_state(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name]), name
    metrics = [(folder / "metrics.jsonl").read_bytes() for folder in (one, other)]
    assert metrics[0] == metrics[1]
