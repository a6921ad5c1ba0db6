"""Training files are identified by names, sizes and fingerprint, in any folder."""

import dataclasses
import json
import shutil

import pytest

from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoints import TrainingFiles

PROBLEM = registry.problem("algorithmic_reverse_binary40")
ENTRY = {
    "sources": {"a.txt": {"size": 1, "mtime_ns": 2, "sha256": "ab"}},
    "options": {"random_seed": 3},
    "vocabulary": {},
    "versions": {},
    "samples": "",
}


@pytest.fixture
def data_dir(tmp_path):
    """A data folder as t2t-datagen leaves it, with other contents of the files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for path in PROBLEM.filepaths(str(folder), "train"):
        with open(path, "wb") as file:
            file.write(b"12345")
    write_fingerprint(folder)
    return folder


def write_fingerprint(folder, **changes):
    entries = {"train": ENTRY | changes, "dev": ENTRY}
    path = folder / f"{PROBLEM.base_name}.fingerprint.json"
    path.write_text(json.dumps(entries), encoding="utf-8")


def files_in(folder):
    return TrainingFiles.of(PROBLEM, str(folder))


def first_file(folder):
    return next(iter(sorted(folder.glob("*-train-*"))))


def test_files_are_the_same_in_another_folder(data_dir, tmp_path):
    there = files_in(data_dir)
    shutil.copytree(data_dir, tmp_path / "copy")
    assert files_in(tmp_path / "copy") == there
    assert files_in(tmp_path / "copy").digest == there.digest
    fields = json.loads(json.dumps(dataclasses.asdict(there) | {"version": 1}))
    assert TrainingFiles.from_dict(fields) == there


def test_another_size_is_a_change_that_is_named(data_dir):
    before = files_in(data_dir)
    path = first_file(data_dir)
    path.write_bytes(b"1234567")
    now = files_in(data_dir)
    assert before.changes(now) == f"{path.name}: 5 bytes -> 7 bytes"
    assert before.digest != now.digest
    assert now.changes(now) == ""


def test_of_many_changes_some_are_named():
    before = TrainingFiles({f"f{i}": 1 for i in range(9)})
    now = TrainingFiles({f"f{i}": 1 for i in range(1, 9)} | {"g": 2})
    assert before.changes(now) == "f0: 1 bytes -> none; g: none -> 2 bytes"
    other = TrainingFiles({f"f{i}": 2 for i in range(9)})
    assert before.changes(other).endswith("f2: 1 bytes -> 2 bytes; and 6 more")


def test_a_file_that_is_missing_is_named(data_dir):
    first_file(data_dir).unlink()
    with pytest.raises(UserError, match=r"train-00000-of-\d+ is missing"):
        files_in(data_dir)


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"random_seed": 4}},
        {"sources": {"a.txt": {"size": 1, "mtime_ns": 2, "sha256": "cd"}}},
        {"samples": "ef"},
    ],
)
def test_files_made_from_something_else_are_others(data_dir, changes):
    before = files_in(data_dir)
    write_fingerprint(data_dir, **changes)
    assert before.changes(files_in(data_dir)).startswith("made from something else")
    assert before.digest != files_in(data_dir).digest


def test_an_added_fingerprint_is_a_change_and_a_removed_one_is_not(data_dir):
    before = files_in(data_dir)
    (data_dir / f"{PROBLEM.base_name}.fingerprint.json").unlink()
    without = files_in(data_dir)
    assert before.changes(without) == ""
    assert without.changes(before).startswith("of unknown origin before")


def test_times_of_sources_and_other_splits_do_not_matter(data_dir):
    before = files_in(data_dir)
    touched = {"a.txt": {"size": 1, "mtime_ns": 99, "sha256": "ab"}}
    entries = {"train": ENTRY | {"sources": touched}, "dev": ENTRY | {"samples": "new"}}
    path = data_dir / f"{PROBLEM.base_name}.fingerprint.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    assert files_in(data_dir) == before
