"""Imports of tensor2tensor, and a user directory that imports it; both are undone."""

import gzip
import io
import pathlib
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator

import pytest
from absl import flags

from t2t_lite import global_flags, registry, upstream_imports
from t2t_lite.hparams import basic
from t2t_lite.t2t import bad_lines
from t2t_lite.t2t.hparam import warn_once
from t2t_lite.text.bad_input import STRICT

USR_DIR = pathlib.Path(__file__).parents[1] / "fixtures" / "t2t_usr_dir"


@pytest.fixture
def upstream() -> Iterator[None]:
    """Lets tensor2tensor be imported during the test."""
    modules, path = set(sys.modules), list(sys.path)
    registries = (registry._problems, registry._hparams)
    for known in registries:
        known.names()
    entries = [dict(known._entries) for known in registries]
    defined, ours = {name: flags.FLAGS[name] for name in flags.FLAGS}, dict(global_flags._ours)
    upstream_imports.install([])
    warn_once.cache_clear()
    basic._warn_of_optimizer.cache_clear()
    yield
    bad_lines.receive(STRICT)
    added = set(sys.modules) - modules
    users = {name for name in added if upstream_imports.is_users(name)}
    upstream_imports.uninstall()
    registry._refused_models.clear()
    sys.path[:] = path
    for name in added:
        if name in users or name.partition(".")[0] == "tensor2tensor":
            del sys.modules[name]
    for known, before in zip(registries, entries, strict=True):
        known._entries.clear()
        known._entries.update(before)
    for name in list(flags.FLAGS):
        if flags.FLAGS[name] is not defined.get(name):
            delattr(flags.FLAGS, name)
    for name in set(defined) - set(flags.FLAGS):
        flags.FLAGS[name] = defined[name]
    global_flags._ours.clear()
    global_flags._ours.update(ours)


@pytest.fixture
def usr_dir(upstream) -> None:
    """Imports the user directory of the fixtures."""
    registry.import_usr_dir(str(USR_DIR))


def lines(word: str, count: int) -> bytes:
    return "".join(f"{word} number {i} is here.\n" for i in range(count)).encode()


def _tar(path: pathlib.Path, mode: str, members: dict[str, bytes]) -> None:
    with tarfile.open(path, mode) as archive:
        for name, contents in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))


def _sgm(word: str) -> bytes:
    segments = "".join(f'<seg id="{i}">{word} {i} &amp; more.</seg>\n' for i in range(5))
    return f'<srcset setid="x">\n<doc docid="1">\n<p>\n{segments}</p>\n</doc>\n</srcset>\n'.encode()


@pytest.fixture(scope="session")
def archives() -> Callable[[pathlib.Path], None]:
    """Returns a function that writes the data sets of `TranslateUsr` to a folder."""

    def write(folder: pathlib.Path) -> None:
        folder.mkdir(exist_ok=True)
        text = {"text/train.en": lines("Cat", 50), "text/train.de": lines("Katze", 50)}
        _tar(folder / "text.tgz", "w:gz", text)
        news = {"news/news.en.sgm": _sgm("News"), "news/news.de.sgm": _sgm("Neues")}
        _tar(folder / "news.tar", "w", news)
        rows = "".join(f"Zeile {i}\tLine {i}\n" for i in range(5))
        (folder / "table.tsv.gz").write_bytes(gzip.compress(rows.encode()))
        units = "".join(
            f'<tu><tuv xml:lang="en"><seg>Memory {i}.</seg></tuv>'
            f'<tuv xml:lang="de"><seg>Speicher {i}.</seg></tuv></tu>\n'
            for i in range(5)
        )
        memory = f'<?xml version="1.0"?>\n<tmx version="1.4"><body>{units}</body></tmx>\n'
        (folder / "memory.tmx.gz").write_bytes(gzip.compress(memory.encode()))
        with zipfile.ZipFile(folder / "packed.zip", "w") as packed:
            packed.writestr("packed.en.gz", gzip.compress(lines("Dog", 4)))
            packed.writestr("packed.de.gz", gzip.compress(lines("Hund", 4)))
        dev = {"dev/dev.en": lines("Bird", 10), "dev/dev.de": lines("Vogel", 10)}
        _tar(folder / "dev.tar.gz", "w:gz", dev)
        (folder / "own.en").write_text("A first one. A second one.\nno sentence\n\n")
        (folder / "own.de").write_text("Ein erster. Ein zweiter.\nkein Satz\n\n")

    return write


@pytest.fixture
def folders(tmp_path, archives) -> tuple[str, str]:
    """The data folder, and a folder with the archives."""
    archives(tmp_path / "tmp")
    return str(tmp_path / "data"), str(tmp_path / "tmp")
