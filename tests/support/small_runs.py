"""Short trainings of a small model on `data_dir`, and the comparison of their results."""

import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from support.kept_runs import kept_folder
from t2t_lite import registry
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, metrics_jsonl, run_creation, run_folder
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.training.config import TrainerConfig

HPARAMS = "batch_size=64,max_length=16,num_hidden_layers=1"


def make_config(
    data_dir, output_dir, hparams: str = "batch_shuffle_size=2", **changes
) -> TrainerConfig:
    """Returns the configuration of a short training.

    Args:
        data_dir: folder of the data.
        output_dir: the run folder.
        hparams: further hyperparameters.
        **changes: other fields of `TrainerConfig`.
    """
    settings = {
        "data_dir": str(data_dir),
        "output_dir": str(output_dir),
        "problem": "text2text_tmpdir",
        "model": "transformer",
        "hparams_set": "transformer_test",
        "hparams": f"{HPARAMS},{hparams}",
        "local_eval_frequency": 2,
        "log_step_count_steps": 2,
        "decode_hparams": "beam_size=1,extra_length=1",
        "random_seed": 5,
    }
    return TrainerConfig(**(settings | changes))


def newest_state(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the values of the newest checkpoint, without the position in the data."""
    reader = tf.train.load_checkpoint(checkpoint_files.checkpoints(folder)[-1])
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if not name.startswith(("batches", "_CHECKPOINTABLE"))
    }


def records_of(folder: pathlib.Path, kind: str = "") -> list[dict[str, Any]]:
    """Returns the records of metrics.jsonl, all or those of one kind."""
    records = [record for _, record in metrics_jsonl.read_records(folder)]
    return [record for record in records if kind in ("", record["kind"])]


def kinds_and_steps(folder: pathlib.Path) -> list[tuple[str, int]]:
    """Returns what each record of metrics.jsonl is of."""
    return [(record["kind"], record["step"]) for record in records_of(folder)]


def assert_equal_runs(one: pathlib.Path, other: pathlib.Path) -> None:
    """Compares the newest checkpoints and the metrics of two runs."""
    first, second = newest_state(one), newest_state(other)
    assert first.keys() == second.keys()
    assert any("optimizer" in name for name in first)
    for name, value in first.items():
        assert np.array_equal(value, second[name]), name
    metrics = [(folder / "metrics.jsonl").read_bytes() for folder in (one, other)]
    assert metrics[0] == metrics[1]


def make_run(
    folder: pathlib.Path,
    problem: str = "algorithmic_reverse_decimal40",
    model: str = "transformer",
    hparams_set: str = "transformer_test",
    data_dir: pathlib.Path | None = None,
    overrides: str = "",
    **hparams: Any,
) -> run_folder.RunFolder:
    """Makes a run folder that has no checkpoint yet; hparams are changed by text or by name."""
    flags = {"output_dir": str(folder), "problem": problem, "model": model}
    flags |= {"hparams_set": hparams_set, "random_seed": 1, "parts": 1}
    if data_dir is not None:
        flags["data_dir"] = str(data_dir)
    resolved = registry.hparams(hparams_set).override(overrides).copy(**hparams).freeze()
    return run_creation.create_run(RunSettings.of(flags), resolved, str(data_dir or folder))


def fill(model: Seq2Seq, value: float) -> Seq2Seq:
    """Gives all weights one value; returns the model."""
    for variable in model.trainable_variables:
        variable.assign(tf.fill(variable.shape, value))
    return model


def save_weights(folder: pathlib.Path, model: Seq2Seq, step: int = 7, **others: tf.Variable) -> str:
    """Writes a checkpoint of a model, and of what else is named; returns its prefix."""
    saved = tf.train.Checkpoint(model=model, step=tf.Variable(step, dtype=tf.int64), **others)
    return saved.write(f"{folder}/{checkpoint_files.CHECKPOINT_NAME}-{step}")


def noisy_run(folder: pathlib.Path, **sizes: int) -> run_folder.RunFolder:
    """Makes a run folder of a tiny Transformer for bytes, whose weights are noise."""
    kept_folder(folder, lambda made: _make_noisy_run(made, **sizes), sizes)
    return open_copy(folder, folder)


def open_copy(folder: pathlib.Path, data_dir: pathlib.Path) -> run_folder.RunFolder:
    """Opens a run folder that was made elsewhere, as if it had been made here."""
    path = folder / run_folder.FLAGS
    flags = json.loads(path.read_text(encoding="utf-8"))
    moved = {"output_dir": str(folder), "data_dir": str(data_dir)}
    flags |= {name: value for name, value in moved.items() if name in flags}
    path.write_text(json.dumps(flags, indent=1) + "\n", encoding="utf-8")
    return run_folder.RunFolder.open(str(folder))


def _make_noisy_run(folder: pathlib.Path, **sizes: int) -> None:
    problem = "translate_ende_wmt_characters"
    run = make_run(folder, problem, hparams_set="transformer_tiny", max_length=40, **sizes)
    model = run.build_model()
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = random.normal(size=variable.shape, scale=2.0 / variable.shape[0] ** 0.5)
        variable.assign(noise + (variable.name == "gamma"))
    save_weights(folder, model)


def generate_pairs(folder: pathlib.Path, problem: str, count: int) -> pathlib.Path:
    """Generates so many pairs to train on, and 6 to evaluate; returns the folder of the data."""
    text, data = folder / "text", folder / "data"
    text.mkdir(parents=True)
    for split, pairs in (("train", count), ("eval", 6)):
        for side in ("inputs", "targets"):
            lines = "".join(f"{i} and {i * 7 % 10}\n" for i in range(pairs))
            (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
    generate_data(registry.problem(problem), str(data), str(text))
    return data
