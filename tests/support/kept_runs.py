"""Folders that are made once for all tests, workers and later runs of the tests.

They are kept in the user's cache, by a digest of all that may change their contents: the code of
the package and of the tests' helpers, the settings, the packages, the processor and its kernels.
One changed line makes all of them anew. Tests get copies.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import inspect
import os
import pathlib
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator

from t2t_lite import processor

ROOT = pathlib.Path(__file__).parents[2]
# Symbolic links in t2t_lite/ lead to the outer folders of the package.
CODE = ("t2t_lite", "problems", "hparams", "bin", "tests/support", "tests/conftest.py")
MOST_BYTES = 2 << 30
_MOST_SECONDS = 24 * 3600.0  # that making a folder may take
_PACKAGES = ("tensorflow", "keras", "numpy", "sentencepiece", "tensorflow-text", "ctranslate2")
# They choose the kernels, whose roundings differ.
_VARIABLES = ("TF_", "XLA_", "ONEDNN_", "MKL_", "OMP_", "CT2_", "KERAS_")


def kept_folder(
    folder: pathlib.Path,
    make: Callable[[pathlib.Path], object],
    *settings: object,
    cache: pathlib.Path | None = None,
    code: pathlib.Path = ROOT,
) -> None:
    """Fills a folder with what `make` writes to an empty one.

    Args:
        folder: an empty folder, or none yet.
        make: a function that writes files to the folder that it is given. Its own file counts as
            code.
        *settings: all else that `make` depends on, in a form whose `repr` says it.
        cache: where folders are kept; None: in the user's cache.
        code: the root of the source tree.
    """
    cache = cache or _user_cache()
    cache.mkdir(parents=True, exist_ok=True)
    source = pathlib.Path(inspect.getfile(make)).read_bytes()
    origin = (digest_of_code(code), _machine(), source, make.__qualname__, settings)
    key = hashlib.sha256(repr(origin).encode())
    kept = cache / key.hexdigest()
    with _locked(kept.with_suffix(".lock")):
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="incomplete-") as temporary:
                make(pathlib.Path(temporary, "made"))
                os.rename(pathlib.Path(temporary, "made"), kept)
            forget_oldest(cache)
        os.utime(kept)
        shutil.copytree(kept, folder, dirs_exist_ok=True)


@functools.cache
def digest_of_code(root: pathlib.Path) -> str:
    """Returns a digest of the names and contents of all files that the tests' folders depend on."""
    found = hashlib.sha256()
    for path in code_files(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(root)} {content}\n".encode())
    return found.hexdigest()


def code_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields these files."""
    for place in CODE:
        paths = [root / place, *sorted((root / place).rglob("*"))]
        yield from (path for path in paths if path.is_file() and path.suffix != ".pyc")


def forget_oldest(cache: pathlib.Path, most_bytes: int = MOST_BYTES) -> None:
    """Removes the folders used longest ago until the rest fits; not one that is being copied."""
    for path in cache.glob("incomplete-*"):
        if time.time() - _last_used(path) > _MOST_SECONDS:  # of a run that was killed
            shutil.rmtree(path, ignore_errors=True)
    kept = [path for path in cache.iterdir() if len(path.name) == 64]  # of a digest
    total = 0
    for path in sorted(kept, key=_last_used, reverse=True):
        total += sum(_bytes(file) for file in path.rglob("*"))
        if total <= most_bytes:
            continue
        lock = path.with_suffix(".lock")
        with contextlib.suppress(BlockingIOError), _locked(lock, wait=False):
            shutil.rmtree(path, ignore_errors=True)
            lock.unlink()


def _last_used(path: pathlib.Path) -> float:
    """Returns a folder's time; for one that another process has just removed, the present."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _bytes(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@functools.cache
def _machine() -> tuple[object, ...]:
    """What else decides the contents: versions, the processor, and what chooses its kernels."""
    versions = []
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append((package, importlib.metadata.version(package)))
    variables = [pair for pair in sorted(os.environ.items()) if pair[0].startswith(_VARIABLES)]
    return (platform.python_version(), versions, sorted(processor.features()), variables)


def _user_cache() -> pathlib.Path:
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "t2t_lite" / "tests"


@contextlib.contextmanager
def _locked(path: pathlib.Path, wait: bool = True) -> Iterator[None]:
    """Holds a lock; another process may have removed the file of the one that it waited for."""
    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if path.exists() and path.samefile(f"/proc/self/fd/{file.fileno()}"):
                yield
                return
