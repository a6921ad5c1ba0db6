"""Which checkpoint a user means: a path, a number of updates, `newest`, `best` or `averaged`."""

from t2t_lite.checkpoints.averaging import has_other_sources
from t2t_lite.checkpoints.selection import Criterion, best_checkpoints
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_files import CHECKPOINT_NAME


def named_checkpoint(name: str, output_dir: str) -> str:
    """Returns the prefix of a checkpoint.

    Args:
        name: a prefix that is there, or has a folder; or, in `output_dir`, the name of a checkpoint
            (`averaged.ckpt-300`), a number of updates, `newest`, `best` or `averaged` (the average
            that was made last).
        output_dir: a run folder; may be empty if `name` is a prefix.

    Raises:
        UserError: there is no such checkpoint.
    """
    if "/" in name or checkpoint_files.is_whole(name):
        return name
    run = run_folder.open_run(output_dir)
    if name == "newest":
        return run.latest_checkpoint()
    if name == "best":
        criterion = Criterion.named(run.flags.get("best_metric", ""), run.problem.metrics)
        return best_checkpoints(run.folder, criterion, 1)[0]
    if name == "averaged":
        averages = run.folder.glob("averaged.ckpt-*.index")
        # By time: one of the best checkpoints may be of fewer steps than one of the last.
        newest = max(averages, key=lambda path: path.stat().st_mtime, default=None)
        if newest is None:
            raise UserError(f"{output_dir} holds no average: t2t-avg-checkpoints makes it")
        name = newest.stem
        if has_other_sources(str(run.folder / name), run.folder):
            raise UserError(
                f"{run.folder / name} was made of other checkpoints than those of the same names "
                "that are there now: make it anew (t2t-avg-checkpoints), or name it by "
                f"--checkpoint_path={name} to use it all the same"
            )
    return str(run.folder / (f"{CHECKPOINT_NAME}-{name}" if name.isdigit() else name))
