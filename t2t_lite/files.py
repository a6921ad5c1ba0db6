"""Atomic writing of files and folders, and file names that other programs misinterpret."""

import contextlib
import errno
import glob
import hashlib
import os
import pathlib
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_lite.errors import UserError, describe_os_error, first_line

# Suffix of a file that is still being written; this package never reads such a file.
INCOMPLETE = ".incomplete"

# Characters that keep a name from matching itself as a glob pattern; * and ? do not.
_MISREAD = re.compile(r"[\[\\]")


@contextlib.contextmanager
def errors_of(
    path: str | os.PathLike[str], foreign: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Lets errors of writing in the block name what is written, and nothing temporary.

    Args:
        path: the file or folder. Errors of `path` + `INCOMPLETE`, or of a file in it, are named by
            `path`, and so are those without a name: the system gives none to an open file.
        foreign: exceptions that a library raises instead of `OSError`.
    """
    final = os.fspath(path)
    try:
        yield
    except OSError as error:
        names = error.filename, error.filename2  # of a copy, the second one is written
        if names[0] is None or any(str(name).startswith(final + INCOMPLETE) for name in names):
            error.filename = final
        raise
    except foreign as error:
        is_full = os.strerror(errno.ENOSPC) in str(error)
        number = errno.ENOSPC if is_full else errno.EIO
        raise OSError(number, first_line(error), final) from error


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], durable: bool = True) -> Iterator[pathlib.Path]:
    """Yields a temporary path beside `path`; renames it to `path` if the block succeeds.

    The contents reach the disk before the name does, so that a crash of the program or of the
    machine leaves either the old file or the new one. On an error the temporary file is removed.

    Args:
        path: the file to write; missing parent folders are created.
        durable: whether to wait for the disk. If not, a crash of the program still leaves a whole
            file, but a crash of the machine may not: for files that are verified before reuse.

    Yields:
        The path to write to.
    """
    final = pathlib.Path(path)
    if final.exists() and not final.is_file():  # the rename would replace /dev/null
        raise UserError(f"{final} is not a regular file: name another file")
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(final.name + INCOMPLETE)
    try:
        with errors_of(final):
            yield temporary
            if durable:
                with temporary.open("rb") as written:
                    os.fsync(written.fileno())
            temporary.replace(final)
            if durable:
                sync_folder(final.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # such as that of a folder that is missing
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a new folder beside `path`; renames it to `path` if the block succeeds.

    As with `whole_file`, the contents reach the disk before the name does, and an error leaves
    nothing behind.

    Args:
        path: the folder to write; missing parents are created.

    Yields:
        The folder to write into.
    """
    final = pathlib.Path(path).resolve()  # a link stays one
    if final.exists() and not (final.is_dir() and not any(final.iterdir())):
        raise UserError(f"{final} already exists: remove it, or name another folder")
    temporary = final.with_name(final.name + INCOMPLETE)
    shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
    with made_folder(final.parent), errors_of(final):
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
    """Creates a folder and its missing parents; removes them again if the block fails."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # another process may have put something there
            for folder in missing:
                folder.rmdir()
        raise


def is_misread(path: str) -> bool:
    """Whether TensorFlow, which reads some paths as glob patterns, fails to find this one."""
    return bool(_MISREAD.search(path))


@contextlib.contextmanager
def plain_prefix(prefix: str) -> Iterator[str]:
    """Yields a prefix by which TensorFlow can read the files `prefix.*`.

    TensorFlow reads the prefix of a checkpoint as a glob pattern that cannot be escaped. If the
    pattern would not match the files, the block gets symbolic links to them in a temporary folder.

    Args:
        prefix: the common start of the files' paths.

    Yields:
        `prefix` itself, or that of the links.
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


def text_digest(text: str) -> str:
    """Returns a short digest of a text, such as a path, for the name of a file."""
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:12]


def require_readable(path: str, label: str) -> None:
    """Checks that a path is that of a file that can be read, such as a pipe.

    Args:
        path: the path.
        label: what messages call it, such as its flag.

    Raises:
        UserError: it is not.
    """
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{label}={path}: no such file") from None
    if is_folder:
        raise UserError(f"{label}={path} is a folder: name a file")
    if not os.access(path, os.R_OK):
        raise UserError(f"{label}={path}: {os.strerror(errno.EACCES)}")


def require_writable(path: str, label: str) -> None:
    """Checks that a file can be written to its folder, and missing folders be made.

    Args:
        path: the path of the file.
        label: what messages call it, such as its flag.

    Raises:
        UserError: it cannot.
    """
    if os.path.isdir(path):
        raise UserError(f"{label}={path} is a folder: name a file in it")
    folder = next(folder for folder in pathlib.Path(path).absolute().parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"{label}={path} cannot be written: "
            f"{describe_os_error(OSError(error.errno, error.strerror, os.fspath(folder)))}"
        ) from None


def is_same(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths name one file, through hard or symbolic links, even if it is missing."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is missing
        return os.path.realpath(path) == os.path.realpath(other)


def refuse_overwriting(
    output: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]],
    endings: Sequence[str] = ("", INCOMPLETE),
) -> None:
    """Checks that writing a file does not overwrite its inputs.

    Args:
        output: the file to write.
        inputs: the files that are read, or that must not be replaced for another reason.
        endings: suffixes of the names that are written; "" is `output` itself.

    Raises:
        UserError: `output`, or a temporary file beside it, is one of the inputs.
    """
    written = [f"{os.fspath(output)}{ending}" for ending in endings]
    for path in inputs:
        for name in written:
            if is_same(name, path):
                raise UserError(
                    f"writing {os.fspath(output)} would overwrite {os.fspath(path)}, an input or a "
                    "file of a run folder: name another file for the output"
                )


def split_paths(text: str, exists: Callable[[str], bool]) -> list[str]:
    """Splits paths at commas, except commas in the path of something that exists.

    Args:
        text: the value of a flag; `~` at the start of a path is the home folder.
        exists: whether a path is there.
    """
    paths, parts = [], text.split(",")
    while parts:
        for count in range(len(parts), 0, -1):  # finally, the text up to the first comma
            path = os.path.expanduser(",".join(parts[:count]).strip())
            if exists(path):
                break
        paths.append(path)
        del parts[:count]
    return list(filter(None, paths))


def sync_folder(folder: pathlib.Path) -> None:
    """Makes the names in `folder` durable: a rename is not until its folder is synced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def shown(text: str) -> str:
    """Returns a text that contains file names, with bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` as UTF-8, atomically."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
