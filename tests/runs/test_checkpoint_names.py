"""Naming a checkpoint together with its run folder."""

import pytest

from support.small_runs import make_run, save_weights
from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoint_names import checkpoint_of_run


@pytest.mark.integration
def test_a_run_folder_is_its_newest_and_a_name_behind_it_is_in_it(tmp_path):
    opened = make_run(tmp_path / "run")
    model = opened.build_model()
    first, last = (save_weights(opened.folder, model, step) for step in (3, 12))
    assert checkpoint_of_run(str(tmp_path / "run")) == last
    for name in ("3", "model.ckpt-3"):
        assert checkpoint_of_run(f"{tmp_path}/run/{name}") == first
    assert checkpoint_of_run(f"{tmp_path}/run/newest/") == last
    with pytest.raises(UserError, match="no checkpoint '5'"):
        checkpoint_of_run(f"{tmp_path}/run/5")


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path}/none"):
        checkpoint_of_run(f"{tmp_path}/none")
