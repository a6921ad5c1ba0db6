"""A folder for generated data, and what it is looked at with."""

import hashlib
import pathlib
from collections.abc import Callable

import pytest

from t2t_lite.generation import generator


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    """An empty folder for data."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture(scope="session")
def digests() -> Callable[[pathlib.Path], dict[str, str]]:
    """Returns a function that tells the SHA-256 of every file of a folder by name."""
    return lambda folder: {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
    }


@pytest.fixture
def leftovers(data) -> Callable[[], list[str]]:
    """Returns a function that tells what in `data` a reader could take for data."""
    return lambda: [path.name for path in data.glob("*") if path.suffix != ".incomplete"]


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    """Lets 50 samples be encoded at a time."""
    monkeypatch.setattr(generator, "_CHUNK", 50)
