"""Imports models trained with T2T 1.x into run folders, with weights, settings and vocabulary.

The checkpoint's values are read by name; its graph (`.meta`) is not needed. `t2t_variables` maps
the names to our variables, `t2t_settings` reads the hyperparameters.
"""

import logging
import os
import pathlib
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from t2t_lite import files, registry
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError, first_line
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports import t2t_settings, t2t_variables
from t2t_lite.interop.imports.run import save
from t2t_lite.runs import checkpoint_files, run_creation, run_folder
from t2t_lite.runs.model_match import mismatch
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.text.text_encoder import RESERVED_TOKENS, TokenTextEncoder

log = logging.getLogger(__name__)

# T2T's models that can be imported.
_MODELS = (
    "transformer",
    "attention_lm",
    "evolved_transformer",
    "transformer_encoder",
    "transformer_regressor",
    "universal_transformer",
)
_STEP = "global_step"
# Optimizer slots and their powers, running means of losses, counters: not part of the model.
_OF_TRAINING = re.compile(rf"{_STEP}|(training|losses_avg|train_stats)/.*")


def import_run(
    model_dir: str,
    data_dir: str,
    output_dir: str,
    *,
    checkpoint_path: str = "",
    problem: str = "",
    hparams_set: str = "",
    hparams: str = "",
    target_space_id: int | None = None,
) -> None:
    """Converts a training folder of T2T's to a run folder.

    The new folder is for decoding, evaluation, averaging and warm starts; the optimizer's state is
    not imported. It appears whole or not at all.

    Args:
        model_dir: T2T's `--output_dir`.
        data_dir: holds the vocabulary: T2T's `--data_dir`.
        output_dir: the run folder to create; must be missing or empty.
        checkpoint_path: the checkpoint, its name in `model_dir` or its prefix; empty: the newest
            there.
        problem: its name; overrides T2T's flags in the folder.
        hparams_set: its name; overrides those flags and hparams.json.
        hparams: changes to the hyperparameters, as `name=value,...`.
        target_space_id: the ID of T2T's problem; None: that of T2T 1.15.

    Raises:
        UserError: something is missing or unknown, the model is not supported, or checkpoint,
            hyperparameters and vocabulary do not fit together.
    """
    folder = pathlib.Path(model_dir)
    path = str(folder / checkpoint_path) if checkpoint_path else _newest(folder)
    if checkpoint_path and not checkpoint_files.is_whole(path):  # then it is a path from here
        path = checkpoint_path
    flags = t2t_settings.read_flags(folder)
    found = t2t_settings.find_problem(folder, flags, problem)
    step, arrays = _read(path)
    name, model_class, hparams_class = _model_kind(folder, flags, arrays)
    resolved = t2t_settings.find_hparams(folder, flags, hparams_set, hparams, hparams_class)
    if no_match := mismatch(model_class, found):
        raise UserError(
            f"{folder}: its model, {name}, {no_match.reason}: give --problem=NAME for that of the "
            "training"
        )
    inputs, targets = _vocabulary_sizes(found, data_dir, path, arrays)
    model = model_class(resolved, inputs, targets)
    if target_space_id is None:
        target_space_id = t2t_settings.target_space_id(found)
    try:
        t2t_variables.assign(model, arrays, target_space_id)
    except UserError as error:
        raise UserError(f"checkpoint {path}: {error}") from error
    settings = RunSettings(
        problem=found.name,
        model=name,
        # If no set is named, they are from that file.
        hparams_set=hparams_set or flags.get("hparams_set") or run_folder.HPARAMS,
        data_dir=os.path.abspath(data_dir),
        output_dir=os.path.abspath(output_dir),
        # Every run has these; they mean nothing without training.
        random_seed=0,
        parts=1,
        others={"hparams": hparams, "imported_from": os.path.abspath(path)},
    )
    try:
        with files.whole_folder(output_dir) as new:
            run_creation.write_run(new, settings, model.hparams, data_dir)
            save(model, step, new)
    except tf.errors.OpError as error:
        raise UserError(f"cannot write {output_dir}: {first_line(error)}") from error
    log.info("%s, of step %d: %s parameters", path, step, f"{model.count_params():,}")
    log.info("wrote run folder %s", output_dir)


def _newest(folder: pathlib.Path) -> str:
    """Returns the prefix of the checkpoint with the most steps."""
    paths = checkpoint_files.whole_checkpoints(folder)
    if not paths:
        raise UserError(
            f"{folder} holds no checkpoint ({checkpoint_files.CHECKPOINT_NAME}-STEP.index): "
            "correct --model_dir, or name one with --checkpoint_path"
        )
    return paths[-1]


def _model_kind(
    folder: pathlib.Path, flags: Mapping[str, str], arrays: Mapping[str, np.ndarray]
) -> tuple[str, type[t2t_variables.Model], type[TransformerHParams]]:
    """Returns a model's name, its class and that of its hparams.

    Without flags, the name is the first part of the variables' names.

    Raises:
        UserError: it is not supported.
    """
    scopes = {variable.partition("/")[0] for variable in arrays}
    name = flags.get("model") or next((name for name in _MODELS if name in scopes), _MODELS[0])
    if name not in _MODELS:
        supported = ", ".join(map(repr, _MODELS))
        raise UserError(f"{folder} has model {name!r}: only {supported} can be imported")
    model_class = registry.model(name)
    hparams_class = model_class.hparams_class
    assert issubclass(model_class, t2t_variables.Model)
    assert issubclass(hparams_class, TransformerHParams)
    return name, model_class, hparams_class


def _read(path: str) -> tuple[int, dict[str, np.ndarray]]:
    """Reads a checkpoint, except what only training needs; returns its step and values by name."""
    with files.plain_prefix(path) as plain:
        try:
            reader = tf.train.load_checkpoint(plain)
            names = sorted(reader.get_variable_to_shape_map())
            arrays = {n: reader.get_tensor(n) for n in names if not _OF_TRAINING.fullmatch(n)}
            step = int(reader.get_tensor(_STEP)) if _STEP in names else 0
        # TensorFlow raises IndexError if a file of values is too short.
        except (tf.errors.OpError, ValueError, IndexError) as error:
            reason = first_line(error).replace(plain, path)
            raise UserError(f"checkpoint {path} cannot be read: {reason}") from error
    log.info(
        "%d variables read, %d of training skipped",
        len(arrays),
        len(names) - len(arrays),
    )
    return step, arrays


def _vocabulary_sizes(
    problem: Problem, data_dir: str, path: str, arrays: Mapping[str, np.ndarray]
) -> tuple[int, int]:
    """Returns the sizes of source and target vocabulary, which must match the checkpoint."""
    for name in problem.vocab_files():
        if not pathlib.Path(data_dir, name).is_file():
            raise UserError(
                f"{pathlib.Path(data_dir, name)} is missing, the vocabulary of {problem.name}: "
                "--data_dir is T2T's; if your file has another name, rename it to "
                "this one"
            )
    encoders = problem.get_feature_encoders(data_dir)
    try:
        matrices = t2t_variables.embedding_rows(arrays)
    except UserError as error:
        raise UserError(f"checkpoint {path}: {error}") from error
    for kind, rows in matrices.items():
        # Without a decoder, sources alone are embedded, whatever T2T calls the matrix.
        is_of_inputs = kind == "input_emb" or not problem.has_text_targets
        encoder = encoders["inputs" if is_of_inputs else "targets"]
        size = encoder.vocab_size
        if isinstance(encoder, TokenTextEncoder):
            _require_reserved(problem, data_dir, rows)
        if rows != size:
            raise UserError(
                f"checkpoint {path} was trained with another vocabulary: its embedding {kind} has "
                f"{rows} rows, and that of {problem.name} in {data_dir} has {size} entries; "
                "correct --data_dir, or --problem"
            )
    return encoders["inputs"].vocab_size, encoders["targets"].vocab_size


def _require_reserved(problem: Problem, data_dir: str, rows: int) -> None:
    """Raises UserError if T2T took words for padding and EOS, as in its `languagemodel_ptb10k`.

    T2T's IDs are the lines of a list of tokens, even if it lacks these two; a model trained so
    never sees its most frequent word, and ends its texts with the next one.
    """
    for path in (pathlib.Path(data_dir, name) for name in problem.vocab_files()):
        with path.open("rb") as file:
            lines = [line.strip().decode("utf-8", "replace") for line in file]
        if len(lines) == rows and tuple(lines[: len(RESERVED_TOKENS)]) != RESERVED_TOKENS:
            raise UserError(
                f"{path} does not begin with {' and '.join(RESERVED_TOKENS)}: T2T took its first "
                f"two words ({', '.join(lines[:2])}) for them, and such a model cannot be imported"
            )
