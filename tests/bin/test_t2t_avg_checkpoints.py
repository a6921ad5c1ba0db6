"""t2t-avg-checkpoints, from a run's checkpoints to one that t2t-decoder reads."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from support.commands import exit_code, printed_by, refusal
from support.kept_runs import kept_folder
from support.limits import full_disk
from support.open_model_files import change_json
from support.small_runs import fill, make_run, save_weights
from t2t_lite.bin import t2t_avg_checkpoints
from t2t_lite.errors import UserError
from t2t_lite.runs import averaging, opening, run_folder, selection
from t2t_lite.runs.checkpoint_names import named_checkpoint

VALUES = {100: 1.0, 200: 4.0, 300: -2.0}


def average(run: run_folder.RunFolder, *flags: str) -> str:
    """Averages checkpoints of the run; returns the average's path, which is printed."""
    return printed_by(t2t_avg_checkpoints.main, f"--output_dir={run.folder}", *flags).strip()


def refused(run: run_folder.RunFolder, *flags: str, code: int = 1) -> str:
    return refusal(t2t_avg_checkpoints.main, f"--output_dir={run.folder}", *flags, code=code)


@pytest.fixture
def run(tmp_path: pathlib.Path) -> run_folder.RunFolder:
    """A run with three checkpoints; all weights of each have one value."""
    kept_folder(tmp_path / "run", make_three_checkpoints)
    return run_folder.RunFolder.open(str(tmp_path / "run"))


def make_three_checkpoints(folder: pathlib.Path) -> None:
    run = make_run(folder, num_hidden_layers=1, hidden_size=8)
    model = run.build_model()
    for step, value in VALUES.items():
        save_weights(run.folder, fill(model, value), step, optimizer=tf.Variable(5.0))


def weights(run: run_folder.RunFolder, path: str) -> tuple[int, set[float]]:
    """The step of a checkpoint, and all values in it."""
    model = run.build_model()
    step = run.restore_weights(model, path)
    return step, {float(x) for v in model.trainable_variables for x in np.ravel(v)}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("what", "mean"),
    [
        ("--num_last_checkpoints=3", 1.0),
        ("--num_last_checkpoints=2", 1.0),
        ("--num_last_checkpoints=1", -2.0),
        ("--checkpoints=100,300", -0.5),
        ("--checkpoints=100,newest", -0.5),
        ("--checkpoints=model.ckpt-100, model.ckpt-200,300", 1.0),
    ],
)
def test_weights_are_the_mean(run, what, mean):
    path = average(run, what)
    assert path == str(run.folder / "averaged.ckpt-300")
    assert weights(run, path) == (300, {mean})


@pytest.mark.integration
def test_the_best_are_those_of_the_evaluations(run):
    for step, bleu in ((100, 7.0), (200, 1.0), (300, 5.0)):
        record = {"kind": "eval", "step": step, "bleu": bleu, "loss": step / 100}
        with (run.folder / "metrics.jsonl").open("a") as lines:
            lines.write(json.dumps(record) + "\n")
    assert weights(run, average(run, "--num_best_checkpoints=2")) == (300, {-0.5})
    assert "3 checkpoints with a bleu" in refused(run, "--num_best_checkpoints=4")

    search = {"objective": "bleu", "maximize": False, "random_seed": 1}
    search |= {"problem": run.problem.name, "hparams": ""}
    (run.folder.parent / "search.json").write_text(json.dumps(search))
    assert weights(run, average(run, "--num_best_checkpoints=2")) == (300, {1.0})


@pytest.mark.integration
@pytest.mark.parametrize(
    ("minutes", "mean"),
    [
        ({100: 50, 200: 55, 300: 60}, -0.5),
        ({100: 46, 200: 49, 300: 60}, 1.0),
        ({100: 900, 200: 52, 300: 60}, 1.0),  # the clock was set back after the first
        ({100: 0, 200: 59, 300: 60}, None),
        ({100: 900, 200: 901, 300: 60}, None),
    ],
)
def test_by_time_those_nearest_are_taken_and_a_gap_is_an_error(run, minutes, mean):
    for step, minute in minutes.items():
        os.utime(f"{run.folder}/model.ckpt-{step}.index", (60 * minute, 60 * minute))
    flags = "--num_last_checkpoints=2", "--minutes_between_checkpoints=10"
    if mean is None:
        message = refused(run, *flags)
        assert "no checkpoint was saved about 10 minutes before" in message
        assert "--save_checkpoints_secs=600" in message
    else:
        assert weights(run, average(run, *flags)) == (300, {mean})


def test_one_checkpoint_by_two_names_is_refused(run):
    for path in run.folder.glob("model.ckpt-200.*"):
        shutil.copy(path, run.folder / path.name.replace("model", "best"))
    message = refused(run, "--checkpoints=200,best.ckpt-200,100")
    assert "model.ckpt-200 and " in message
    assert "best.ckpt-200 are the same checkpoint" in message


@pytest.mark.parametrize("what", ["model", "vocabulary"])
def test_checkpoints_of_unlike_runs_are_refused(run, tmp_path, monkeypatch, what):
    other = tmp_path / "other"
    shutil.copytree(run.folder, other)
    save_weights(other, fill(run.build_model(), 7.0), 100)
    if what == "model":
        flags = json.loads((other / "flags.json").read_text())
        (other / "flags.json").write_text(json.dumps(flags | {"model": "transformer_encoder"}))
    else:
        monkeypatch.setattr(averaging, "_vocabulary", lambda opened: [bytes(opened.folder)])
    message = refused(run, f"--checkpoints=100,{other}/model.ckpt-100")
    assert f"{other} has a different {what} from {run.folder}: average only" in message


@pytest.mark.integration
@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        ({"relu_dropout": 0.5, "guided_alignment_weight": 0.1, "batch_size": 7}, None),
        ({"num_heads": 4}, "other was trained with num_heads=4, but the average has 2"),
    ],
)
def test_checkpoints_of_two_trainings_have_a_mean(run, tmp_path, changed, warning, capsys):
    """A warning tells of models that compute otherwise with the same variables."""
    shutil.copytree(run.folder, tmp_path / "other")
    change_json(tmp_path / "other" / "hparams.json", **changed)
    save_weights(tmp_path / "other", fill(run.build_model(), 7.0), 100)
    path = average(run, f"--checkpoints=100,{tmp_path}/other/model.ckpt-100")
    assert weights(run, path) == (100, {4.0})
    told = capsys.readouterr().err
    assert (warning in told) if warning else ("trained with" not in told)


@pytest.mark.integration
def test_an_average_of_an_average_does_not_replace_it(run):
    average(run, "--num_last_checkpoints=2")
    error = refused(run, "--checkpoints=averaged.ckpt-300,model.ckpt-200")
    assert "averaged.ckpt-300 is a checkpoint of the run: choose another" in error
    assert weights(run, str(run.folder / "averaged.ckpt-300")) == (300, {1.0})


@pytest.mark.integration
def test_a_copy_over_a_checkpoint_of_the_run_is_refused(run):
    average(run, "--num_last_checkpoints=2")
    opening.refuse_inference_only(run.folder)
    for path in run.folder.glob("averaged.ckpt-300.*"):
        path.replace(run.folder / path.name.replace("averaged", "model"))
    with pytest.raises(UserError, match=r"model\.ckpt-300 is an average or imported, for inf"):
        opening.refuse_inference_only(run.folder)


@pytest.mark.integration
def test_training_does_not_resume_from_it(run):
    before = run.latest_checkpoint()
    average(run, "--num_last_checkpoints=2")
    assert run.latest_checkpoint() == before
    assert before.endswith("model.ckpt-300")
    names = [name for name, _ in tf.train.list_variables(str(run.folder / "averaged.ckpt-300"))]
    assert not any("optimizer" in name for name in names)


@pytest.mark.integration
def test_writes_to_the_given_path(run, tmp_path):
    path = str(tmp_path / "new" / "mean.ckpt")
    assert average(run, "--checkpoints=100,200", f"--output_path={path}") == path
    assert weights(run, path) == (200, {2.5})


@pytest.mark.integration
def test_a_second_average_takes_the_place_of_the_first(run):
    for what, mean in (("--checkpoints=100,300", -0.5), ("--checkpoints=200,300", 1.0)):
        assert weights(run, average(run, what)) == (300, {mean})
    assert not list(run.folder.glob("*.incomplete*"))


@pytest.mark.parametrize("name", ["model.ckpt-300", "best.ckpt-300"])
def test_a_checkpoint_of_the_run_is_never_overwritten(run, name):
    selection.keep_best(run.folder, [300])
    path = run.folder / name
    before = pathlib.Path(f"{path}.index").read_bytes()
    error = refused(run, "--checkpoints=100,200", f"--output_path={path}")
    assert "is a checkpoint of the run" in error
    assert pathlib.Path(f"{path}.index").read_bytes() == before


@pytest.mark.integration
def test_a_full_disk_leaves_the_average_before(run, capsys):
    path = average(run, "--checkpoints=100,300")
    with full_disk(100):
        main = t2t_avg_checkpoints.main
        assert exit_code(main, f"--output_dir={run.folder}", "--checkpoints=200,300") == 1
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert f"cannot write {path}" in line
    assert weights(run, path) == (300, {-0.5})
    assert not list(run.folder.glob("*.incomplete*"))


@pytest.mark.integration
def test_what_was_deleted_is_not_counted(run):
    for path in run.folder.glob("model.ckpt-100.*"):
        path.unlink()
    assert "2 checkpoints, fewer than 3" in refused(run, "--num_last_checkpoints=3")
    assert weights(run, average(run, "--num_last_checkpoints=2")) == (300, {1.0})


@pytest.mark.integration
@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 2, "--num_last_checkpoints=N, --num_best_checkpoints=N or --checkpoints=A,B"),
        (["--num_best_checkpoints=1"], 1, "has a finite bleu: train until"),
        (["--checkpoints=1", "--minutes_between_checkpoints=1"], 2, "needs --num_last_checkpoints"),
        (["--num_last_checkpoints=1", "--checkpoints=100"], 2, "either"),
        (["--num_last_checkpoints=9"], 1, "3 checkpoints, fewer than 9"),
        (["--checkpoints=100,150"], 1, "has no checkpoint '150'"),
        (["--checkpoints=100,model.ckpt-100"], 2, "model.ckpt-100 is named twice"),
        (["--prefix=run/", "--num_last_checkpoints=1"], 2, "--prefix is refused: write --output_"),
    ],
)
def test_usage_errors_are_one_line(run, flags, code, message):
    assert message in refused(run, *flags, code=code)
    assert not list(run.folder.glob("averaged*"))


@pytest.mark.integration
def test_an_average_says_what_it_is_made_of(run, capsys):
    for what in ("--checkpoints=100,300", "--checkpoints=200,300"):
        average(run, what)
    said = averaging.made_of(str(run.folder / "averaged.ckpt-300"))
    assert said["n"] == 2
    assert [name for name, _ in said["checkpoints"]] == ["model.ckpt-200", "model.ckpt-300"]
    line = "averaged.ckpt-300 was the average of model.ckpt-100, model.ckpt-300 and is replaced"
    assert line in capsys.readouterr().err


@pytest.mark.integration
def test_a_stale_average_is_not_taken_for_one_of_the_run(run):
    average(run, "--num_last_checkpoints=2")
    path = named_checkpoint("averaged", str(run.folder))
    other = run.folder / "model.ckpt-100.index"
    (run.folder / "model.ckpt-300.index").write_bytes(other.read_bytes())
    with pytest.raises(
        UserError, match=r"averaged\.ckpt-300 was made of checkpoints that have since been replaced"
    ):
        named_checkpoint("averaged", str(run.folder))
    assert named_checkpoint("averaged.ckpt-300", str(run.folder)) == path
    for file in run.folder.glob("model.ckpt-*"):
        file.unlink()
    assert named_checkpoint("averaged", str(run.folder)) == path, "they may be gone"
