"""t2t-avg-all: a run folder of sliding averages."""

import functools
import hashlib
import itertools
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from support.commands import exit_code, refusal
from support.small_runs import fill, make_run, save_weights
from t2t_lite import registry, waiting
from t2t_lite.bin import t2t_avg_all
from t2t_lite.runs import averaging, checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_files import whole_checkpoints
from t2t_lite.runs.followers import delete_old

average_all = functools.partial(exit_code, t2t_avg_all.main)


@pytest.fixture(scope="module")
def model():
    """One model for all that is read and written here: building it takes most of the time."""
    hparams = registry.hparams("transformer_test").override("num_hidden_layers=1,hidden_size=8")
    return registry.model("transformer")(hparams.freeze(), 16, 16)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory) -> pathlib.Path:
    """The checkpoints that each run begins with."""
    folder = tmp_path_factory.mktemp("written")
    for number, value in ((1, 1.0), (2, 4.0), (3, -2.0), (10, 6.0)):
        save_weights(folder, fill(model, value), number)
    return folder


@pytest.fixture
def add(tmp_path: pathlib.Path, model, written, monkeypatch):
    """Returns a function that adds a checkpoint, all weights of one value, to the run `run`."""
    run = make_run(tmp_path / "run", num_hidden_layers=1, hidden_size=8)
    monkeypatch.setattr(run_folder.RunFolder, "build_model", lambda self: model)

    def save(number: int, value: float) -> None:
        save_weights(run.folder, fill(model, value), number)

    shutil.copytree(written, run.folder, dirs_exist_ok=True)
    return save


def flags(tmp_path: pathlib.Path, count: int = 2, run: str = "run") -> tuple[str, ...]:
    return f"--model_dir={tmp_path / run}", f"--output_dir={tmp_path / 'avg'}", f"--n={count}"


def means(folder: pathlib.Path) -> dict[int, set[float]]:
    """The values in each checkpoint of a run folder, by its step."""
    run = run_folder.RunFolder.open(str(folder))
    model = run.build_model()
    found = {}
    for path in tf.train.get_checkpoint_state(str(folder)).all_model_checkpoint_paths:
        step = run.restore_weights(model, path)
        assert path == str(folder / f"model.ckpt-{step}")
        found[step] = {float(x) for v in model.trainable_variables for x in np.ravel(v)}
    return found


@pytest.mark.integration
def test_each_is_the_mean_of_a_checkpoint_and_those_before(add, tmp_path, capsys):
    assert average_all(*flags(tmp_path)) == 0
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}}
    assert len(capsys.readouterr().out.splitlines()) == 3
    add(11, 0.0)
    assert average_all(*flags(tmp_path)) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "avg" / "model.ckpt-11")]
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}, 11: {3.0}}


@pytest.mark.integration
def test_early_checkpoints_are_passed_over(add, tmp_path):
    assert average_all(*flags(tmp_path), "--min_steps=3") == 0
    assert means(tmp_path / "avg") == {10: {2.0}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n=5"], "4 checkpoints from step 0 on, fewer than 5"),
        (["--n=2", "--min_steps=4"], "1 checkpoints from step 4 on, fewer than 2"),
        (["--output_dir={run}"], "holds checkpoints of a run: choose another --output_dir"),
    ],
)
def test_usage_errors_are_one_line(add, tmp_path, words, message):
    run = tmp_path / "run"
    before = sorted(path.name for path in run.iterdir())
    words = [word.format(run=run) for word in words]
    assert message in refusal(t2t_avg_all.main, *flags(tmp_path), *words, code=1)
    assert sorted(path.name for path in run.iterdir()) == before
    assert not (tmp_path / "avg").exists()


@pytest.mark.integration
def test_a_mean_says_what_it_is_made_of(add, tmp_path):
    assert average_all(*flags(tmp_path)) == 0
    index = tmp_path / "run" / "model.ckpt-10.index"
    said = averaging.made_of(str(tmp_path / "avg" / "model.ckpt-10"))
    assert said["n"] == 2
    assert [name for name, _ in said["checkpoints"]] == ["model.ckpt-3", "model.ckpt-10"]
    assert said["checkpoints"][1][1] == hashlib.sha256(index.read_bytes()).hexdigest()


@pytest.mark.integration
def test_means_of_another_number_are_recomputed(add, tmp_path, capsys):
    assert average_all(*flags(tmp_path)) == 0
    capsys.readouterr()
    assert average_all(*flags(tmp_path, 3)) == 0
    printed = capsys.readouterr()
    assert [pathlib.Path(line).name for line in printed.out.splitlines()] == [
        "model.ckpt-3",
        "model.ckpt-10",
    ]
    assert (
        "model.ckpt-3 was made of other checkpoints (model.ckpt-2, model.ckpt-3): it is"
        in printed.err
    )
    assert (
        "model.ckpt-2 was made of other checkpoints (model.ckpt-1, model.ckpt-2): it is"
        in printed.err
    )
    found = means(tmp_path / "avg")
    assert found == {3: {1.0}, 10: {float(np.float32(8 / 3))}}


@pytest.mark.integration
def test_means_of_another_run_are_all_recomputed(add, tmp_path, capsys):
    add(11, 0.0)
    add(12, 2.0)
    assert average_all(*flags(tmp_path)) == 0
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    for step in (3, 10, 11, 12):
        for path in (tmp_path / "other").glob(f"model.ckpt-{step}.*"):
            path.unlink()
    change(tmp_path / "other", 2, 8.0)
    capsys.readouterr()
    assert average_all(*flags(tmp_path, run="other")) == 0
    assert "model.ckpt-12 was made of checkpoints that are not here: it is deleted" in (
        capsys.readouterr().err
    )
    assert means(tmp_path / "avg") == {2: {4.5}}


def change(folder: pathlib.Path, step: int, value: float) -> None:
    """Writes one of a run's checkpoints anew."""
    save_weights(folder, fill(run_folder.RunFolder.open(str(folder)).build_model(), value), step)


@pytest.mark.integration
def test_means_whose_checkpoints_are_gone_stay(add, tmp_path, capsys):
    assert average_all(*flags(tmp_path)) == 0
    for step in (1, 2):
        for path in (tmp_path / "run").glob(f"model.ckpt-{step}.*"):
            path.unlink()
    assert average_all(*flags(tmp_path)) == 0
    assert "kept 1 averages of checkpoints that are no longer in" in capsys.readouterr().err
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}}


@pytest.mark.integration
def test_means_of_older_releases_are_recomputed(add, tmp_path, capsys):
    assert average_all(*flags(tmp_path)) == 0
    folder = tmp_path / "avg"
    run = run_folder.RunFolder.open(str(folder))
    model = run.build_model()
    saved = tf.train.Checkpoint(
        model=model, step=tf.Variable(3, dtype=tf.int64), inference_only=tf.Variable(True)
    )
    tf.train.CheckpointManager(saved, str(folder), None, checkpoint_name="model.ckpt").save(3)
    capsys.readouterr()
    assert average_all(*flags(tmp_path)) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [str(folder / "model.ckpt-3")]
    assert "model.ckpt-3 has no record of what it was made of: it is replaced" in printed.err
    assert means(folder) == {2: {2.5}, 3: {1.0}, 10: {2.0}}


@pytest.mark.integration
@pytest.mark.parametrize("left", ["no index", "no values", "half the values", "half the index"])
def test_a_half_written_mean_blocks_nothing(add, tmp_path, left):
    assert average_all(*flags(tmp_path)) == 0
    path = tmp_path / "avg" / "model.ckpt-3"
    index, values = pathlib.Path(f"{path}.index"), pathlib.Path(f"{path}.data-00000-of-00001")
    torn = index if "index" in left else values
    if "half" in left:
        torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    else:
        torn.unlink()
    assert average_all(*flags(tmp_path)) == 0
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}}
    assert sorted(file.name for file in (tmp_path / "avg").glob("model*")) == [
        f"model.ckpt-{step}.{end}"
        for step in (10, 2, 3)
        for end in ("data-00000-of-00001", "index")
    ]


@pytest.mark.integration
@pytest.mark.parametrize("writes", [0, 3, 4, 5, 6])  # three are of settings
def test_a_kill_at_any_moment_leaves_what_is_made_good(add, tmp_path, monkeypatch, writes):
    class KilledError(BaseException):
        pass

    done = []

    def replace(*paths, replace=os.replace):
        if len(done) == writes:
            raise KilledError
        done.append(replace(*paths))

    assert average_all(*flags(tmp_path, 3)) == 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KilledError):
            t2t_avg_all.main(flags(tmp_path))
    assert average_all(*flags(tmp_path)) == 0
    assert means(tmp_path / "avg") == {2: {2.5}, 3: {1.0}, 10: {2.0}}


@pytest.mark.parametrize("name", ["metrics.jsonl", "the run itself", "settings"])
def test_folders_of_other_runs_are_left_alone(add, tmp_path, capsys, name):
    folder = tmp_path / "avg"
    if name == "metrics.jsonl":
        folder.mkdir()
        (folder / "model.ckpt-2.index").write_bytes(b"torn")
        (folder / name).write_text("")
    elif name == "settings":
        assert average_all(*flags(tmp_path)) == 0
        hparams = json.loads((folder / "hparams.json").read_text()) | {"max_length": 9}
        (folder / "hparams.json").write_text(json.dumps(hparams))
    else:
        folder.symlink_to(tmp_path / "run")
        for path in (tmp_path / "run").glob("model.ckpt-*"):
            if path.suffix == ".index":
                path.write_bytes(b"torn")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert average_all(*flags(tmp_path)) == 1
    assert "another --output_dir" in capsys.readouterr().err.lower()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_averages_that_were_evaluated_are_averages(add, tmp_path):
    assert average_all(*flags(tmp_path)) == 0
    record = json.dumps({"kind": "evaluate", "step": 10, "loss": 1.0})
    (tmp_path / "avg" / "metrics.jsonl").write_text(f"{record}\n")
    assert average_all(*flags(tmp_path)) == 0


@pytest.fixture
def arriving(add, tmp_path, monkeypatch):
    """Returns a function that averages a training, which saves after each new average."""
    path = tmp_path / "run" / "flags.json"
    monkeypatch.setattr(waiting, "_POLL", 0.001)

    def average(*others: str, steps: list[int], saved=lambda step: None) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"train_steps": steps[-1]}))
        written, later = averaging.Mean.write, iter(steps)

        def write(mean, path):
            written(mean, path)
            for step in itertools.islice(later, 1):
                add(step, float(step))
                saved(step)

        monkeypatch.setattr(averaging.Mean, "write", write)
        assert average_all(*others, "--wait_minutes=-1") == 0

    return average


@pytest.mark.integration
def test_a_trainer_that_keeps_few_checkpoints_is_no_error_in_the_end(arriving, tmp_path, capsys):
    path = tmp_path / "run" / "flags.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"keep_checkpoint_max": 1}))
    arriving(*flags(tmp_path, 3), "--min_steps=2", steps=[20, 30])
    steps = [int(line.rpartition("-")[2]) for line in capsys.readouterr().out.splitlines()]
    assert steps == [10, 20, 30]


@pytest.mark.integration
def test_averages_of_checkpoints_that_come_later(arriving, tmp_path, capsys):
    """The trainer deletes no checkpoint that the next average needs."""

    def delete(step: int) -> None:
        delete_old(tmp_path / "run", whole_checkpoints(tmp_path / "run"), keep=1)

    arriving(*flags(tmp_path, 3), "--min_steps=2", steps=[20, 30], saved=delete)
    steps = [int(line.rpartition("-")[2]) for line in capsys.readouterr().out.splitlines()]
    assert steps == [10, 20, 30]


def test_too_few_checkpoints_are_an_error_after_the_wait_too(add, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(waiting, "_POLL", 0.001)
    assert average_all(*flags(tmp_path, 9), "--wait_minutes=0.001") == 1
    assert "fewer than 9: lower --n" in capsys.readouterr().err


@pytest.mark.integration
def test_means_of_another_number_are_recomputed_beside_a_training_too(
    add, tmp_path, capsys, monkeypatch
):
    """Or are an error, as without a wait; but right ones whose checkpoints are gone are none."""
    monkeypatch.setattr(waiting, "_POLL", 0.001)
    assert average_all(*flags(tmp_path, 1)) == 0
    assert average_all(*flags(tmp_path, 5), "--wait_minutes=0.001") == 1
    assert "fewer than 5: lower --n" in capsys.readouterr().err
    assert average_all(*flags(tmp_path, 3), "--wait_minutes=0.001") == 0
    wanted = {3: {1.0}, 10: {float(np.float32(8 / 3))}}
    assert means(tmp_path / "avg") == wanted
    for path in (tmp_path / "run").glob("model.ckpt-[12].*"):
        path.unlink()
    assert average_all(*flags(tmp_path, 3), "--wait_minutes=0.001") == 0
    assert means(tmp_path / "avg") == wanted


@pytest.mark.integration
def test_what_was_averaged_before_is_not_read_for_each_new_checkpoint(
    add, arriving, tmp_path, monkeypatch
):
    assert average_all(*flags(tmp_path)) == 0
    read, built = [], []
    damage, build = checkpoint_files.damage, run_folder.RunFolder.build_model
    monkeypatch.setattr(checkpoint_files, "damage", lambda path: read.append(path) or damage(path))
    monkeypatch.setattr(
        run_folder.RunFolder, "build_model", lambda run: built.append(run) or build(run)
    )
    add(20, 20.0)
    arriving(*flags(tmp_path), steps=[30, 40, 50])
    assert [os.path.basename(path) for path in read] == [
        f"model.ckpt-{step}" for step in (2, 3, 10)
    ]
    assert len(built) == 1
    assert means(tmp_path / "avg") == {
        2: {2.5},
        3: {1.0},
        10: {2.0},
        20: {13.0},
        30: {25.0},
        40: {35.0},
        50: {45.0},
    }


@pytest.mark.integration
def test_a_checkpoint_replaced_while_others_come_is_averaged_anew(add, arriving, tmp_path):
    def replace(step: int) -> None:
        if step == 30:
            add(3, 16.0)

    add(20, 20.0)
    arriving(*flags(tmp_path), steps=[30, 40], saved=replace)
    assert means(tmp_path / "avg") == {
        2: {2.5},
        3: {10.0},
        10: {11.0},
        20: {13.0},
        30: {25.0},
        40: {35.0},
    }
