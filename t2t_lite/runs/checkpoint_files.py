"""Checkpoints as files: found by their names, checked, and read; a torn one is skipped."""

import logging
import os
import pathlib
import re
from collections.abc import Callable

from t2t_lite import files
from t2t_lite.errors import UserError, first_line

log = logging.getLogger(__name__)

CHECKPOINT_NAME = "model.ckpt"
INFERENCE_ONLY = "inference_only"  # in checkpoints that training cannot go on from
CHECKPOINT_INDEX = ".index"  # the file that is written last, and deleted first
_CHECKPOINT_FILE = re.compile(
    rf"({re.escape(CHECKPOINT_NAME)}-[0-9]+)\.(index|data-[0-9]{{5}}-of-[0-9]{{5}})"
)


def checkpoints(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of a run's checkpoints, torn ones included, by their steps.

    They are found by their files: the list in the file `checkpoint` may be torn itself.
    """
    paths = {
        str(path.with_name(found[1]))
        for path in folder.glob(f"{CHECKPOINT_NAME}-*")
        if (found := _CHECKPOINT_FILE.fullmatch(path.name))
    }
    return sorted(paths, key=step_of)


def whole_checkpoints(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of those of `checkpoints` that have all their files."""
    return [path for path in checkpoints(folder) if is_whole(path)]


def is_whole(path: str) -> bool:
    """Whether all files of a checkpoint have been written, be they sound or not."""
    return os.path.isfile(path + CHECKPOINT_INDEX)


def split_checkpoints(text: str, output_dir: str = "") -> list[str]:
    """Splits the names of checkpoints at commas, except those in the path of one that is there.

    Args:
        text: what a flag was given; in each name, `~` is the home folder.
        output_dir: a run folder, where some of the names may be; may be empty.
    """
    names, parts = [], text.split(",")
    while parts:
        for count in range(len(parts), 0, -1):  # at last, the text up to the first comma
            name = os.path.expanduser(",".join(parts[:count]).strip())
            if is_whole(name) or is_whole(os.path.join(output_dir, name)):
                break
        names.append(name)
        del parts[:count]
    return list(filter(None, names))


def step_of(path: str) -> int:
    """Returns the updates before a checkpoint, by its name."""
    return int(path.rpartition("-")[2])


def read_newest(folder: pathlib.Path, read: Callable[[str], None]) -> str | None:
    """Reads the newest checkpoint; if it is torn or corrupt, says so and reads the one before it.

    Args:
        folder: the run folder.
        read: restores all of its variables from a prefix, which may be another name of the files.

    Returns:
        The prefix that was read; None if the folder holds no checkpoint.

    Raises:
        UserError: there are checkpoints, none of which can be read; or one holds other variables.
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
            f"no checkpoint in {folder} can be read: {'; '.join(torn)}. Bring one back from a "
            "copy, or begin anew in another --output_dir"
        )
    return None


def damage(path: str) -> str | None:
    """Reads all of a checkpoint; returns why it is torn or corrupt, None if it is neither."""
    return unreadable(path, read_all)


def unreadable(path: str, read: Callable[[str], None]) -> str | None:
    """Reads a checkpoint; returns why its files are torn or corrupt, None if it has been read.

    Raises:
        UserError: the files are whole, but hold other variables.
    """
    with files.plain_prefix(path) as plain:
        return _reading_failed(path, plain, read)


def _reading_failed(path: str, plain: str, read: Callable[[str], None]) -> str | None:
    """Does what `unreadable` does, by another name of the files."""
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
            "name another checkpoint, or bring back the files that it was trained with "
            f"({first_line(error)})"
        ) from error
    return None


def has_optimizer(path: str) -> bool:
    """Whether a checkpoint is of a training run, not a mean of several."""
    import tensorflow as tf

    return any(name.startswith("optimizer/") for name, _ in tf.train.list_variables(path))


def read_all(path: str) -> None:
    """Reads every value of a checkpoint, for TensorFlow's checks of their checksums."""
    import tensorflow as tf

    types = tf.train.load_checkpoint(path).get_variable_to_dtype_map()
    tf.raw_ops.RestoreV2(
        prefix=path,
        tensor_names=list(types),
        shape_and_slices=[""] * len(types),
        dtypes=list(types.values()),
    )
