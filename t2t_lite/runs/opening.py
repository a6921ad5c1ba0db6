"""Opens the run folder of a training: a new one, one to resume, or an error that says why not.

What happens when training is resumed, in order:

1. `open_for_training` refuses a run whose newest checkpoint is an average, imported, or of another
   release, or that has only other checkpoints, and forgets the settings and vocabulary of one that
   ended before its first checkpoint.
2. Seed and number of parts of a batch are those of the run. Another `--random_seed` is refused, and
   so are devices that cannot share the parts, another problem, model or vocabulary, other
   hyperparameters, and evaluations on another split, or with another search or `--eval_steps`. The
   remaining settings may change and are written anew.
3. When model, optimizer and data exist, `Checkpoints.restore` (runs/checkpoints.py) reads the
   newest readable checkpoint, and compares the training files with those it was saved with.
4. The trainer cuts metrics.jsonl back to that step, and makes up for a missing evaluation.
"""

import dataclasses
import logging
import os
import pathlib
import secrets
from collections.abc import Callable, Mapping

from t2t_lite import files, registry
from t2t_lite.data.batching import batch_parts
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.runs import checkpoint_files, run_creation, run_folder
from t2t_lite.runs.checkpoint_files import CHECKPOINT_INDEX, CHECKPOINT_NAME
from t2t_lite.runs.checkpoints import refuse_other_release
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.runs.search_folder import is_search
from t2t_lite.runs.selection import DEV, EVAL_STEPS, SEARCH, SPLIT, evaluations
from t2t_lite.runs.warm_start import open_source

log = logging.getLogger(__name__)

# The flags that decide on values of evaluations, beside the split, by the fields of records.
FLAGS_OF_EVALUATION = {SEARCH: "--decode_hparams", EVAL_STEPS: "--eval_steps"}


def open_for_training(
    settings: RunSettings,
    hparams: BasicHParams,
    replicas: int,
    is_alone: bool = True,
    origin_of: Callable[[RunFolder], Mapping[str, str]] = lambda run: {},
) -> RunFolder:
    """Creates the folder of a training run, or opens one that can be resumed.

    The settings of the result have the run's `random_seed` and `parts` of a batch.

    Args:
        settings: the trainer's.
        hparams: the resolved hyperparameters.
        replicas: number of devices.
        is_alone: whether no other worker opens the folder at the same time.
        origin_of: tells what else evaluations of a run depend on; see `refuse_other_evaluations`.
    """
    folder = pathlib.Path(settings.output_dir)
    if settings.warm_start_from and not has_started(folder):
        open_source(settings.warm_start_from)  # before anything takes time
    refuse_inference_only(folder)
    refuse_without_newest(folder)
    refuse_other_release(folder)  # before the name of that release is overwritten
    if is_alone:
        wanted = dataclasses.replace(settings, parts=batch_parts(hparams, replicas))
        forget_unstarted(wanted, hparams)
    seed, parts = seed_and_parts(str(folder), settings.random_seed, hparams, replicas)
    data_dir = settings.data_dir or ""
    if hparams.warm_start_model:
        published = source_of_model(settings).settings.published_decode_hparams
        settings = dataclasses.replace(settings, published_decode_hparams=published)
    if run_folder.is_run(folder):
        old = RunFolder.open(str(folder))
        remedy = f"; a run there can start from these weights: --warm_start_from={folder}"
        refuse_another_run(old, settings, hparams, remedy)
        if settings.schedule != "train":
            refuse_other_evaluations(old, bool(settings.eval_use_test_set), origin_of(old))
    settings = dataclasses.replace(
        settings, data_dir=os.path.abspath(data_dir), random_seed=seed, parts=parts
    )
    return run_creation.create_run(settings, hparams, data_dir)


def open_for_evaluation(settings: RunSettings, hparams: BasicHParams) -> RunFolder:
    """Opens an existing run, for data with its vocabulary; leaves its settings as they are."""
    run = RunFolder.open(settings.output_dir)
    _refuse_another_seed(run.random_seed, settings.random_seed, str(run.folder))
    refuse_another_run(run, settings, hparams)
    run.refuse_other_vocabulary(settings.data_dir or "")
    return run


def source_of_model(settings: RunSettings) -> RunFolder:
    """Returns the run whose model a run with the hparam `warm_start_model` has.

    A run with a checkpoint has it already, and needs the other no more.

    Raises:
        UsageError: no run is named, or it has another model than the flag `model` names.
    """
    folder = pathlib.Path(settings.output_dir)
    if has_started(folder):
        source = RunFolder.open(str(folder))
    elif settings.warm_start_from:
        source, _ = open_source(settings.warm_start_from)
    else:
        raise UsageError(
            f"hparams set {settings.hparams_set!r} trains a model further "
            "(warm_start_model=true), and there is none: name its run folder or checkpoint with "
            "--warm_start_from"
        )
    if source.model_name != settings.model:
        raise UsageError(
            f"--model={settings.model}: {source.folder} holds a {source.model_name}, which hparams "
            f"set {settings.hparams_set!r} trains further (warm_start_model=true)"
        )
    return source


def seed_and_parts(
    output_dir: str,
    random_seed: int | None,
    hparams: BasicHParams,
    replicas: int,
    ignore_unstarted: bool = False,
) -> tuple[int, int]:
    """Returns the run's seed and W, the parts of a batch, which a resumed run keeps.

    With another number of devices, each computes another number of parts, with the same result.

    Args:
        output_dir: the run folder.
        random_seed: the flag; None: it is not given.
        hparams: the resolved hyperparameters.
        replicas: number of devices.
        ignore_unstarted: whether to ignore a run that has no checkpoint yet.

    Raises:
        UserError: the devices cannot share the parts evenly.
    """
    folder = pathlib.Path(output_dir)
    old = run_folder.read_run_settings(output_dir)
    if old is None or (ignore_unstarted and not has_started(folder)):
        _refuse_search(folder)
        seed = secrets.randbelow(2**31) if random_seed is None else random_seed
        return seed, batch_parts(hparams, replicas)
    seed = run_folder.known(folder, "random_seed", old.random_seed)
    _refuse_another_seed(seed, random_seed, output_dir)
    parts = run_folder.known(folder, "parts", old.parts)
    if not parts or parts % replicas:
        raise UserError(
            f"{output_dir} was started with batches of {parts} parts (devices × accumulation), "
            f"which cannot be divided evenly among {replicas} devices: use a number of devices "
            f"that divides {parts} (--worker_gpu), or start another run from its weights "
            f"(--warm_start_from={output_dir}, and another --output_dir)"
        )
    return seed, parts


def _refuse_search(folder: pathlib.Path) -> None:
    if is_search(folder):
        raise UserError(
            f"{folder} holds a search for hyperparameters, whose trials are the run folders in it: "
            "continue it with --hparams_range, or choose another --output_dir"
        )


def _refuse_another_seed(seed: int, given: int | None, output_dir: str) -> None:
    if given not in (None, seed):
        raise UserError(
            f"{output_dir} was started with --random_seed={seed}, not {given}; omit the "
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


def refuse_without_newest(folder: pathlib.Path) -> None:
    """Refuses to train anew where checkpoints are left, but none to resume from."""
    if has_started(folder) and not checkpoint_files.checkpoints(folder):
        newest = max(_indexes(folder), key=os.path.getmtime).removesuffix(CHECKPOINT_INDEX)
        name = os.path.basename(newest)
        raise UserError(
            f"{folder} holds {name} but no {CHECKPOINT_NAME}-* to resume from, so training would "
            f"start from scratch beside it. Start a new run from its weights (--warm_start_from="
            f"{newest}, and another --output_dir), or move {name} elsewhere"
        )


def _indexes(folder: pathlib.Path) -> list[str]:
    return [str(path) for path in folder.glob(f"*.ckpt-*{CHECKPOINT_INDEX}")]


def has_started(folder: pathlib.Path) -> bool:
    """Whether a run in this folder has reached a checkpoint."""
    return run_folder.is_run(folder) and bool(_indexes(folder))


def forget_unstarted(settings: RunSettings, hparams: BasicHParams) -> None:
    """Makes room for other settings where a run ended before its first checkpoint.

    Nothing is lost with such a run, and its settings may be why it ended.

    Args:
        settings: the trainer's, with `parts`.
        hparams: the resolved hyperparameters.
    """
    folder = pathlib.Path(settings.output_dir)
    if has_started(folder) or not run_folder.is_run(folder):
        return
    old = RunFolder.open(str(folder))
    for name in old.problem.vocab_files():  # the data may have another one by now
        source, copy = pathlib.Path(settings.data_dir or "", name), folder / name
        if source.is_file() and copy.is_file() and not files.is_same(source, copy):
            copy.unlink()
    if (
        settings.parts != old.parts
        or settings.random_seed not in (None, old.random_seed)
        or _differences(old, settings, hparams)
    ):
        log.info("%s has no checkpoint yet: its settings are replaced", folder)
        (folder / run_folder.FLAGS).unlink()


def refuse_other_evaluations(
    run: RunFolder, uses_test_set: bool, origin: Mapping[str, str]
) -> None:
    """Refuses evaluations unlike those of a run, beside which they would count.

    Args:
        run: the run.
        uses_test_set: whether the test split is to be evaluated.
        origin: what else values depend on, by the fields of `FLAGS_OF_EVALUATION`; records of
            earlier releases have none.
    """
    test = SPLIT_FILE_NAMES[DatasetSplit.TEST]
    trains_alone = run.settings.schedule == "train"  # which evaluates nothing
    own = test if run.settings.eval_use_test_set and not trains_alone else DEV
    others = {record.get(SPLIT, own) for record in evaluations(run.folder)}
    others.discard(test if uses_test_set else DEV)
    if others:
        flag = f"--{'no' if uses_test_set else ''}eval_use_test_set"
        raise UsageError(
            f"{run.folder} already has evaluations on {' and '.join(others)}, so the best "
            f"checkpoint would be chosen by a mix of splits: give {flag}; t2t-eval scores the "
            "other split"
        )
    for record in evaluations(run.folder):
        if differences := differences_of_evaluations(record, origin):
            raise UsageError(
                f"{run.folder} already has evaluations with other settings (there != now): "
                f"{differences}, so the best checkpoint would be chosen by a mix: give the old "
                "values; t2t-eval scores checkpoints with others"
            )


def differences_of_evaluations(was: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Returns `"--flag: there != now; ..."` for what differs of the origins of evaluations."""
    return "; ".join(
        f"{flag}: {was[name]!r} != {now[name]!r}"
        for name, flag in FLAGS_OF_EVALUATION.items()
        if name in was and name in now and was[name] != now[name]
    )


def refuse_another_run(
    old: RunFolder, settings: RunSettings, hparams: BasicHParams, more: str = ""
) -> None:
    """Refuses another problem, model or hyperparameters for an existing run.

    Args:
        old: the run.
        settings: the trainer's.
        hparams: the resolved hyperparameters.
        more: how the message ends.
    """
    if differences := _differences(old, settings, hparams):
        raise UserError(
            f"{old.folder} holds a run with other settings (there != now): "
            f"{'; '.join(differences)}. Choose another --output_dir, or use the old settings{more}"
        )


def _differences(old: RunFolder, settings: RunSettings, hparams: BasicHParams) -> list[str]:
    """Returns `"name: there != now"` for what differs of problem, model and hyperparameters."""
    # A problem's name may be spelled in several ways: a mixture's weights, for example.
    problem = registry.problem(settings.problem).name
    return [
        f"{name}: {was!r} != {now!r}"
        for name, was, now in (
            ("problem", old.problem.name, problem),
            ("model", old.model_name, settings.model),
            ("hparams_set", old.hparams_set, settings.hparams_set),
        )
        if was != now
    ] or old.hparams.differences(hparams)
