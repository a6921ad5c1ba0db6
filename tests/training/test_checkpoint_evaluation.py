"""Comparing the checkpoints of several runs: only on the same texts."""

import pytest

from support.copying import BytesAlone
from support.small_runs import make_run
from t2t_lite.data import records
from t2t_lite.errors import UserError
from t2t_lite.runs import run_folder
from t2t_lite.training import checkpoint_evaluation, devices


def run_of(folder, texts) -> str:
    """Returns a checkpoint's name in the folder of a run without weights."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 8}
    run = make_run(folder, BytesAlone().name, data_dir=folder, **sizes)
    encode = run.encoders["targets"].encode
    (path, *_) = run.problem.filepaths(str(folder), "eval")
    records.write_examples(path, [{"targets": [*encode(text), 1]} for text in texts])
    return str(folder / "model.ckpt-1")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("texts", "fits"),
    [(["ab", "cde"], True), (["ab", "cdf"], False), (["ab"], False), (["cde", "ab"], False)],
)
def test_language_models_are_compared_on_the_same_texts(texts, fits, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder.RunFolder, "restore_weights", lambda *args: 1)
    monkeypatch.setattr(
        checkpoint_evaluation, "TeacherForced", lambda *args: lambda *args, **kwargs: {"loss": 1.0}
    )
    names = [run_of(tmp_path / name, t) for name, t in (("a", ["ab", "cde"]), ("b", texts))]

    def compare():
        return checkpoint_evaluation.score_checkpoints(names, devices.make_strategy(0), "eval")

    if fits:
        assert [one.values for one in compare()] == [{"loss": 1.0}] * 2
    else:
        with pytest.raises(UserError, match=r"the eval sets of .*a, .*b differ: name one"):
            compare()


def test_missing_data_of_any_run_is_named_before_a_model_is_built(tmp_path, monkeypatch):
    names = [run_of(tmp_path / name, ["ab"]) for name in ("a", "b")]
    (missing,) = (tmp_path / "b").glob("*-dev-*")
    missing.unlink()
    monkeypatch.setattr(run_folder.RunFolder, "build_model", pytest.fail)
    with pytest.raises(
        UserError, match=f"{missing} is missing; .* name its folder with --data_dir"
    ):
        checkpoint_evaluation.score_checkpoints(names, devices.make_strategy(0), "eval")
