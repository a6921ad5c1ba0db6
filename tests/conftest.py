"""Fixtures that all tests share."""

import pathlib

import pytest

_SHARED = pathlib.Path(__file__).parents[1] / ".." / "shared"


def _folder(name: str) -> pathlib.Path:
    folder = (_SHARED / name).resolve()
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine")
    return folder


@pytest.fixture(scope="session")
def golden() -> pathlib.Path:
    """Folder of the numbers recorded from T2T itself."""
    return _folder("golden")


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Folder of the real corpora."""
    return _folder("data")
