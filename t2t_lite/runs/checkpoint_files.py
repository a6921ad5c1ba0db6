"""The files of checkpoints: finds, checks, reads, writes and deletes them.

They appear whole or not at all; torn checkpoints are skipped.
"""

import contextlib
import logging
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence

from t2t_lite import files
from t2t_lite.errors import UserError, first_line

log = logging.getLogger(__name__)

CHECKPOINT_NAME = "model.ckpt"
INFERENCE_ONLY = "inference_only"  # a variable of checkpoints that training cannot resume from
CHECKPOINT_INDEX = ".index"  # the file that is written last and deleted first
_DATA = ".data-00000-of-00001"  # the values
_CHECKPOINT_FILE = re.compile(
    rf"({re.escape(CHECKPOINT_NAME)}-[0-9]+)\.(index|data-[0-9]{{5}}-of-[0-9]{{5}})"
)


def checkpoints(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of a run's checkpoints, torn ones included, in step order.

    They are found by their files, as the list in the file `checkpoint` may be torn itself.
    """
    paths = {
        str(path.with_name(found[1]))
        for path in folder.glob(f"{CHECKPOINT_NAME}-*")
        if (found := _CHECKPOINT_FILE.fullmatch(path.name))
    }
    return sorted(paths, key=step_of)


def whole_checkpoints(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of the checkpoints that have all their files, in step order."""
    return [path for path in checkpoints(folder) if is_whole(path)]


def is_whole(path: str) -> bool:
    """Whether all files of a checkpoint have been written; their contents are not checked."""
    return os.path.isfile(path + CHECKPOINT_INDEX)


def written_at(path: str) -> int | None:
    """Returns when the last file of a checkpoint was written, in ns; None if it is not there."""
    try:
        return os.stat(path + CHECKPOINT_INDEX).st_mtime_ns
    except FileNotFoundError:
        return None


def split_checkpoints(text: str, output_dir: str = "") -> list[str]:
    """Splits the names of checkpoints at commas, except commas in the path of an existing one.

    Args:
        text: the value of a flag; `~` at the start of a name is the home folder.
        output_dir: a run folder, in which some of the names may be; may be empty.
    """

    def exists(name: str) -> bool:
        return is_whole(name) or is_whole(os.path.join(output_dir, name))

    return files.split_paths(text, exists)


def step_of(path: str) -> int:
    """Returns the number of updates before a checkpoint, from its name."""
    return int(path.rpartition("-")[2])


def read_newest(folder: pathlib.Path, read: Callable[[str], None]) -> str | None:
    """Reads the newest checkpoint; if it is torn or corrupt, warns and reads the previous one.

    Args:
        folder: the run folder.
        read: restores all variables from a prefix, which may be an alias of the checkpoint's.

    Returns:
        The prefix that was read; None if the folder holds no checkpoint.

    Raises:
        UserError: there are checkpoints, and none can be read.
    """
    torn = []
    for path in reversed(checkpoints(folder)):
        reason = unreadable(path, read)
        if reason is None:
            return path
        log.warning("skipping checkpoint %s, which cannot be read: %s", path, reason)
        torn.append(f"{path} ({reason})")
    if torn:
        raise UserError(
            f"no checkpoint in {folder} can be read: {'; '.join(torn)}. Restore one from a "
            "backup, or start another run in another --output_dir"
        )
    return None


def damage(path: str) -> str | None:
    """Reads a whole checkpoint; returns why it is torn or corrupt, None if it is intact."""
    return unreadable(path, read_all)


def unreadable(path: str, read: Callable[[str], None]) -> str | None:
    """Reads a checkpoint; returns why its files are torn or corrupt, None if it was read."""
    with files.plain_prefix(path) as plain:
        return _reading_failed(path, plain, read)


def _reading_failed(path: str, plain: str, read: Callable[[str], None]) -> str | None:
    """Like `unreadable`, for a checkpoint `path` with the alias `plain`."""
    import tensorflow as tf

    # TensorFlow raises IndexError where a file of values is too short.
    damage = (tf.errors.OpError, IndexError)
    try:
        read(plain)
    except (*damage, ValueError, AssertionError) as error:
        try:
            read_all(plain)
        except damage as found:
            return first_line(found).replace(plain, path)
        raise UserError(
            f"checkpoint {path} does not fit the model, hparams.json and vocabulary of this run: "
            "choose another checkpoint, or restore the files that it was trained with "
            f"({first_line(error)})"
        ) from error
    return None


def has_optimizer(path: str) -> bool:
    """Whether a checkpoint has optimizer state, unlike an average."""
    return any(name.startswith("optimizer/") for name in variable_names(path))


def is_inference_only(path: str) -> bool:
    """Whether a checkpoint has only weights, as an average has; False if it is unreadable."""
    return any(name.startswith(INFERENCE_ONLY) for name in variable_names(path))


def variable_names(path: str) -> list[str]:
    """Returns the names of a checkpoint's variables; none if it is unreadable."""
    import tensorflow as tf

    with files.plain_prefix(path) as plain:
        try:
            return [name for name, _ in tf.train.list_variables(plain)]
        except (tf.errors.OpError, ValueError):
            return []


def read_all(path: str) -> None:
    """Reads every value of a checkpoint, so that TensorFlow verifies the checksums."""
    import tensorflow as tf

    types = tf.train.load_checkpoint(path).get_variable_to_dtype_map()
    tf.raw_ops.RestoreV2(
        prefix=path,
        tensor_names=list(types),
        shape_and_slices=[""] * len(types),
        dtypes=list(types.values()),
    )


@contextlib.contextmanager
def whole_checkpoint(path: str) -> Iterator[str]:
    """Yields a temporary prefix to write a checkpoint to; moves it to `path` on success.

    Like `files.whole_file`: after a crash there is the old checkpoint, none, or the new one.
    """
    import tensorflow as tf

    folder, temporary = pathlib.Path(path).parent, pathlib.Path(path + files.INCOMPLETE)
    shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
    try:
        with files.errors_of(path, (tf.errors.OpError,)):
            temporary.mkdir(parents=True)
            prefix = str(temporary / "checkpoint")
            yield prefix
            for suffix in (_DATA, CHECKPOINT_INDEX):
                with open(prefix + suffix, "rb") as written:
                    os.fsync(written.fileno())
            # Old names, new values: neither.
            pathlib.Path(path + CHECKPOINT_INDEX).unlink(missing_ok=True)
            for suffix in (_DATA, CHECKPOINT_INDEX):
                os.replace(prefix + suffix, path + suffix)
            files.sync_folder(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def list_checkpoints(folder: pathlib.Path, paths: Sequence[str]) -> None:
    """Writes the file in which TensorFlow looks for checkpoints, a CheckpointState as text."""
    names = [os.path.basename(path) for path in paths]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    files.write_text(folder / "checkpoint", "\n".join(lines) + "\n")


def delete_checkpoint(path: str) -> None:
    """Deletes the files of a checkpoint, torn or not."""
    # The index first: if the process is killed, the rest must not look like a checkpoint.
    pathlib.Path(path + CHECKPOINT_INDEX).unlink(missing_ok=True)
    pathlib.Path(path + _DATA).unlink(missing_ok=True)
