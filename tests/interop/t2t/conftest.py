"""Imports of tensor2tensor, and a user directory that imports it; both are undone."""

import pathlib
from collections.abc import Iterator

import pytest
from absl import flags

from support.usr_archives import write_archives
from support.usr_dirs import forgotten
from t2t_lite import t2t_flags, user_imports, usr_dirs
from t2t_lite.errors import warn_once
from t2t_lite.hparams import basic
from t2t_lite.interop.t2t import text_iterators
from t2t_lite.text.bad_input import STRICT

USR_DIR = pathlib.Path(__file__).parents[2] / "fixtures" / "t2t_usr_dir"


@pytest.fixture
def upstream() -> Iterator[None]:
    """Lets tensor2tensor be imported during the test."""
    defined, ours = {name: flags.FLAGS[name] for name in flags.FLAGS}, dict(t2t_flags._ours)
    warn_once.cache_clear()
    basic._warn_of_optimizer.cache_clear()
    with forgotten():
        user_imports.install([])
        yield
    text_iterators.receive(STRICT)
    for name in list(flags.FLAGS):
        if flags.FLAGS[name] is not defined.get(name):
            delattr(flags.FLAGS, name)
    for name in set(defined) - set(flags.FLAGS):
        flags.FLAGS[name] = defined[name]
    t2t_flags._ours.clear()
    t2t_flags._ours.update(ours)


@pytest.fixture
def usr_dir(upstream) -> None:
    """Imports the user directory of the fixtures."""
    usr_dirs.import_usr_dir(str(USR_DIR))


@pytest.fixture
def folders(tmp_path) -> tuple[str, str]:
    """The data folder, and a folder with the archives."""
    write_archives(tmp_path / "tmp")
    return str(tmp_path / "data"), str(tmp_path / "tmp")
