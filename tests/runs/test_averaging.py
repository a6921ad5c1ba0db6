import os

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.runs import averaging, run_folder
from t2t_lite.runs.checkpoint_names import named_checkpoint


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints whose weights are all 1, 2 and 6, at steps 10, 20 and 30."""
    hparams = registry.hparams("transformer_test").override("num_hidden_layers=1,hidden_size=8")
    flags = {"problem": "algorithmic_reverse_decimal40", "random_seed": 1, "parts": 1}
    flags |= {"model": "transformer", "hparams_set": "transformer_test"}
    flags |= {"output_dir": str(tmp_path)}
    made = run_folder.create_run(flags, hparams.freeze(), str(tmp_path))
    model, step = made.build_model(), tf.Variable(0, dtype=tf.int64)
    for number, value in ((10, 1.0), (20, 2.0), (30, 6.0)):
        step.assign(number)
        for variable in model.trainable_variables:
            variable.assign(tf.fill(variable.shape, value))
        prefix = f"{tmp_path}/model.ckpt-{number}"
        tf.train.Checkpoint(model=model, step=step).write(prefix)
        os.utime(f"{prefix}.index", times=(60 * number, 60 * number))  # a step takes a minute
    return made


def test_an_average_is_the_mean_and_the_newest_is_found_by_its_time(run):
    paths = averaging.newest_checkpoints(run.folder, 3)
    last = averaging.average(run, paths)
    model, step, _ = run.load_model(last)
    assert step == 30
    assert all(np.all(variable.numpy() == 3.0) for variable in model.trainable_variables)
    first = averaging.average(run, paths[:2])
    assert [os.path.basename(path) for path in (first, last)] == [
        "averaged.ckpt-20",
        "averaged.ckpt-30",
    ]
    for newest, older in ((first, last), (last, first)):
        os.utime(f"{newest}.index", times=(200, 200))
        os.utime(f"{older}.index", times=(100, 100))
        assert named_checkpoint("averaged", str(run.folder)) == newest


@pytest.mark.parametrize(
    ("minutes", "steps"), [(0, [20, 30]), (9, [20, 30]), (18, [10, 30]), (6, None), (50, None)]
)
def test_checkpoints_are_as_far_apart_as_asked(run, minutes, steps):
    """None: the nearest is off by more than half of the time."""
    if steps is None:
        with pytest.raises(UserError, match=f"about {minutes} minutes before .*model.ckpt-30"):
            averaging.newest_checkpoints(run.folder, 2, minutes)
    else:
        found = averaging.newest_checkpoints(run.folder, 2, minutes)
        assert found == [str(run.folder / f"model.ckpt-{step}") for step in steps]
