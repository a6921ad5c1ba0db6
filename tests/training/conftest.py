"""A data folder, small enough for a training in a test."""

import pathlib

import pytest

from t2t_lite import registry


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> pathlib.Path:
    """60 pairs to train on and 6 to evaluate, generated for text2text_tmpdir."""
    text, data = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("data")
    for split, count in (("train", 60), ("eval", 6)):
        for side in ("inputs", "targets"):
            lines = "".join(f"{i} and {i * 7 % 10}\n" for i in range(count))
            (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
    registry.problem("text2text_tmpdir").generate_data(str(data), str(text))
    return data
