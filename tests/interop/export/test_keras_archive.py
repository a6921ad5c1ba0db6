"""The `.keras` file is the model."""

import os
import re

import numpy as np
import pytest

from support.exported_runs import made_run
from t2t_lite.interop.export import keras_archive


@pytest.mark.integration
def test_the_readme_beside_it_loads_a_model_with_the_same_logits(make_run, tmp_path, monkeypatch):
    run = make_run("transformer", "text2text_tmpdir_bpe")
    keras_archive.export(run, str(run.folder / "model.ckpt-7"), str(tmp_path))
    folder = tmp_path / "keras" / "1"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```", readme, re.M | re.S)[1]
    ids = {name: np.array([[5, 9, 7, 1], [8, 1, 0, 0]]) for name in ("source_ids", "target_ids")}
    monkeypatch.chdir(folder)
    exec(code, ids)
    model = run.build_model()
    run.restore_weights(model)
    expected = model({"inputs": ids["source_ids"], "targets": ids["target_ids"]})
    np.testing.assert_array_equal(ids["logits"], expected)
    assert set(os.listdir()) == {"README.md", "model.keras", *run.problem.vocab_files()}


def test_a_vocabulary_in_a_folder_of_its_own_is_copied(tmp_path, monkeypatch):
    run = made_run(tmp_path, hidden_size=8, num_heads=1, num_hidden_layers=1)
    monkeypatch.setattr(run.problem, "vocab_files", lambda: ["vocab/x.model"])
    path = tmp_path / "vocab" / "x.model"
    path.parent.mkdir()
    (tmp_path / "vocab.model").rename(path)
    keras_archive.export(run, None, str(tmp_path / "out"))
    assert (tmp_path / "out/keras/1/vocab/x.model").read_bytes() == path.read_bytes()
