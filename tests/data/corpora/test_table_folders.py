"""Which tables belong to a split, and which of their columns are its sides."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from t2t_lite.data.corpora import table_folders
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.bad_input import BadInput


def touch(folder: pathlib.Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(folder: pathlib.Path, split: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in table_folders.table_files(folder, split)]


def save_to_disk(folder: pathlib.Path, *names: str, **state: object) -> None:
    """What `datasets` writes for one split."""
    touch(folder, "dataset_info.json", *names)
    files = {"_data_files": [{"filename": name} for name in names]}
    (folder / "state.json").write_text(json.dumps({**files, **state}), "utf-8")


@pytest.mark.parametrize(
    "names",
    [
        ["train.parquet"],
        ["train.arrow"],
        ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
        ["train/0000.parquet", "train/0001.parquet"],
        ["train/books-train.parquet", "train/news-train.parquet"],
        ["opus_books-train-00000-of-00002.arrow", "opus_books-train-00001-of-00002.arrow"],
        ["wmt.train.parquet"],
        ["wmt_train.parquet"],
    ],
)
def test_the_tables_of_a_split_are_those_with_its_name(tmp_path, names):
    others = [name.replace("train", "validation") for name in names]
    touch(tmp_path, *names, *others, "README.md", "cache-1f2e.arrow", "train/cache-1f2e.arrow")
    assert found(tmp_path, "train") == names
    assert found(tmp_path, "eval") == others
    assert found(tmp_path, "test") == []


@pytest.mark.parametrize("name", ["validation", "valid", "dev", "eval"])
def test_the_split_for_evaluation_has_many_names(tmp_path, name):
    touch(tmp_path, f"{name}.parquet", "latest.parquet", "constrain.parquet", "testament.parquet")
    assert found(tmp_path, "eval") == [f"{name}.parquet"]
    assert found(tmp_path, "test") == found(tmp_path, "train") == []


def test_a_saved_data_set_says_which_files_it_has(tmp_path):
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for split in ("train", "test"):
        save_to_disk(tmp_path / split, *names)
        touch(tmp_path / split, "left_over.arrow")
    assert found(tmp_path, "train") == [f"train/{name}" for name in names]
    assert found(tmp_path, "test") == [f"test/{name}" for name in names]
    save_to_disk(tmp_path / "alone", *names)
    assert found(tmp_path / "alone", "train") == names
    assert found(tmp_path / "alone", "eval") == []


def test_a_saved_data_set_with_a_selection_of_its_rows_is_refused(tmp_path):
    save_to_disk(tmp_path, "dataset.arrow", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(UserError, match=r"save it again, flatten_indices\(\) first"):
        found(tmp_path, "train")


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["train-00000-of-00003.parquet", "train-00002-of-00003.parquet"], "train-00001-of-00003"),
        (["train-00001-of-00002.arrow"], "train-00000-of-00002.arrow"),
    ],
)
def test_a_missing_shard_is_named(tmp_path, names, missing):
    touch(tmp_path, *names)
    with pytest.raises(UserError, match=f"{tmp_path / missing}.* is missing; {names[0]} belongs"):
        found(tmp_path, "train")


def test_a_missing_file_of_a_saved_data_set_is_named(tmp_path):
    save_to_disk(tmp_path, "data.arrow")
    (tmp_path / "data.arrow").unlink()
    with pytest.raises(UserError, match=r"data\.arrow is missing; .*state\.json names it"):
        found(tmp_path, "train")


@pytest.mark.parametrize("other", ["train.arrow", "data/train.parquet", "train/0000.parquet"])
def test_two_tables_of_a_split_are_refused(tmp_path, other):
    touch(tmp_path, "train.parquet", other)
    with pytest.raises(UserError, match=r"tables of the same split, 'train': leave one in"):
        found(tmp_path, "train")


def test_two_data_sets_in_a_folder_are_refused(tmp_path):
    names = [f"{pair}-train-0000{i}-of-00002.parquet" for pair in ("en-de", "en-fr") for i in "01"]
    touch(tmp_path, *names, "valid.parquet", "dev.parquet")
    with pytest.raises(UserError, match=r"en-de-train-00000.* and .*en-fr-train-00000.*leave one"):
        found(tmp_path, "train")
    with pytest.raises(
        UserError, match=r"dev\.parquet and .*valid\.parquet are tables of the same"
    ):
        found(tmp_path, "eval")


# ---- columns


def texts(folder: pathlib.Path, row: dict[str, object], columns: str | None = None):
    """The first pair of a table with one row."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([row]), folder / "train.parquet")
    if columns is not None:
        (folder / "columns.txt").write_text(columns, "utf-8")
    paths = table_folders.with_columns_file(folder, table_folders.table_files(folder, "train"))
    (sample,) = table_folders.pairs(paths, BadInput())
    return sample["inputs"], sample["targets"]


@pytest.mark.parametrize(
    "row",
    [
        {"targets": "b", "inputs": "a", "id": "0", "score": 0.5},
        {"id": "0", "translation": {"en": "a", "fr": "b"}},
        {"score": 0.5, "source": "a", "target": "b"},
        {"pair": {"src": "a", "tgt": "b"}, "n": 1},
    ],
)
def test_columns_that_leave_no_choice_need_not_be_named(tmp_path, row):
    assert texts(tmp_path, row) == ("a", "b")


def test_the_columns_may_be_named(tmp_path):
    row = {"id": "0", "translation": {"de": "c", "en": "b", "fr": "a"}, "note": "n"}
    assert texts(tmp_path, row, "translation.fr\n\n translation.en \n") == ("a", "b")
    assert texts(tmp_path, row, "note\ntranslation.de") == ("n", "c")


@pytest.mark.parametrize(
    ("row", "listed"),
    [
        ({"translation": {"de": "c", "en": "b", "fr": "a"}}, "translation.de, translation.en"),
        ({"id": "0", "source": "a", "target": "b"}, "id, source, target"),
        ({"text": "a", "label": 1}, "text"),
        ({"label": 1}, "none"),
    ],
)
def test_other_columns_must_be_named(tmp_path, row, listed):
    with pytest.raises(DataError, match=f"Columns of text: {listed}.*columns.txt in --tmp_dir"):
        texts(tmp_path, row)


@pytest.mark.parametrize("columns", ["", "translation.en\n", "a\nb\nc\n"])
def test_a_list_of_columns_has_two_lines(tmp_path, columns):
    with pytest.raises(DataError, match=r"columns.txt: expected two lines.*; got [013]$"):
        texts(tmp_path, {"a": "a", "b": "b"}, columns)
