"""Tables: two columns of Parquet files, or of the Arrow files of Hugging Face's `datasets`.

    shards = sorted(pathlib.Path(tmp_dir).glob("train-*.parquet"))
    samples = tables.table_pairs(shards, ("translation.en", "translation.de"))

A column is a name. A dot leads to a field of a struct or to a key of a map: `translation.en` is
what `datasets` calls `row["translation"]["en"]`. Rows are numbered from 1 in each file. Files are
read in batches, the other columns not at all, so that memory does not grow with a file's rows.
Needs pyarrow.
"""

import contextlib
import dataclasses
import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from t2t_lite import extras
from t2t_lite.data.corpora.corpora import with_text
from t2t_lite.data.corpora.segments import Pair, one_line
from t2t_lite.errors import DataError, UserError, did_you_mean
from t2t_lite.text.bad_input import STRICT, UNREADABLE, BadInput
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_files import handle_damage, unpacking_program

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are held as text at once, and bytes that are read of a Parquet column at once.
_ROWS = 1024
_BUFFER = 2**20

# How files start: Parquet, Arrow's two formats (the stream's first message, since Arrow 0.15), and
# what Git keeps of a large file until it is downloaded.
_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"
_GIT_LFS = b"version https://git-lfs"
# What a writer of a stream adds when it closes the stream.
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def table_pairs(
    paths: Sequence[str | os.PathLike[str]], columns: Pair, bad: BadInput = STRICT
) -> Iterator[Sample]:
    """Returns an iterator over the pairs of two columns of one or more files.

    Surrounding white space is stripped, and line breaks become spaces. Pairs with a side that is
    empty or null are dropped and counted in the log.

    Args:
        paths: the shards of one table, in order.
        columns: of the sources and of the targets.
        bad: receives text that is not UTF-8, and Arrow streams that are cut.

    Raises:
        UserError: pyarrow or a file is missing.
        DataError: a file lacks a column, has something else than text there, or is damaged. The
            message names the file and, within it, the row and the column.
    """
    _require_pyarrow()
    pairs = itertools.chain.from_iterable(_file_pairs(path, columns, bad) for path in paths)
    return with_text(pairs, named(paths), bad)


def text_columns(path: str | os.PathLike[str]) -> list[str]:
    """Returns the columns of a file that have text, fields of structs included; errors as above."""
    _require_pyarrow()
    with _opened(path, STRICT) as table:
        return [column for column, kind in _leaves(table.schema) if _is_text(kind)]


def named(paths: Sequence[str | os.PathLike[str]]) -> str:
    """Returns a name for several files, for messages."""
    first, more = os.fspath(paths[0]), len(paths) - 1
    return f"{first} and {more} more" if more else first


def _require_pyarrow() -> None:
    extras.require(extras.TABLES, "reading Parquet and Arrow files")


def _file_pairs(path: str | os.PathLike[str], columns: Pair, bad: BadInput) -> Iterator[Pair]:
    """Yields the pairs of one file."""
    with _opened(path, bad) as table:
        inputs, targets = (_Column(table.schema, column, os.fspath(path)) for column in columns)
        for batch in table.batches([inputs.stored_path, targets.stored_path]):
            for start in range(0, batch.num_rows, _ROWS):
                rows = batch.slice(start, _ROWS)
                first = table.rows_read + 1
                yield from zip(
                    inputs.texts(rows, first, bad), targets.texts(rows, first, bad), strict=True
                )
                table.rows_read += rows.num_rows


# ---- files


@dataclasses.dataclass
class _Table:
    """An open file.

    Attributes:
        schema: names and types of its columns.
        batches: yields its record batches with these columns, and perhaps others.
        rows_read: so many rows were yielded.
    """

    schema: "pa.Schema"
    batches: Callable[[list[str]], Iterable["pa.RecordBatch"]]
    rows_read: int = 0


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], bad: BadInput) -> Iterator[_Table]:
    """Opens a file of any kind; reports damage that shows while it is open, with the row."""
    import pyarrow as pa

    name = os.fspath(path)
    read = _READERS[_kind(name)]
    place = name
    try:
        # Not read into memory: a writer may have put all rows into one batch.
        with pa.memory_map(name) as file:
            table = read(file)
            try:
                yield table
            finally:
                place = f"{name}, after row {table.rows_read}"
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        handle_damage(place, error, bad)


def _kind(name: str) -> bytes:
    """Returns how a file starts, one of the keys of `_READERS`."""
    try:
        with open(name, "rb") as file:
            start = file.read(512)
    except FileNotFoundError:
        raise UserError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{name} is a folder: name its files") from None
    for kind in _READERS:
        if start.startswith(kind):
            return kind
    remedy = "download it again"
    if start.startswith(_GIT_LFS):
        remedy = "Git has only a pointer to it here: run git lfs pull"
    elif program := unpacking_program(start):
        remedy = f"unpack it with {program}"
    raise DataError(
        f"{name}: neither a Parquet nor an Arrow file; it starts with {start[:8]!r}, not with "
        f"{_PARQUET!r}, {_ARROW_FILE!r} or {_ARROW_STREAM!r}: {remedy}"
    )


def _parquet(file: "pa.NativeFile") -> _Table:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file, buffer_size=_BUFFER, page_checksum_verification=True)
    return _Table(
        parquet.schema_arrow, lambda columns: parquet.iter_batches(_ROWS, columns=columns)
    )


def _arrow_file(file: "pa.NativeFile") -> _Table:
    import pyarrow as pa

    reader = pa.ipc.open_file(file)
    return _Table(reader.schema, lambda _: map(reader.get_batch, range(reader.num_record_batches)))


def _arrow_stream(file: "pa.NativeFile") -> _Table:
    import pyarrow as pa

    file.seek(max(0, file.size() - len(_END_OF_STREAM)))
    is_closed = file.read() == _END_OF_STREAM
    file.seek(0)
    reader = pa.ipc.open_stream(file)

    def batches(_: list[str]) -> Iterator["pa.RecordBatch"]:
        with contextlib.suppress(*() if is_closed else (pa.ArrowException, OSError)):
            yield from reader
        if not is_closed:  # pyarrow accepts a stream that is cut between two batches
            raise EOFError("the mark at the end of the stream is missing")

    return _Table(reader.schema, batches)


_READERS: dict[bytes, Callable[["pa.NativeFile"], _Table]] = {
    _PARQUET: _parquet,
    _ARROW_FILE: _arrow_file,
    _ARROW_STREAM: _arrow_stream,
}


# ---- columns


def _is_text(kind: "pa.DataType") -> bool:
    """Whether values of a type are text, or all null, which says nothing of their type."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(test(kind) for test in tests)


def _leaves(fields: Iterable["pa.Field"], parents: str = "") -> Iterator[tuple[str, "pa.DataType"]]:
    """Yields the path and the type of each column; of a struct, those of its fields."""
    from pyarrow import types

    for field in fields:
        if types.is_struct(field.type):
            yield from _leaves(field.type, f"{parents}{field.name}.")
        else:
            yield f"{parents}{field.name}", field.type


class _Column:
    """A column of an open file.

    Args:
        schema: the file's.
        path: the column's name, perhaps followed by fields of structs or a key of a map.
        name: the file's name, for errors.

    Attributes:
        stored_path: the same without a key of a map.

    Raises:
        DataError: it is not there, or it is not text.
    """

    def __init__(self, schema: "pa.Schema", path: str, name: str) -> None:
        import pyarrow as pa

        self._place = f"column {path}"
        self._name = name
        self._steps: list[str] = []
        self.stored_path = ""
        kind = pa.struct(list(schema))  # as if the whole table were a struct
        rest = path
        while rest:
            step, kind, rest = self._step(schema, kind, rest)
            self._steps.append(step)
        if not _is_text(kind):
            raise DataError(
                f"{name}, {self._place}: its type is {kind}, not text; {_text_of(schema)}"
            )

    def _step(
        self, schema: "pa.Schema", kind: "pa.DataType", path: str
    ) -> tuple[str, "pa.DataType", str]:
        """Returns the first step of a path into a type, the type it leads to, and the rest."""
        from pyarrow import types

        if types.is_map(kind) and _is_text(kind.key_type):
            return path, kind.item_type, ""
        names = [field.name for field in kind] if types.is_struct(kind) else []
        step, _, rest = (path, "", "") if path in names else path.partition(".")
        if names.count(step) != 1:
            what = "there are several of this name" if step in names else "there is none"
            raise DataError(
                f"{self._name}, {self._place}: {what}{did_you_mean(step, names)}; "
                f"{_text_of(schema)}"
            )
        self.stored_path = f"{self.stored_path}.{step}".removeprefix(".")
        return step, kind.field(names.index(step)).type, rest

    def texts(self, rows: "pa.RecordBatch", first: int, bad: BadInput) -> list[str]:
        """Returns the text of each row, "" for null.

        Args:
            rows: some rows with this column.
            first: the number of the first row, for errors.
            bad: receives text that is not UTF-8.

        Raises:
            ArrowException: the rows are damaged.
        """
        values = rows.column(self._steps[0])
        is_there = [True] * rows.num_rows
        for key in self._steps[1:]:
            if values.null_count:  # a field has a value even where its struct is null
                is_there = [*map(operator.and_, is_there, values.is_valid().to_pylist())]
            values = _child(values, key)
        if _has_valid_text(values):
            texts = values.to_pylist()
        else:
            texts = [self._decoded(value, row, bad) for row, value in enumerate(values, first)]
        return [
            one_line(text) if text and here else ""
            for text, here in zip(texts, is_there, strict=True)
        ]

    def _decoded(self, value: "pa.Scalar", row: int, bad: BadInput) -> str:
        """Returns the text of a value that may not be UTF-8."""
        if not value.is_valid:
            return ""
        raw = value.as_buffer().to_pybytes()
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            bad(
                DataError(
                    f"{self._name}, row {row}, {self._place}: byte {raw[error.start]:#04x} at "
                    f"position {error.start + 1} is not UTF-8; write the file again from text"
                )
            )
            return UNREADABLE


def _text_of(schema: "pa.Schema") -> str:
    """Returns which columns of a file have text, for errors."""
    names = [path for path, kind in _leaves(schema) if _is_text(kind)]
    return f"columns of text: {', '.join(names)}" if names else "the file has no column of text"


def _has_valid_text(values: "pa.Array") -> bool:
    """Whether all text is UTF-8.

    pyarrow trusts a file: unchecked, damaged offsets would be read as addresses.

    Raises:
        ArrowInvalid: the values are damaged otherwise.
    """
    import pyarrow as pa

    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):  # which is looked at last
            raise
        return False
    return True


def _child(values: "pa.Array", key: str) -> "pa.Array":
    """Returns a field of structs, not checked; or the value of a key of maps, null without one."""
    import pyarrow.compute as pc
    from pyarrow import types

    values.validate()
    if not types.is_map(values.type):
        return values.field(key)
    values.keys.validate(full=True)
    _has_valid_text(values)
    return pc.map_lookup(values, key, "first")
