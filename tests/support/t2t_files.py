"""T2T's folders of a training, written for tests, and the import of one."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from support.commands import exit_code
from t2t_lite.bin import t2t_import
from t2t_lite.interop.imports import t2t_variables
from t2t_lite.models.transformer import Transformer
from t2t_lite.names import snake_case
from t2t_lite.runs import run_folder

STEP = 250_000


def write_checkpoint(folder: pathlib.Path, arrays: dict[str, np.ndarray], step: int = STEP) -> str:
    """Writes the variables of a model among those of an optimizer and T2T's counters."""
    slots = {f"training/{name}/Adam": array for name, array in arrays.items()}
    counters = {
        "global_step": np.int64(step),
        "training/beta1_power": np.float32(0.5),
        "losses_avg/problem_0/total_loss": np.float32(2.0),
        "train_stats/problem_0_steps": np.int32(7),
    }
    return write_values(folder, arrays | slots | counters, step)


def write_values(folder: pathlib.Path, values: dict[str, np.ndarray], step: int = STEP) -> str:
    """Writes a checkpoint as TF1's Saver does; returns its prefix."""
    folder.mkdir(exist_ok=True)
    prefix = str(folder / f"model.ckpt-{step}")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )
    return prefix


def write_flags(folder: pathlib.Path, **flags: str) -> None:
    """Writes the files of the trainer's flags."""
    lines = ["--noregistry_help", *(f"--{name}={value}" for name, value in flags.items())]
    (folder / "flags.txt").write_text("\n".join(lines))
    (folder / "flags_t2t.txt").write_text("--t2t_usr_dir=None\n--registry_help=False")


def write_tokens(folder: pathlib.Path, name: str, size: int) -> None:
    """Writes a vocabulary of type TOKEN."""
    folder.mkdir(exist_ok=True)
    tokens = [f"t{i}" for i in range(size - 3)]
    (folder / name).write_text("\n".join(["<pad>", "<EOS>", "<UNK>", *tokens]) + "\n")


def t2t_arrays(
    model: Transformer, shards: int = 3, target_space_id: int = 0
) -> dict[str, np.ndarray]:
    """The weights of a model by T2T's names, embeddings in shards of uneven size."""
    scope = snake_case(type(model).__name__)
    arrays = {}
    for variable, columns in t2t_variables.parts_of(model):
        borders = np.cumsum(list(columns.values()))[:-1]
        pieces = np.split(np.asarray(variable), borders, axis=-1)
        for name, piece in zip(columns, pieces, strict=True):
            if "/" in name:
                is_convolution = name.endswith("_single/kernel")
                arrays[name] = piece[None, None] if is_convolution else piece
                continue
            modality = f"{scope}/symbol_modality_{len(piece)}_{piece.shape[1]}/{name}"
            rows = np.array_split(piece, shards)
            arrays |= {f"{modality}/weights_{i}": part for i, part in enumerate(rows)}
    table = f"{scope}/body/target_space_embedding/kernel"
    if table in arrays:
        arrays[table] = np.roll(arrays[table], target_space_id, axis=0)
    return arrays


def import_run(folder: pathlib.Path, *flags: str) -> int:
    """Calls the command for the folders `t2t`, `data` and `run`; returns its exit code."""
    places = [
        f"--model_dir={folder}/t2t",
        f"--data_dir={folder}/data",
        f"--output_dir={folder}/run",
    ]
    return exit_code(t2t_import.main, *places, *flags)


def restored(folder: pathlib.Path) -> tuple[run_folder.RunFolder, Transformer]:
    """Returns the imported run, and its model with the weights."""
    run = run_folder.RunFolder.open(str(folder / "run"))
    model = run.build_model()
    assert run.restore_weights(model) == STEP
    return run, model


def refused(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Runs an import that fails and must write nothing; returns the message."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert import_run(folder, *flags) != 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not (folder / "run").exists()
    *_, line = capsys.readouterr().err.strip().splitlines()
    return line
