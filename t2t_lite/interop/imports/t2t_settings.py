"""Reads the settings in a T2T training folder: flags.txt, flags_t2t.txt and hparams.json."""

import difflib
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from t2t_lite import json_files, registry
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.names import snake_case
from t2t_lite.settings import settings_of

_FLAG_FILES = ("flags.txt", "flags_t2t.txt")
_HPARAMS = "hparams.json"
_FLAG = re.compile(r"--(\w+)=(.*)")
# name=value; a value may be a list in brackets, with commas inside.
_ASSIGNMENT = re.compile(r"([\w.]+)\s*=\s*(\[[^]]*\]|[^,]*)")

# T2T's hparams that change what its models compute, with the only values supported here;
# switches are 0 or 1.
ONLY = {
    "add_or_concat_timing_signal": "add",
    "add_position_timing_signal": "1",
    "add_sru": "0",
    "add_step_timing_signal": "1",
    "attention_variables_3d": "0",
    "causal_decoder_self_attention": "1",
    "et_encoder_self_attention": "1",
    "factored_logits": "0",
    "hard_attention_k": "0",
    "mix_with_transformer": "none",
    "nbr_decoder_problems": "1",
    "norm_type": "layer",
    "num_area_layers": "0",
    "num_inrecurrence_layers": "1",
    "position_start_index": "none",
    "proximity_bias": "0",
    "step_timing_signal_type": "learned",
    "symbol_modality_skip_top": "0",
    "transformer_ffn_type": "fc",
    "unidirectional_encoder": "0",
    "vocab_divisor": "1",
}
# Initialisation does not matter for trained weights, and we support only one. Models with experts
# are not imported; others have a list of sizes here, too.
_NOT_READ = ("initializer", "moe_hidden_sizes")
# Nor does how they were trained, for which T2T's older releases know more values.
_OF_TRAINING = ("optimizer", "learning_rate_decay_scheme")


def read_flags(folder: pathlib.Path) -> dict[str, str]:
    """Returns the flags of T2T's trainer by name; none if the folder has no such file.

    Switches (`--name`, `--noname`) and flags without a value are left out.

    Raises:
        UserError: a file is not in UTF-8.
    """
    flags: dict[str, str] = {}
    for path in (folder / name for name in _FLAG_FILES):
        lines = _lines(path) if path.is_file() else []
        flags |= {found[1]: found[2] for line in lines if (found := _FLAG.fullmatch(line))}
    return {name: value for name, value in flags.items() if value not in ("", "None")}


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is damaged: {error}; restore it from a backup, or remove it and give "
            "--problem and --hparams_set"
        ) from error


def find_problem(folder: pathlib.Path, flags: Mapping[str, str], name: str = "") -> Problem:
    """Returns the problem of T2T's run.

    Args:
        folder: the training folder, for messages.
        flags: the flags of T2T's trainer.
        name: overrides the flags.

    Raises:
        UsageError: there is no name.
        UserError: no problem of that name is registered here.
    """
    name = name or flags.get("problem") or flags.get("problems", "")  # T2T 1.4 and older
    if not name:
        raise UsageError(
            f"{folder} has no {' or '.join(_FLAG_FILES)} that names the problem: give --problem"
        )
    try:
        return registry.problem(name)
    except UsageError:
        near = difflib.get_close_matches(name, registry.list_problems(), n=3, cutoff=0.5)
        raise UserError(
            f"problem {name!r} of {folder} is not registered here (near: "
            f"{', '.join(near) or 'none'}): give --problem=NAME for one with the same vocabulary, "
            "or register it with --t2t_usr_dir"
        ) from None


def target_space_id(problem: Problem) -> int:
    """Returns the row of the target-space embedding for a problem, `_rev` and `_copy` included."""
    inputs, targets = problem.space_ids
    return targets if problem.was_reversed == problem.was_copy else inputs


def find_hparams(
    folder: pathlib.Path,
    flags: Mapping[str, str],
    hparams_set: str = "",
    changes: str = "",
    hparams_class: type[TransformerHParams] = TransformerHParams,
) -> TransformerHParams:
    """Returns the hyperparameters of T2T's run, as ours.

    Args:
        folder: the training folder, whose hparams.json holds all of them.
        flags: the flags of T2T's trainer; without hparams.json, their set and changes are used.
        hparams_set: overrides both.
        changes: to the result, as `name=value,...`.
        hparams_class: the model's.

    Raises:
        UserError: they are unknown, or describe an unsupported model.
    """
    path = folder / _HPARAMS
    if hparams_set:
        hparams = from_set(hparams_set, "")
    elif path.is_file():
        try:
            recorded = json_files.parse_object(path.read_bytes())
            hparams = from_recorded(recorded, hparams_class)
        except (UserError, ValueError) as error:
            raise UserError(f"{path}: {error}") from error
    elif flags.get("hparams_set"):
        try:
            hparams = from_set(flags["hparams_set"], flags.get("hparams", ""))
        except UserError as error:
            raise UserError(f"the flags in {folder}: {error}") from error
    else:
        raise UsageError(
            f"{folder} has neither {_HPARAMS} nor a hparams set in {' or '.join(_FLAG_FILES)}: "
            "give --hparams_set, and --hparams if it was changed"
        )
    return hparams.override(changes)


def from_set(name: str, changes: str) -> TransformerHParams:
    """Returns a registered set, changed by T2T's `--hparams`, with T2T's meaning.

    Raises:
        UserError: there is no such set, or it is not the Transformer's; or as `from_recorded`.
    """
    hparams = registry.hparams(name)
    if not isinstance(hparams, TransformerHParams):
        raise UsageError(f"hparams set {name!r} is a {type(hparams).__name__}, not a Transformer's")
    return _changed(hparams, dict(_ASSIGNMENT.findall(changes)))


def from_recorded(
    recorded: Mapping[str, Any], hparams_class: type[TransformerHParams] = TransformerHParams
) -> TransformerHParams:
    """Returns the contents of T2T's hparams.json as ours; missing values are T2T's defaults.

    Raises:
        UserError: they describe an unsupported model, or a value has the wrong type.
    """
    return _changed(hparams_class(), recorded)


def _changed(hparams: TransformerHParams, recorded: Mapping[str, Any]) -> TransformerHParams:
    """Changes the fields that we have; T2T's others do not matter, or must equal `ONLY`."""
    texts = {name: as_text(value) for name, value in recorded.items()}
    other = [f"{name}={texts[name]}" for name in ONLY if texts.get(name, ONLY[name]) != ONLY[name]]
    if other:
        raise UserError(f"T2T's hparams describe an unsupported model: {', '.join(other)}")
    ours = [
        f"{name}={texts[name]}"
        for name, setting in settings_of(type(hparams)).items()
        if name in texts
        and name not in _NOT_READ
        and (name not in _OF_TRAINING or snake_case(texts[name]) in setting.choices)
    ]
    # Off here, on in T2T.
    return hparams.copy(use_target_space_embedding=True).override(",".join(ours))


def as_text(value: Any) -> str:
    """Returns a value as in `--hparams`; switches as 0 and 1, as in older T2T."""
    text = str(value).strip()
    return {"none": "none", "true": "1", "false": "0"}.get(text.lower(), text)
