"""Scores of outputs as training data."""

import json

import pytest

from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.data.text_problems import VocabType
from t2t_lite.errors import DataError
from t2t_lite.problems.quality_tmpdir import QualityTmpdir


class Bytes(QualityTmpdir):
    """The problem with bytes."""

    base_name = "quality_bytes"
    vocab_type = VocabType.CHARACTER


def write(folder, split, rows):
    lines = (json.dumps({"checkpoint": "x", "reference": "r", "ter": 1.0, **row}) for row in rows)
    (folder / f"scores.{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def examples(folder, split):
    options = DatagenOptions(num_workers=1)
    generator.generate_data(Bytes(), str(folder / "data"), str(folder), options)
    paths = Bytes().existing_filepaths(str(folder / "data"), split)
    return sorted(
        (bytes(i - 2 for i in one["inputs"][:-1]).decode(), *one["targets"])
        for one in read_examples(paths, ("targets",))
    )


def test_a_source_and_its_output_get_the_chrf(tmp_path):
    rows = [{"source": f"s\t{i}", "output": f"o{i}", "chrf": i} for i in range(30)]
    write(tmp_path, "train", [*rows, {"source": "s", "output": "", "chrf": 0.0}])
    write(tmp_path, "eval", [{"source": "a", "output": "b", "chrf": 50.0}])
    assert examples(tmp_path, "eval") == [("a$b", 0.5)]
    found = examples(tmp_path, "train")
    assert len(found) == 30
    assert found[0][0] == "s 0$o0"
    assert dict(found)["s 25$o25"] == 0.25


def test_without_dev_scores_some_are_held_out(tmp_path):
    rows = [{"source": f"s{i}", "output": f"o{i}", "chrf": i} for i in range(40)]
    write(tmp_path, "train", rows)
    held = examples(tmp_path, "eval")
    assert len(held) == 2
    assert not set(held) & set(examples(tmp_path, "train"))


@pytest.mark.parametrize(
    "bad", ["x", "[1]", '{"source": "a", "output": "b"}', '{"source": 1, "output": "b", "chrf": 2}']
)
def test_another_line_is_named(tmp_path, bad):
    write(tmp_path, "train", [{"source": "s", "output": "o", "chrf": 1.0}] * 30)
    with (tmp_path / "scores.train.jsonl").open("a") as file:
        file.write(f"{bad}\n")
    with pytest.raises(DataError, match=r"scores\.train\.jsonl, line 31: expected an object"):
        examples(tmp_path, "train")
