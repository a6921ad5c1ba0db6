"""A folder for generated data."""

import pathlib

import pytest

from t2t_lite.data.generation import generator


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    """Returns an empty folder for data."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    """Sets the size of a chunk to 50 samples."""
    monkeypatch.setattr(generator, "_CHUNK", 50)
