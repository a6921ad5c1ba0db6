import os

import numpy as np
import pytest

from support.small_runs import fill, make_run, save_weights
from t2t_lite.errors import UserError
from t2t_lite.runs import averaging, run_folder
from t2t_lite.runs.checkpoint_names import named_checkpoint


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints whose weights are all 1, 2 and 6, at steps 10, 20 and 30."""
    made = make_run(tmp_path, num_hidden_layers=1, hidden_size=8)
    model = made.build_model()
    for number, value in ((10, 1.0), (20, 2.0), (30, 6.0)):
        prefix = save_weights(tmp_path, fill(model, value), number)
        os.utime(f"{prefix}.index", times=(60 * number, 60 * number))  # a step takes a minute
    return made


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
def test_a_checkpoint_that_is_replaced_while_it_is_read_is_in_no_average(run, monkeypatch):
    paths = averaging.newest_checkpoints(run.folder, 3)
    restore = run_folder.RunFolder.restore_weights

    def replaced(self, model, path):
        step = restore(self, model, path)
        if path == paths[1]:
            save_weights(run.folder, fill(run.build_model(), 8.0), 20)
        return step

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.RunFolder, "restore_weights", replaced)
        with pytest.raises(UserError, match=r"ckpt-20\.index was replaced while this command read"):
            averaging.average(run, paths)
    assert not list(run.folder.glob("averaged.*"))
    model, _, _ = run.load_model(averaging.average(run, paths))
    assert all(np.all(variable.numpy() == 5.0) for variable in model.trainable_variables)


@pytest.mark.integration
def test_a_checkpoint_that_training_deletes_once_it_is_read_does_no_harm(run, monkeypatch):
    paths = averaging.newest_checkpoints(run.folder, 2)
    restore = run_folder.RunFolder.restore_weights

    def deleting(self, model, path):
        if path == paths[1]:
            os.remove(f"{paths[0]}.index")
        return restore(self, model, path)

    monkeypatch.setattr(run_folder.RunFolder, "restore_weights", deleting)
    recipe = averaging.made_of(averaging.average(run, paths))
    assert [name for name, _ in recipe["checkpoints"]] == ["model.ckpt-20", "model.ckpt-30"]
