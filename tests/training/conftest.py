"""Data folders, small enough for a training in a test."""

import pathlib

import pytest

from t2t_lite import registry


@pytest.fixture(scope="session")
def generate_pairs(tmp_path_factory):
    """Returns what generates so many pairs to train on, and 6 to evaluate, for a problem."""

    def generate(problem: str, count: int) -> pathlib.Path:
        text, data = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("data")
        for split, pairs in (("train", count), ("eval", 6)):
            for side in ("inputs", "targets"):
                lines = "".join(f"{i} and {i * 7 % 10}\n" for i in range(pairs))
                (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
        registry.problem(problem).generate_data(str(data), str(text))
        return data

    return generate


@pytest.fixture(scope="module")
def data_dir(generate_pairs) -> pathlib.Path:
    """60 pairs to train on."""
    return generate_pairs("text2text_tmpdir", 60)
