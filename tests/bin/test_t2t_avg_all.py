"""t2t-avg-all: a run folder of sliding averages."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry, run_folder
from t2t_lite.bin import t2t_avg_all

FLAGS = {
    "random_seed": 1,
    "parts": 1,
    "problem": "algorithmic_reverse_decimal40",
    "model": "transformer",
    "hparams_set": "transformer_test",
}


def average_all(*argv: str) -> int:
    with pytest.raises(SystemExit) as end:
        t2t_avg_all.main(argv)
    return end.value.code


@pytest.fixture
def add(tmp_path: pathlib.Path):
    """Returns a function that adds a checkpoint, all weights of one value, to the run `run`."""
    folder = tmp_path / "run"
    hparams = registry.hparams("transformer_test").override("num_hidden_layers=1,hidden_size=8")
    run = run_folder.create_run(
        FLAGS | {"output_dir": str(folder)}, hparams.freeze(), str(tmp_path)
    )
    model, step = run.build_model(), tf.Variable(0, dtype=tf.int64)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, step=step),
        str(folder),
        max_to_keep=9,
        checkpoint_name=run_folder.CHECKPOINT_NAME,
    )

    def save(number: int, value: float) -> None:
        for variable in model.trainable_variables:
            variable.assign(tf.fill(variable.shape, value))
        step.assign(number)
        manager.save(number)

    for number, value in ((1, 1.0), (2, 4.0), (3, -2.0), (10, 6.0)):
        save(number, value)
    return save


def means(folder: pathlib.Path) -> dict[int, set[float]]:
    """The values in each checkpoint of a run folder, by its step."""
    run = run_folder.open_run(str(folder))
    model = run.build_model()
    found = {}
    for path in tf.train.get_checkpoint_state(str(folder)).all_model_checkpoint_paths:
        step = run.restore_weights(model, path)
        assert path == str(folder / f"model.ckpt-{step}")
        found[step] = {float(x) for v in model.trainable_variables for x in np.ravel(v)}
    return found


def test_each_is_the_mean_of_a_checkpoint_and_those_before(add, tmp_path, capsys):
    flags = f"--model_dir={tmp_path / 'run'}", f"--output_dir={tmp_path / 'avg'}"
    assert average_all(*flags, "--n=2") == 0
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}}
    assert len(capsys.readouterr().out.splitlines()) == 3
    add(11, 0.0)
    assert average_all(*flags, "--n=2") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "avg" / "model.ckpt-11")]
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}, 11: {3.0}}


def test_early_checkpoints_are_passed_over(add, tmp_path):
    flags = f"--model_dir={tmp_path / 'run'}", f"--output_dir={tmp_path / 'avg'}"
    assert average_all(*flags, "--n=2", "--min_steps=3") == 0
    assert means(tmp_path / "avg") == {10: {2.0}}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--n=5"], "4 checkpoints from step 0 on, fewer than 5"),
        (["--n=2", "--min_steps=4"], "1 checkpoints from step 4 on, fewer than 2"),
        (["--n=2", "--output_dir={run}"], "holds checkpoints of a run: name another --output_dir"),
    ],
)
def test_what_a_user_can_mend_is_one_line(add, tmp_path, capsys, flags, message):
    run = tmp_path / "run"
    before = sorted(path.name for path in run.iterdir())
    words = [flag.format(run=run) for flag in flags]
    code = average_all(f"--model_dir={run}", f"--output_dir={tmp_path / 'avg'}", *words)
    assert code == 1
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in run.iterdir()) == before
    assert not (tmp_path / "avg").exists()
