"""Files and folders that appear whole or not at all."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

from t2t_lite.errors import UserError

# A file under this suffix is still being written: no reader of this package looks at it.
INCOMPLETE = ".incomplete"


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], durable: bool = True) -> Iterator[pathlib.Path]:
    """Yields a temporary path beside `path`; renames it to `path` if the block succeeds.

    The contents reach the disk before the name does, so that a crash of the program or of the
    machine leaves either the old file or the new one. On an error the temporary file is removed.

    Args:
        path: the file to write; missing parent folders are made.
        durable: False: do not wait for the disk. A crash of the program still leaves a whole file,
            one of the machine may not: for files that are checked before they are used again.

    Yields:
        The path to write to.

    Raises:
        UserError: `path` is there and is no regular file: a device such as /dev/null would be
            replaced by one.
    """
    final = pathlib.Path(path)
    if final.exists() and not final.is_file():
        raise UserError(f"{final} is no regular file: name another")
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(final.name + INCOMPLETE)
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
        temporary.replace(final)
        if durable:
            sync_folder(final.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(final)  # writing to an open file fails without a name
        raise


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a new folder beside `path`; renames it to `path` if the block succeeds.

    As with `whole_file`, the contents reach the disk before the name does, and nothing is left
    behind by an error.

    Args:
        path: the folder to write; missing parents are made.

    Yields:
        The folder to write into.

    Raises:
        UserError: `path` is there already, and is not an empty folder.
    """
    final = pathlib.Path(path)
    if final.exists() and not (final.is_dir() and not any(final.iterdir())):
        raise UserError(f"{final} is there already: remove it, or name another folder")
    temporary = final.with_name(final.name + INCOMPLETE)
    shutil.rmtree(temporary, ignore_errors=True)  # what a kill has left
    with made_folder(final.parent):
        temporary.mkdir()
        try:
            yield temporary
            for written in temporary.rglob("*"):
                sync_folder(written)  # a file's contents are synced just as a folder's names are
            sync_folder(temporary)
            temporary.replace(final)
            sync_folder(final.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextlib.contextmanager
def made_folder(path: pathlib.Path) -> Iterator[None]:
    """Makes a folder and its parents if they are missing; if the block fails, they go again."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # somebody else may have put something there
            for folder in missing:
                folder.rmdir()
        raise


def sync_folder(folder: pathlib.Path) -> None:
    """Makes the names in `folder` durable (a rename is not, until its folder is synced)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` as UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
