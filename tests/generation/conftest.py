"""A folder for generated data, and helpers to inspect it."""

import hashlib
import pathlib
from collections.abc import Callable

import pytest

from t2t_lite.generation import generator


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    """Returns an empty folder for data."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture(scope="session")
def digests() -> Callable[[pathlib.Path], dict[str, str]]:
    """Returns a function that maps the files of a folder to their SHA-256, by name."""
    return lambda folder: {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
    }


@pytest.fixture
def leftovers(data) -> Callable[[], list[str]]:
    """Returns a function that lists the files in `data` that a reader could take for data."""
    return lambda: [path.name for path in data.glob("*") if path.suffix != ".incomplete"]


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    """Sets the size of a chunk to 50 samples."""
    monkeypatch.setattr(generator, "_CHUNK", 50)
