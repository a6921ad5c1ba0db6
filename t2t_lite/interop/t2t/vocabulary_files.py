"""Which files of the data folder the encoders of a user's problem read.

T2T does not ask: it keeps the data folder. Here, a run gets a copy of what its encoders read, which
is found by asking for the encoders of an empty folder, again with each file that they miss.
"""

import dataclasses
import logging
import os
import pathlib
import re
import shutil
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any

from t2t_lite import files
from t2t_lite.interop.t2t.text_encoder import noting_files
from t2t_lite.runs import run_folder

log = logging.getLogger(__name__)

Load = Callable[[str], dict[str, Any]]


class _Folder(str):
    """The path of a folder that remembers what is joined to it.

    Attributes:
        joined: the paths, in order; not those of f-strings and the like.
    """

    joined: list[str]

    @classmethod
    def at(cls, path: str, joined: list[str]) -> "_Folder":
        """Returns the path with the list that it fills."""
        folder = cls(path)
        folder.joined = joined
        return folder

    def __add__(self, other: str) -> "_Folder":
        path = str.__add__(self, other)
        self.joined.append(path)
        return self.at(path, self.joined)


@dataclasses.dataclass(frozen=True)
class _Attempt:
    """What came of asking for the encoders.

    Attributes:
        outcome: the error and where it was raised; empty: none.
        joined: the paths that were made.
        named: those that the error names.
        noted: those of vocabularies of T2T's kinds, which are not read.
    """

    outcome: tuple[Any, ...]
    joined: tuple[str, ...]
    named: tuple[str, ...]
    noted: tuple[str, ...]


def read_by(load: Load) -> list[str]:
    """Returns the names of the files that the encoders read.

    Args:
        load: returns the encoders for a data folder.

    Raises:
        ImportError: the user's code lacks a module or name, which no file would change.
        NameError: the same.
        AttributeError: the same, for a name of a module.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent, "data")
        attempt = _attempt(load, folder)
        while attempt.outcome and (next_one := _attempt_with_files(load, folder, attempt)):
            attempt = next_one
        there = sorted(str(path) for path in folder.rglob("*") if path.is_file())
        inside = [path for path in (*attempt.noted, *there) if path.startswith(f"{folder}/")]
        return list(dict.fromkeys(os.path.relpath(path, folder) for path in inside))


def _attempt_with_files(load: Load, folder: pathlib.Path, before: _Attempt) -> _Attempt | None:
    """Asks again, with those files that the error is about; None if that is not known.

    These are the ones that it names, or else the last one whose path was made and whose existence
    changes what happens.
    """
    for paths in (before.named, *((path,) for path in reversed(before.joined))):
        new = [path for path in map(pathlib.Path, paths) if not path.exists()]
        for path in new:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        after = _attempt(load, folder) if new else before
        if new and (paths == before.named or after != before):
            return after
        for path in new:
            path.unlink()
    return None


def _attempt(load: Load, folder: pathlib.Path) -> _Attempt:
    joined: list[str] = []
    try:
        with noting_files() as noted:
            load(_Folder.at(str(folder), joined))
    except (ImportError, NameError):
        raise
    except Exception as error:  # whatever a user's encoder does without its file
        if isinstance(getattr(error, "obj", None), types.ModuleType):
            raise
        named = tuple(_named_by(error, folder))
        return _Attempt(_outcome(error), tuple(joined), named, tuple(noted))
    return _Attempt((), tuple(joined), (), tuple(noted))


def _outcome(error: Exception) -> tuple[Any, ...]:
    places = []
    trace = error.__traceback__
    while trace:
        places.append(trace.tb_lasti)
        trace = trace.tb_next
    return type(error), str(error), *places


def _named_by(error: BaseException | None, folder: pathlib.Path) -> Iterator[str]:
    """Yields the paths in a folder that an error, or what caused it, names."""
    while error is not None:
        if isinstance(error, OSError) and str(error.filename).startswith(f"{folder}/"):
            yield str(error.filename)
        else:
            for path in re.findall(re.escape(f"{folder}/") + r"[^\s'\";:,]+", str(error)):
                yield path.rstrip(".)]")
        error = error.__cause__ or error.__context__


def copy_missing(load: Load, folder: str) -> list[str]:
    """Copies files that the encoders miss in a run folder from the data folder of the run.

    `read_by` finds what is read one after another; not, for example, what the contents of another
    file name.

    Returns:
        The names of the files; none if there are none, or if this is not a run folder.
    """
    settings = run_folder.read_run_settings(folder)
    origin = settings and settings.data_dir
    run = pathlib.Path(folder)
    copied: list[str] = []
    while origin:
        attempt = _attempt(load, run)
        paths = (*attempt.noted, *attempt.named, *attempt.joined)
        names = dict.fromkeys(os.path.relpath(path, run) for path in paths)
        new = [
            name
            for name in names
            if pathlib.Path(origin, name).is_file() and not (run / name).exists()
        ]
        if not new:
            break
        for name in new:
            log.warning("%s: copied from %s, since the encoders read it", run / name, origin)
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            with files.whole_file(run / name) as copy:
                shutil.copyfile(pathlib.Path(origin, name), copy)
        copied += new
    return copied
