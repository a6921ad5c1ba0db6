import hashlib
import logging
import pathlib
import signal
import subprocess
import sys

import pytest

from t2t_lite.data import generator, records
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError


class CodePoints:
    def encode_lines(self, lines):
        return [[ord(character) for character in line] for line in lines]


class Small(Text2TextProblem):
    """Ids without a vocabulary file, 4 training files."""

    def __init__(self, **sizes: int):
        super().__init__()
        self.sizes = {"train": 10, "eval": 5, "test": 3, **sizes}

    @property
    def base_name(self):
        return "small"

    @property
    def dataset_splits(self):
        return [
            {"split": DatasetSplit.TRAIN, "shards": 4},
            {"split": DatasetSplit.EVAL, "shards": 2},
            {"split": DatasetSplit.TEST, "shards": 1},
        ]

    def feature_encoders(self, data_dir):
        return {"inputs": CodePoints(), "targets": CodePoints()}

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for i in range(self.sizes[dataset_split]):
            yield {"inputs": chr(100 + i), "targets": chr(100 + i) * 2}


class Dealt(Small):
    @property
    def is_generate_per_split(self):
        return False


def numbers(path: pathlib.Path) -> list[int]:
    """Which samples a file holds, in its order."""
    return [example["inputs"][0] - 100 for example in records.read_examples([path])]


def digests(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def undisturbed(tmp_path) -> dict[str, str]:
    folder = tmp_path / "undisturbed"
    generator.generate_problem(Small(), str(folder), "")
    return digests(folder)


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_names_files_as_t2t_and_deals_samples_out_in_turn(data):
    generator.generate_problem(Small(), str(data), "")
    files = sorted(data.iterdir())
    assert [path.name for path in files] == [
        "small-dev-00000-of-00002",
        "small-dev-00001-of-00002",
        "small-test-00000-of-00001",
        "small-train-00000-of-00004",
        "small-train-00001-of-00004",
        "small-train-00002-of-00004",
        "small-train-00003-of-00004",
    ]
    dev0, dev1, test, *train = map(numbers, files)
    assert (dev0, dev1, test) == ([0, 2, 4], [1, 3], [0, 1, 2])
    assert [sorted(shard) for shard in train] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


def test_appends_eos_to_both_sides(data):
    generator.generate_problem(Small(), str(data), "")
    (first, *_) = records.read_examples([data / "small-test-00000-of-00001"])
    assert first == {"inputs": [100, 1], "targets": [100, 100, 1]}


def test_puts_prefixes_before_the_text(data):
    class Prefixed(Small):
        inputs_prefix = "to"
        targets_prefix = "de"

    generator.generate_problem(Prefixed(), str(data), "")
    (first, *_) = records.read_examples([data / "small-test-00000-of-00001"])
    assert first["inputs"] == [ord("t"), ord("o"), 100, 1]
    assert first["targets"] == [ord("d"), ord("e"), 100, 100, 1]


def test_one_run_is_dealt_out_over_the_files_of_all_splits(data):
    generator.generate_problem(Dealt(), str(data), "")
    held = {path.name.rsplit("-of", 1)[0]: sorted(numbers(path)) for path in data.iterdir()}
    assert held == {
        "small-train-00000": [0, 7],
        "small-train-00001": [1, 8],
        "small-train-00002": [2, 9],
        "small-train-00003": [3],
        "small-dev-00000": [4],
        "small-dev-00001": [5],
        "small-test-00000": [6],
    }


def test_more_samples_than_one_block_keep_their_order(data):
    count = 2 * generator._BLOCK + 3
    generator.generate_problem(Small(eval=count), str(data), "")
    assert numbers(data / "small-dev-00001-of-00002") == list(range(1, count, 2))


def test_training_files_are_shuffled_by_seed_and_by_file(data):
    found = {}
    for seed in (1, 1, 2):
        folder = data / f"{len(found)}"
        generator.generate_problem(Small(train=400), str(folder), "", seed=seed)
        found[folder] = digests(folder)
    first, again, other = found.values()
    assert first == again
    changed = {name for name in first if first[name] != other[name]}
    assert changed == {f"small-train-0000{i}-of-00004" for i in range(4)}

    orders = [numbers(data / "0" / f"small-train-0000{i}-of-00004") for i in range(4)]
    turns = {tuple(number // 4 for number in order) for order in orders}
    assert len(turns) == 4
    assert tuple(range(100)) not in turns


def test_complete_splits_are_skipped(data, caplog):
    class Untouchable(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            raise AssertionError("generated again")

    generator.generate_problem(Small(), str(data), "")
    caplog.set_level(logging.INFO)
    generator.generate_problem(Untouchable(), str(data), "")
    assert "small: train files exist, skipped" in caplog.messages


def test_a_split_that_lacks_a_file_is_generated_anew_and_no_other(data, undisturbed):
    generator.generate_problem(Small(), str(data), "")
    (data / "small-train-00000-of-00004").unlink()
    for kept in ("small-train-00003-of-00004", "small-dev-00000-of-00002"):
        (data / kept).write_bytes(b"changed")
    generator.generate_problem(Small(), str(data), "")
    assert (data / "small-dev-00000-of-00002").read_bytes() == b"changed"
    del undisturbed["small-dev-00000-of-00002"]
    assert undisturbed.items() <= digests(data).items()


_KILLED_RUN = """
import os, pathlib, runpy, signal, sys
from t2t_lite.data import generator

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

small = runpy.run_path(sys.argv[1])["Small"]
moment = sys.argv[3]
if moment == "writing":
    def samples(self, data_dir, tmp_dir, split, original=small.generate_samples):
        yield from original(self, data_dir, tmp_dir, split)
        kill()
    small.generate_samples = samples
elif moment == "shuffling":
    generator.shuffle_records = kill
elif moment == "renaming":
    count = 0
    def replace(self, target, original=pathlib.Path.replace):
        global count
        count += 1
        return kill() if count == 3 else original(self, target)
    pathlib.Path.replace = replace
generator.generate_problem(small(), sys.argv[2], "")
"""


@pytest.mark.parametrize(
    ("moment", "finished"), [("writing", 0), ("shuffling", 0), ("renaming", 2)]
)
def test_a_killed_run_leaves_nothing_that_the_next_run_takes_for_data(
    data, undisturbed, moment, finished
):
    killed = subprocess.run([sys.executable, "-c", _KILLED_RUN, __file__, str(data), moment])
    assert killed.returncode == -signal.SIGKILL
    whole = [path for path in data.iterdir() if not path.name.endswith(".incomplete")]
    assert len(whole) == finished
    assert len(list(data.iterdir())) > 0

    (data / "small-train-00000-of-00009.incomplete").write_text("left by a run into 9 files")
    generator.generate_problem(Small(), str(data), "")
    assert digests(data) == undisturbed


def test_a_full_disk_leaves_nothing_half_written(data, full_disk):
    with full_disk(500), pytest.raises(OSError, match="cannot write"):
        generator.generate_problem(Small(train=100), str(data), "")
    assert list(data.iterdir()) == []


def test_an_error_in_a_sample_leaves_nothing_half_written(data):
    class Failing(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            yield from super().generate_samples(data_dir, tmp_dir, dataset_split)
            raise DataError("line 11 is bad")

    with pytest.raises(DataError, match="line 11 is bad"):
        generator.generate_problem(Failing(), str(data), "")
    assert list(data.iterdir()) == []


@pytest.mark.parametrize("side", ["inputs", "targets"])
def test_a_sample_with_an_empty_side_is_an_error_that_names_it(data, side):
    class Gap(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            samples = list(super().generate_samples(data_dir, tmp_dir, dataset_split))
            samples[6][side] = ""
            return samples

    with pytest.raises(DataError, match=f"small: sample 7: {side} is empty"):
        generator.generate_problem(Gap(), str(data), "")
    assert list(data.iterdir()) == []


@pytest.mark.parametrize(("cls", "size", "split"), [(Small, 0, "train"), (Dealt, 6, "test")])
def test_a_split_without_samples_is_an_error(data, cls, size, split):
    with pytest.raises(DataError, match=f"small: {size} samples .* {split} split stays empty"):
        generator.generate_problem(cls(train=size), str(data), "")
    assert list(data.iterdir()) == []
