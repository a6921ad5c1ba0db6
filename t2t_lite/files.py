"""Files and folders that appear whole or not at all, and names that others would misread."""

import contextlib
import glob
import hashlib
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from t2t_lite.errors import UserError

# A file under this suffix is still being written: no reader of this package looks at it.
INCOMPLETE = ".incomplete"

# What makes a name, read as a pattern of names, no longer match itself; * and ? do not.
_MISREAD = re.compile(r"[\[\\]")


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
        UserError: `path` is there and is not a regular file: a device such as /dev/null would be
            replaced by one.
    """
    final = pathlib.Path(path)
    if final.exists() and not final.is_file():
        raise UserError(f"{final} is not a regular file: name another")
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


def is_misread(path: str) -> bool:
    """Whether TensorFlow, which takes some paths for patterns, finds nothing at this one."""
    return bool(_MISREAD.search(path))


@contextlib.contextmanager
def plain_prefix(prefix: str) -> Iterator[str]:
    """Yields a prefix by which TensorFlow finds the files `prefix.*`, for reading.

    It takes the prefix of a checkpoint that it reads for a pattern, and has no way to quote one.
    Where that would find nothing, the files have other names within the block: links in a folder
    of their own.

    Args:
        prefix: a path without the ends of the names.

    Yields:
        `prefix` itself, or the links'.
    """
    if not is_misread(prefix):
        yield prefix
        return
    parent = "/tmp" if is_misread(tempfile.gettempdir()) else None
    with tempfile.TemporaryDirectory(prefix="t2t-", dir=parent) as folder:
        plain = os.path.join(folder, "files")
        for path in glob.glob(glob.escape(prefix) + ".*"):
            os.symlink(os.path.abspath(path), plain + path.removeprefix(prefix))
        yield plain


def digest(path: str | os.PathLike[str], algorithm: str = "sha256") -> str:
    """Returns the digest of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def is_same(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to one file, by links of either kind, or would if it were there."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there
        return os.path.realpath(path) == os.path.realpath(other)


def refuse_overwriting(
    output: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]],
    endings: Sequence[str] = ("", INCOMPLETE),
) -> None:
    """Keeps a file from being written over what it is made from.

    Args:
        output: the file that is to be written.
        inputs: the files that are read, or that are not to be replaced for another reason.
        endings: of the names that are written; "" is that of `output` itself.

    Raises:
        UserError: `output`, or what is put beside it in the meantime, is one of the inputs.
    """
    written = [f"{os.fspath(output)}{ending}" for ending in endings]
    for path in inputs:
        for name in written:
            if is_same(name, path):
                raise UserError(
                    f"writing {os.fspath(output)} would overwrite {os.fspath(path)}, an input or a "
                    "file of a run folder: name another file for the output"
                )


def sync_folder(folder: pathlib.Path) -> None:
    """Makes the names in `folder` durable (a rename is not, until its folder is synced)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def shown(text: str) -> str:
    """Returns a text with names of files, with an escape for each byte that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` as UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
