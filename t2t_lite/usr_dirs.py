"""User directories: folders of problems, models, hparams sets, metrics, callbacks and the like."""

import importlib.util
import os
import pathlib
import sys
import traceback

from t2t_lite import registry, t2t_flags, user_imports
from t2t_lite.errors import UserError, described


def import_usr_dir(usr_dir: str) -> None:
    """Imports a user's folder as a package, so that its registrations are found (`--t2t_usr_dir`).

    The folder's `__init__.py` must import the modules that register something, as in T2T. It may
    import `tensor2tensor`, even if that is not installed: see `user_imports`.

    Raises:
        UserError: the folder is missing, has no `__init__.py`, or its import fails.
    """
    init = _init_of(usr_dir)
    folder = init.parent
    name = folder.name
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__file__", None) != str(init):
            raise UserError(f"--t2t_usr_dir={usr_dir}: a module named {name!r} is already loaded")
        return
    spec = importlib.util.spec_from_file_location(
        name,
        init,
        loader=user_imports.UserLoader(name, str(init)),
        submodule_search_locations=[str(folder)],
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    registry.import_own()  # first, so that a clash of names shows in the user's module
    sys.modules[name] = module
    user_imports.install([name])
    t2t_flags.define()
    parent = str(folder.parent)
    sys.path.insert(0, parent)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script may end itself
        del sys.modules[name]
        raise UserError(
            f"--t2t_usr_dir={usr_dir}: importing {init} failed: {_with_place(error, parent)}"
        ) from error
    finally:
        sys.path.remove(parent)
    # Worker processes inherit this path and unpickle what the folder defines; functions of the
    # folder may import what lies beside it.
    sys.path.append(parent)


def _init_of(usr_dir: str) -> pathlib.Path:
    """Returns the `__init__.py` of a user's folder, which must be there."""
    folder = pathlib.Path(os.path.abspath(pathlib.Path(usr_dir).expanduser()))
    init = folder / "__init__.py"
    if not folder.is_dir():
        hint = f"; give its folder, {folder.parent}" if folder.is_file() else ""
        raise UserError(f"--t2t_usr_dir={usr_dir}: {folder} is not a folder{hint}")
    if not init.is_file():
        modules = sorted(path.stem for path in folder.glob("*.py") if path.stem.isidentifier())
        line = f"from . import {', '.join(modules or ['MODULE'])}"
        raise UserError(
            f"--t2t_usr_dir={usr_dir}: {init} is missing; write it, with the line {line!r}, since "
            "it must import the modules that register your problems, models, hparams, metrics, "
            "search parts or callbacks"
        )
    return init


def _with_place(error: BaseException, folder: str) -> str:
    """Returns an error of the user's code on one line, with its place."""
    text = described(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{text} in {error.filename}; t2t_lite runs Python 3"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{f.filename}, line {f.lineno}" for f in frames if f.filename.startswith(folder)]
    return f"{text} ({lines[-1]})" if lines and not isinstance(error, UserError) else text
