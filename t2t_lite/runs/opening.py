"""Opens the run folder of a training: a new one, one to resume, or an error that says why not.

What happens when training is resumed, in order:

1. `open_for_training` refuses a run whose newest checkpoint is an average, imported, or of another
   release, and forgets the settings of one that ended before its first checkpoint.
2. Seed and number of parts of a batch are those of the run. Another `--random_seed` is refused, and
   so are devices that cannot share the parts, another problem, model or vocabulary, and other
   hyperparameters. The remaining settings may change and are written anew.
3. When model, optimizer and data exist, `Checkpoints.restore` (runs/checkpoints.py) reads the
   newest readable checkpoint, and compares the training files with those it was saved with.
4. The trainer cuts metrics.jsonl back to that step, and makes up for a missing evaluation.
"""

import logging
import os
import pathlib
import secrets
from collections.abc import Mapping
from typing import Any

from t2t_lite import registry
from t2t_lite.data.batching import batch_parts
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoints import refuse_other_release
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.warm_start import open_source

log = logging.getLogger(__name__)


def open_for_training(
    flags: Mapping[str, Any], hparams: BasicHParams, replicas: int, is_alone: bool = True
) -> RunFolder:
    """Creates the folder of a training run, or opens one that can be resumed.

    The flags of the result have the run's `random_seed` and `parts` of a batch.

    Args:
        flags: the fields of `TrainerConfig`.
        hparams: the resolved hyperparameters.
        replicas: number of devices.
        is_alone: whether no other worker opens the folder at the same time.
    """
    folder = pathlib.Path(flags["output_dir"])
    if (source := flags.get("warm_start_from")) and not has_started(folder):
        open_source(source)  # before anything takes time
    refuse_inference_only(folder)
    refuse_other_release(folder)  # before the name of that release is overwritten
    if is_alone:
        forget_unstarted({**flags, "parts": batch_parts(hparams, replicas)}, hparams)
    seed, parts = seed_and_parts(str(folder), flags["random_seed"], hparams, replicas)
    data_dir = flags["data_dir"]
    own = {"data_dir": os.path.abspath(data_dir), "random_seed": seed, "parts": parts}
    if hparams.warm_start_model:
        published = source_of_model(flags).flags.get(run_folder.SEARCH, "")
        own |= {run_folder.SEARCH: published} if published else {}
    if run_folder.is_run(folder):
        old = RunFolder.open(str(folder))
        remedy = f"; a run there can start from these weights: --warm_start_from={folder}"
        refuse_another_run(old, flags, hparams, remedy)
    return run_folder.create_run({**flags, **own}, hparams, data_dir)


def open_for_evaluation(flags: Mapping[str, Any], hparams: BasicHParams) -> RunFolder:
    """Opens an existing run, and leaves its settings as they are."""
    run = RunFolder.open(flags["output_dir"])
    _refuse_another_seed(run.flags, flags["random_seed"], str(run.folder))
    refuse_another_run(run, flags, hparams)
    return run


def source_of_model(flags: Mapping[str, Any]) -> RunFolder:
    """Returns the run whose model a run with the hparam `warm_start_model` has.

    A run with a checkpoint has it already, and needs the other no more.

    Args:
        flags: output_dir, warm_start_from, hparams_set and model.
    """
    folder = pathlib.Path(flags["output_dir"])
    if has_started(folder):
        source = RunFolder.open(str(folder))
    elif flags["warm_start_from"]:
        source, _ = open_source(flags["warm_start_from"])
    else:
        raise UsageError(
            f"hparams set {flags['hparams_set']!r} trains a model further (warm_start_model=true), "
            "and there is none: name its run folder or checkpoint with --warm_start_from"
        )
    if source.model_name != flags["model"]:
        raise UsageError(
            f"--model={flags['model']}: {source.folder} holds a {source.model_name}, which hparams "
            f"set {flags['hparams_set']!r} trains further (warm_start_model=true)"
        )
    return source


def seed_and_parts(
    output_dir: str, random_seed: int | None, hparams: BasicHParams, replicas: int
) -> tuple[int, int]:
    """Returns the run's seed and W, the parts of a batch, which a resumed run keeps.

    With another number of devices, each computes another number of parts, with the same result.
    """
    old = run_folder.read_flags(output_dir)
    if old is None:
        seed = secrets.randbelow(2**31) if random_seed is None else random_seed
        return seed, batch_parts(hparams, replicas)
    _refuse_another_seed(old, random_seed, output_dir)
    parts = old["parts"]
    if not parts or parts % replicas:
        raise UserError(
            f"{output_dir} was started with batches of {parts} parts (devices × accumulation), "
            f"which cannot be divided evenly among {replicas} devices: use a number of devices "
            f"that divides {parts} (--worker_gpu), or start another run from its weights "
            f"(--warm_start_from={output_dir}, and another --output_dir)"
        )
    return old["random_seed"], parts


def _refuse_another_seed(old: Mapping[str, Any], random_seed: int | None, output_dir: str) -> None:
    seed = old["random_seed"]
    if random_seed not in (None, seed):
        raise UserError(
            f"{output_dir} was started with --random_seed={seed}, not {random_seed}; omit the "
            "flag, or choose another --output_dir"
        )


def refuse_inference_only(folder: pathlib.Path) -> None:
    """Refuses to resume training from averaged or imported weights."""
    path = next(reversed(checkpoint_files.checkpoints(folder)), "")
    if path and checkpoint_files.is_inference_only(path):
        raise UserError(
            f"checkpoint {path} is an average or imported, for inference only: it has no optimizer "
            "state to resume from. Restore the run's own checkpoint, or start another run with "
            "--warm_start_from and another --output_dir"
        )


def has_started(folder: pathlib.Path) -> bool:
    """Whether a run in this folder has reached a checkpoint."""
    return run_folder.is_run(folder) and any(folder.glob("*.ckpt-*.index"))


def forget_unstarted(flags: Mapping[str, Any], hparams: BasicHParams) -> None:
    """Makes room for other settings where a run ended before its first checkpoint.

    Nothing is lost with such a run, and its settings may be why it ended.

    Args:
        flags: the trainer's settings, including output_dir, problem, model, hparams_set, parts and
            random_seed, which may be None.
        hparams: the resolved hyperparameters.
    """
    folder = pathlib.Path(flags["output_dir"])
    if has_started(folder) or not run_folder.is_run(folder):
        return
    old = RunFolder.open(str(folder))
    if (
        flags["parts"] != old.flags["parts"]
        or flags["random_seed"] not in (None, old.flags["random_seed"])
        or _differences(old, flags, hparams)
    ):
        log.info("%s has no checkpoint yet: its settings are replaced", folder)
        (folder / run_folder.FLAGS).unlink()


def refuse_another_run(
    old: RunFolder, flags: Mapping[str, Any], hparams: BasicHParams, more: str = ""
) -> None:
    """Refuses another problem, model or hyperparameters for an existing run.

    Args:
        old: the run.
        flags: the trainer's settings.
        hparams: the resolved hyperparameters.
        more: how the message ends.
    """
    if differences := _differences(old, flags, hparams):
        raise UserError(
            f"{old.folder} holds a run with other settings (there != now): "
            f"{'; '.join(differences)}. Choose another --output_dir, or use the old settings{more}"
        )


def _differences(old: RunFolder, flags: Mapping[str, Any], hparams: BasicHParams) -> list[str]:
    """Returns `"name: there != now"` for what differs of problem, model and hyperparameters."""
    # A problem's name may be spelled in several ways: a mixture's weights, for example.
    now = {**flags, "problem": registry.problem(flags["problem"]).name}
    return [
        f"{name}: {was!r} != {now[name]!r}"
        for name, was in (
            ("problem", old.problem.name),
            ("model", old.model_name),
            ("hparams_set", old.hparams_set),
        )
        if was != now[name]
    ] or old.hparams.differences(hparams)
