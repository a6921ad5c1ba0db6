import pathlib

import pytest
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files


def saved(folder: pathlib.Path, step: int) -> str:
    """Writes a checkpoint of one value, its step; returns its prefix."""
    return tf.train.Checkpoint(step=tf.Variable(step)).write(f"{folder}/model.ckpt-{step}")


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path):
    paths = [saved(tmp_path, step) for step in (100, 20, 3)]
    (tmp_path / "model.ckpt-7.index.incomplete").touch()
    assert checkpoint_files.checkpoints(tmp_path) == paths[::-1]


def test_the_newest_readable_checkpoint_is_read(tmp_path, caplog):
    assert checkpoint_files.read_newest(tmp_path, checkpoint_files.read_all) is None
    paths = [saved(tmp_path, step) for step in (3, 20, 100)]
    assert checkpoint_files.read_newest(tmp_path, checkpoint_files.read_all) == paths[2]
    assert not caplog.records
    for path in paths[1:]:
        pathlib.Path(f"{path}.data-00000-of-00001").write_bytes(b"")
    assert checkpoint_files.read_newest(tmp_path, checkpoint_files.read_all) == paths[0]
    assert [path in caplog.text for path in paths] == [False, True, True]
    pathlib.Path(f"{paths[0]}.index").write_bytes(b"")
    with pytest.raises(UserError, match=r"no checkpoint in .* can be read: .*-100 .*-20 .*-3 "):
        checkpoint_files.read_newest(tmp_path, checkpoint_files.read_all)


def test_names_are_split_at_commas_that_no_path_has(tmp_path):
    for name in ("a,b.ckpt-1", "a"):
        (tmp_path / f"{name}.index").touch()
    split = checkpoint_files.split_checkpoints
    assert split("a,b.ckpt-1, a,,best", str(tmp_path)) == ["a,b.ckpt-1", "a", "best"]
    assert split(f"{tmp_path}/a,b.ckpt-1,7") == [f"{tmp_path}/a,b.ckpt-1", "7"]
