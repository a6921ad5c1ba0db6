"""Versioned export folders, `export_dir/KIND/VERSION`, as TensorFlow Serving expects them."""

import contextlib
import pathlib
import re
from collections.abc import Iterator, Sequence

from t2t_lite import files
from t2t_lite.errors import UsageError
from t2t_lite.lock import locked

_CODE = re.compile("[A-Za-z][A-Za-z0-9-]*")  # of a language: it is part of the name of a file


def require_code(flag: str, code: str) -> None:
    """Raises UsageError if the value of a flag is not the code of a language."""
    if not _CODE.fullmatch(code):
        raise UsageError(f"--{flag}={code}: expected the code of a language, such as en")


@contextlib.contextmanager
def new_folder(export_dir: str, *kinds: str) -> Iterator[pathlib.Path]:
    """Yields the path of the next version of the first of `kinds`, which does not exist yet.

    A lock keeps other processes from writing the same version during the block.

    Args:
        export_dir: the parent of all kinds; created if missing.
        *kinds: folders whose versions are counted together, so that equal numbers belong together.
    """
    parent = pathlib.Path(export_dir)
    lock = parent / f"{kinds[0]}.lock"
    with (
        files.made_folder(parent),
        locked(lock, "t2t-exporter", f"is writing into {parent / kinds[0]}"),
    ):
        existing = (path.name for kind in kinds for path in parent.glob(f"{kind}/*"))
        last = max((int(name) for name in existing if name.isdecimal()), default=0)
        yield parent / kinds[0] / str(last + 1)


@contextlib.contextmanager
def new_folders(export_dir: str, kinds: Sequence[str]) -> Iterator[dict[str, pathlib.Path]]:
    """Yields an empty folder for each kind; they appear as one new version if the block succeeds.

    Args:
        export_dir: the parent of all kinds; created if missing.
        kinds: the names of the folders that hold versions.

    Yields:
        The folders to write into, by kind.
    """
    with new_folder(export_dir, *kinds) as first, contextlib.ExitStack() as folders:
        yield {
            kind: folders.enter_context(files.whole_folder(first.parents[1] / kind / first.name))
            for kind in kinds
        }
