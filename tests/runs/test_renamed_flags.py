"""Settings that an older release wrote under another name are read under the current one."""

import json
import pathlib

from t2t_lite.runs import run_folder
from t2t_lite.training.config import TrainerConfig


def test_flags_of_an_older_release_are_read_by_todays_names(tmp_path: pathlib.Path):
    old = {"problem": "p", "model": "m", "hparams_set": "h", "max_train_minutes": 1.5}
    (tmp_path / "flags.json").write_text(json.dumps(old))
    (tmp_path / "hparams.json").write_text('{"hidden_size": 8}')
    flags = run_folder.read_flags(str(tmp_path))
    assert flags == {"problem": "p", "model": "m", "hparams_set": "h", "train_minutes": 1.5}
    assert run_folder.read_settings(str(tmp_path)) == flags | {"hidden_size": 8}
    needed = {"data_dir": "d", "output_dir": "o"}
    assert TrainerConfig(**flags, **needed).train_minutes == 1.5
