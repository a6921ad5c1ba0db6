"""Files of texts and their numbers."""

import numpy as np
import pytest

import t2t_lite
from t2t_lite import registry
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.data.text_problems import VocabType
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems.text2real_tmpdir import Text2realTmpdir
from t2t_lite.text.bad_input import BadInput

OPTIONS = DatagenOptions(num_workers=1)


class Few(Text2realTmpdir):
    """The problem with one file, and bytes."""

    base_name = "few_numbers"
    vocab_type = VocabType.CHARACTER

    @property
    def dataset_splits(self):
        return [{**entry, "shards": 1} for entry in super().dataset_splits]


def write(folder, texts, numbers, split="train"):
    folder.mkdir(exist_ok=True)
    (folder / f"inputs.{split}.txt").write_text("".join(f"{text}\n" for text in texts))
    lines = "".join(f"{line}\n" for line in numbers)
    (folder / f"targets.{split}.txt").write_bytes(lines.encode(errors="surrogateescape"))


def generate(folder):
    generator.generate_data(Few(), str(folder / "data"), str(folder / "text"), OPTIONS)
    paths = Few().existing_filepaths(str(folder / "data"), "train")
    return sorted(one["targets"] for one in read_examples(paths, ("targets",)))


@pytest.mark.parametrize("count", [1, 2])
def test_there_are_as_many_numbers_as_in_the_first_line(tmp_path, count):
    rows = [[0.5 * i, -i][:count] for i in range(40)]
    write(tmp_path / "text", map(str, range(40)), ["\t".join(map(str, row)) for row in rows])
    assert generate(tmp_path) == rows[:38]  # the last ones are held out
    encoders = Few().get_feature_encoders(str(tmp_path / "data"))
    assert encoders["targets"].vocab_size == 2 + count
    (name,) = Few().vocab_files()[-1:]
    (tmp_path / "data" / name).unlink()
    with pytest.raises(UserError, match=f"{name} does not say how many numbers"):
        Few().get_feature_encoders(str(tmp_path / "data"))


@pytest.mark.integration
@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_dataset_has_the_numbers_not_their_ids(tmp_path, split):
    write(tmp_path / "text", map(str, range(40)), [f"{i}.5\t{-i}" for i in range(40)])
    generate(tmp_path)
    settings = {"data_dir": tmp_path / "data", "batch_size": 100, "batch_shuffle_size": 0}
    found = set()
    for features, numbers, weights in t2t_lite.dataset(Few(), split, **settings):
        assert set(features) == {"inputs"}
        np.testing.assert_array_equal(weights, np.ones(len(numbers), np.float32))
        found |= {row.tobytes() for row in numbers.numpy()}
    first = 0 if split == "train" else 38
    wanted = np.array([[i + 0.5, -i] for i in range(first, 38 if split == "train" else 40)])
    assert found == {row.tobytes() for row in wanted.astype(np.float32)}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("red", r"targets\.train\.txt, line 7: expected numbers, got 'red'"),
        ("1,5\t2", r"targets\.train\.txt, line 7: expected numbers, got '1,5'"),
        ("0.5\tnan", r"targets\.train\.txt, line 7: expected numbers, got 'nan'"),
        ("1", r"targets\.train\.txt, line 7: expected 2 numbers, as in line 1, got '1'"),
        ("", r"targets\.train\.txt, line 7: expected numbers, got ''"),
        ("1 000", r"targets\.train\.txt, line 7: .* got '1 000'; tabs separate several numbers"),
        ("1\u00a0000\t2", r"line 7: .* got '1\\xa0000'; tabs separate several numbers"),
        ("1\t\t2", r"targets\.train\.txt, line 7: expected numbers, got ''"),
    ],
)
def test_a_bad_line_is_named(tmp_path, bad, message):
    lines = ["1\t2"] * 40
    lines[6] = bad
    write(tmp_path / "text", map(str, range(40)), lines)
    with pytest.raises(DataError, match=message):
        generate(tmp_path)


def test_bad_lines_can_be_skipped(tmp_path, caplog):
    numbers = ["red", *["1\t2"] * 40, "3"]
    write(tmp_path, map(str, range(42)), numbers)
    problem = Few()
    problem.bad_input = BadInput(skip=True)
    found = [*problem.read(problem.fetch_sources(str(tmp_path), "train"))]
    assert [sample["inputs"] for sample in found] == [*map(str, range(1, 41))]
    assert caplog.messages[1].endswith("line 42: expected 2 numbers, as in line 2, got '3'")
    assert caplog.messages[2].endswith("targets.train.txt: skipped 2 bad lines")


def test_lines_without_text_on_both_sides_are_left_out(tmp_path):
    texts = ["", *map(str, range(40)), " ", ""]
    write(tmp_path / "text", texts, [text and "7" for text in map(str.strip, texts)])
    assert generate(tmp_path) == [[7.0]] * 38


def test_the_first_line_may_be_one_that_is_skipped(tmp_path):
    write(tmp_path / "text", map(str, range(41)), ["\udcff", *["1\t2"] * 40])
    options = DatagenOptions(num_workers=1, skip_bad=True)
    generator.generate_data(Few(), str(tmp_path / "data"), str(tmp_path / "text"), options)
    assert Few().get_feature_encoders(str(tmp_path / "data"))["targets"].count == 2


def test_dev_files_have_as_many_numbers_as_those_of_training(tmp_path):
    write(tmp_path / "text", map(str, range(40)), ["1"] * 40)
    write(tmp_path / "text", "ab", ["1\t2", "3\t4"], "eval")
    message = r"targets\.eval\.txt: expected 1 number in each line, as in training, got 2"
    with pytest.raises(DataError, match=message):
        generate(tmp_path)


def test_it_is_registered():
    found = registry.problem("text2real_tmpdir")
    assert found.has_numbers
    assert found.metrics[0] == "rmse"
