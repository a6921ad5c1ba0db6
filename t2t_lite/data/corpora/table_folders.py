"""Folders of tables, as hubs and Hugging Face's `datasets` lay them out: the files of a split.

| file | written by |
|---|---|
| `train.parquet`, `data/train-00000-of-00002.parquet` | hubs, `to_parquet` |
| `train/0000.parquet` | hubs that convert other formats |
| `train/data-00000-of-00002.arrow`, or without `train/` | `save_to_disk` |
| `opus_books-train-00000-of-00002.arrow` | the cache of `load_dataset` |

The columns are those that `columns.txt` names. Without it, they are `inputs` and `targets`, the two
languages of `translation`, or the only two columns that have text. All splits have training's.
"""

import logging
import os
import pathlib
import re
from collections.abc import Iterator, Sequence

from t2t_lite import json_files
from t2t_lite.data.corpora import tables
from t2t_lite.data.corpora.segments import Pair
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_files import read_lines

log = logging.getLogger(__name__)

# What each split is called.
_NAMES = {
    DatasetSplit.TRAIN: ("train",),
    DatasetSplit.EVAL: ("validation", "valid", "eval", "dev"),
    DatasetSplit.TEST: ("test",),
}
# A table that was compressed once more is found, so that reading it says what to do.
_TABLE = r"\.(?:parquet|arrow)(?:\.gz|\.bz2|\.xz|\.zst)?"
# `cache-*.arrow` are results of `map` and `filter`.
_ANY_TABLE = re.compile(rf"(?!cache-).*{_TABLE}")
_SHARD = re.compile(r"(.*-)(\d+)(-of-(\d+)\..*)")
_COLUMNS = "columns.txt"
_STATE = "state.json"  # what `save_to_disk` writes beside its files


def table_files(folder: str | os.PathLike[str], split: str) -> list[pathlib.Path]:
    """Returns the tables of a split, in order; none if there are none.

    Args:
        folder: as above.
        split: a `DatasetSplit`.

    Raises:
        UserError: a shard is missing; or there are tables of the split in two places or of two data
            sets, or Parquet and Arrow files.
    """
    top = pathlib.Path(folder)
    names = _NAMES[split]
    named = re.compile(rf"((?:.*[-._])?(?:{'|'.join(names)}))(?:-\d+-of-\d+)?{_TABLE}")
    found = [*_matching(top, named), *_matching(top / "data", named)]
    whole = [top / name for name in names]  # whatever their files are called
    for inner in whole:
        found += _saved(inner) or _matching(inner, _ANY_TABLE)
    if split == DatasetSplit.TRAIN:
        found += _saved(top)
    tables_of: dict[tuple[pathlib.Path, str, str], list[pathlib.Path]] = {}
    for path in found:
        match = None if path.parent in whole else named.fullmatch(path.name)
        tables_of.setdefault((path.parent, match[1] if match else "", path.suffix), []).append(path)
    if len(tables_of) > 1:
        both = " and ".join(str(paths[0]) for paths in tables_of.values())
        raise UserError(f"{both} are tables of the same split, {split!r}: leave one in {top}")
    _require_all_shards(found)
    return found


def with_columns_file(
    folder: str | os.PathLike[str], paths: list[pathlib.Path]
) -> list[pathlib.Path]:
    """Returns tables of a folder and, if it is there, `columns.txt`."""
    columns = pathlib.Path(folder) / _COLUMNS
    return [*paths, columns] if paths and columns.is_file() else paths


def is_table(path: pathlib.Path) -> bool:
    """Whether a file is a table, by its name."""
    return _ANY_TABLE.fullmatch(path.name) is not None


def pairs(
    paths: Sequence[pathlib.Path], bad: BadInput, train: Sequence[pathlib.Path] = ()
) -> Iterator[Sample]:
    """Returns an iterator over the pairs of tables.

    Args:
        paths: tables, perhaps followed by `columns.txt`.
        bad: as for `tables.table_pairs`.
        train: those of training, whose columns all splits have; none: `paths` are.

    Raises:
        UserError: as `tables.table_pairs`.
        DataError: likewise; or the columns are not known.
    """
    shards = [*filter(is_table, paths)]
    is_listed = paths[-1].name == _COLUMNS
    columns = _listed_columns(paths[-1]) if is_listed else _columns([*train, *shards][0])
    log.info("%s: sources: column %s, targets: column %s", tables.named(shards), *columns)
    return tables.table_pairs(shards, columns, bad)


def _listed_columns(path: pathlib.Path) -> Pair:
    names = [*filter(None, map(str.strip, read_lines(path)))]
    if len(names) != 2:
        raise DataError(
            f"{path}: expected two lines, the column of the sources and the column of the "
            f"targets; got {len(names)}"
        )
    return names[0], names[1]


def _columns(path: pathlib.Path) -> Pair:
    """Returns the columns of a table, if its names and types leave no choice."""
    names = tables.text_columns(path)
    if "inputs" in names and "targets" in names:
        return "inputs", "targets"
    languages = [name for name in names if name.startswith("translation.")]
    for found in (languages, names):
        if len(found) == 2:
            return found[0], found[1]
    raise DataError(
        f"{path}: which columns are the sources and the targets? Columns of text: "
        f"{', '.join(names) or 'none'}. Name two of them in {_COLUMNS} in --tmp_dir, one per line, "
        "the column of the sources first"
    )


def _matching(folder: pathlib.Path, names: re.Pattern[str]) -> list[pathlib.Path]:
    """Returns the files of a folder with these names, in order."""
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if names.fullmatch(path.name)]


def _saved(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files that `save_to_disk` wrote into a folder, in order."""
    path = folder / _STATE
    if not path.is_file():
        return []
    state = json_files.read_object(path)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise UserError(
            f"{folder}: an old release of datasets saved all rows, and a list of the rows that "
            "belong to the data set: save it again, flatten_indices() first"
        )
    try:
        return [folder / entry["filename"] for entry in state["_data_files"]]
    except (TypeError, KeyError):
        raise UserError(f"{path}: expected a list of files as '_data_files'") from None


def _require_all_shards(paths: Sequence[pathlib.Path]) -> None:
    """Checks that no number from 0 to N of `train-00000-of-0000N.parquet` is missing."""
    for path in paths:
        if shard := _SHARD.fullmatch(path.name):
            start, number, end, count = shard.groups()
            for other in range(int(count)):
                name = f"{start}{other:0{len(number)}}{end}"
                if not (path.parent / name).is_file():
                    raise UserError(f"{path.parent / name} is missing; {path.name} belongs to it")
        elif not path.is_file():
            raise UserError(f"{path} is missing; {path.parent / _STATE} names it")
