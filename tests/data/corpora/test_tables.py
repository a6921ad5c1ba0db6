"""Two columns of Parquet and Arrow files."""

import contextlib
import gzip
import importlib.util
import pathlib
import random
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite.data.corpora import tables
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.bad_input import BadInput

EN_FR = ("translation.en", "translation.fr")


def parquet(path: pathlib.Path, table: pa.Table, **options) -> pathlib.Path:
    pq.write_table(table, path, row_group_size=options.pop("rows", None), **options)
    return path


def arrow(new: Callable[..., pa.ipc.RecordBatchStreamWriter]) -> Callable[..., pathlib.Path]:
    def write(path: pathlib.Path, table: pa.Table, rows: int | None = None, compression=None):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with new(path, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=rows)
        return path

    return write


stream = arrow(pa.ipc.new_stream)
WRITERS = {"parquet": parquet, "stream": stream, "file": arrow(pa.ipc.new_file)}


@pytest.fixture(params=WRITERS)
def write(request) -> Callable[..., pathlib.Path]:
    return WRITERS[request.param]


def read(path: pathlib.Path, columns=("a", "b"), bad: BadInput | None = None):
    samples = tables.table_pairs([path], columns, bad or BadInput())
    return [(sample["inputs"], sample["targets"]) for sample in samples]


def of_rows(*rows: dict[str, str | None] | None) -> pa.Table:
    """A table as `datasets` writes it for the feature `Translation`."""
    kind = pa.struct([("en", pa.string()), ("fr", pa.string())])
    ids = [str(number) for number in range(len(rows))]
    return pa.table({"id": ids, "translation": pa.array(rows, kind)})


def test_the_fields_of_a_translation_are_the_sides(tmp_path, write):
    rows = [{"en": f"line {i}", "fr": f"ligne {i}"} for i in range(2500)]
    path = write(tmp_path / "t", of_rows(*rows), rows=900)
    assert read(path, EN_FR) == [(row["en"], row["fr"]) for row in rows]
    assert read(path, EN_FR[::-1]) == [(row["fr"], row["en"]) for row in rows]
    assert read(path, ("id", "id"))[2499] == ("2499", "2499")


def test_shards_are_read_one_after_another(tmp_path, write):
    paths = []
    for shard in range(3):
        lines = [f"{shard}.{i}" for i in range(4)]
        paths.append(write(tmp_path / f"t{shard}", pa.table({"b": lines, "a": lines})))
    samples = tables.table_pairs(paths, ("a", "b"))
    expected = [f"{shard}.{i}" for shard in range(3) for i in range(4)]
    assert [sample["inputs"] for sample in samples] == expected


def test_null_and_empty_sides_are_dropped_and_counted(tmp_path, write, caplog):
    rows = [{"en": "a", "fr": "b"}, {"en": None, "fr": "x"}, {"en": "x", "fr": " \n"}, None]
    path = write(tmp_path / "t", of_rows(*rows, {"en": "c\r\nd", "fr": " e "}))
    assert read(path, EN_FR) == [("a", "b"), ("c d", "e")]
    assert f"{path}: dropped 3 of 5 pairs: one side is empty" in caplog.text


def test_the_fields_of_a_null_struct_have_no_text(tmp_path):
    """A writer may leave text below a null."""
    fields = [pa.array(["a", "left over"]), pa.array(["b", "left over"])]
    structs = pa.StructArray.from_arrays(fields, ["en", "fr"], mask=pa.array([False, True]))
    assert read(stream(tmp_path / "t", pa.table({"translation": structs})), EN_FR) == [("a", "b")]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_every_type_of_text_is_read(tmp_path, kind):
    lines = ["a", None, "cé", "a", "d"]
    for name in ("stream", "file"):
        values = pa.array(lines, kind)
        path = WRITERS[name](
            tmp_path / name, pa.table({"a": values, "b": ["1", "2", "3", "4", "5"]})
        )
        assert read(path) == [("a", "1"), ("cé", "3"), ("a", "4"), ("d", "5")]


def test_a_key_of_a_map_is_a_side(tmp_path, write):
    kind = pa.map_(pa.string(), pa.string())
    rows = [[("en", "a"), ("fr", "b")], [("fr", "x")], None, [("fr", "d"), ("en", "c")]]
    path = write(tmp_path / "t", pa.table({"translation": pa.array(rows, kind)}))
    assert read(path, EN_FR) == [("a", "b"), ("c", "d")]


def test_structs_may_be_nested_and_names_may_have_dots(tmp_path, write):
    rows = [{"text": {"en": "a"}, "x.y": "b"}]
    path = write(tmp_path / "t", pa.table({"row": pa.array(rows), "v1.0": ["c"]}))
    assert read(path, ("row.text.en", "row.x.y")) == [("a", "b")]
    assert read(path, ("v1.0", "row.x.y")) == [("c", "b")]
    assert tables.text_columns(path) == ["row.text.en", "row.x.y", "v1.0"]


@pytest.mark.parametrize("compression", ["snappy", "gzip", "brotli", "zstd", "lz4"])
def test_compressed_columns_are_read(tmp_path, compression):
    table = pa.table({"a": ["x"] * 9, "b": ["y"] * 9})
    assert read(parquet(tmp_path / "p", table, compression=compression)) == [("x", "y")] * 9
    if compression in ("zstd", "lz4"):
        assert read(stream(tmp_path / "s", table, compression=compression)) == [("x", "y")] * 9


# ---- what cannot be read


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ("translation.de", "id"),
            "column translation.de: there is none.*text: id, translation.en",
        ),
        (("translatoin.en", "id"), "column translatoin.en: .* did you mean 'translation'"),
        (("id", "id.en"), "column id.en: there is none"),
        (("translation", "id"), "column translation: its type is struct<.*>, not text; columns of"),
        (("number", "id"), "column number: its type is int64, not text"),
        (("words", "id"), "column words: its type is list<.*>, not text"),
        (("raw", "id"), "column raw: its type is binary, not text"),
    ],
)
def test_a_missing_column_and_one_without_text_are_named(tmp_path, write, columns, message):
    table = of_rows({"en": "a", "fr": "b"})
    for name, values in (("number", [1]), ("words", [["a", "b"]]), ("raw", [b"a"])):
        table = table.append_column(name, pa.array(values))
    path = write(tmp_path / "t", table)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}, {message}"):
        read(path, columns)


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.table([pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], names=["a", "a", "b"])
    with pytest.raises(DataError, match="column a: there are several of this name"):
        read(stream(tmp_path / "t", table))


def test_text_that_is_not_utf8_is_named_by_row_or_skipped(tmp_path, write, caplog):
    raw = [b"ok"] * 2500 + [b"caf\xe9", b"ok"]
    table = pa.table({"a": [f"{i}" for i in range(2502)], "b": pa.array(raw).view(pa.string())})
    path = write(tmp_path / "t", table)
    expected = f"{path}, row 2501, column b: byte 0xe9 at position 4 is not UTF-8"
    with pytest.raises(DataError, match=re.escape(expected)):
        read(path)
    pairs = read(path, bad=BadInput(skip=True))
    assert [source for source, _ in pairs] == [f"{i}" for i in range(2502) if i != 2500]
    assert f"skipped: {expected}" in caplog.text


def test_a_stream_that_is_cut_ends_at_the_last_whole_batch(tmp_path):
    table = pa.table({"a": [f"{i}" for i in range(30)], "b": ["x"] * 30})
    whole = stream(tmp_path / "whole", table, rows=10).read_bytes()
    cut = tmp_path / "cut"
    counts = set()
    for length in range(len(whole) - 1, len(whole) // 2, -7):
        cut.write_bytes(whole[:length])
        with pytest.raises(DataError, match=rf"^{cut}(, after row [0-3]?0)?: damaged or truncated"):
            read(cut)
        bad = BadInput(skip=True)
        pairs = read(cut, bad=bad)
        counts.add(len(pairs))
        assert pairs == [(f"{i}", "x") for i in range(len(pairs))]
        assert bad.cuts == 1
    assert counts == {10, 20, 30}


def test_a_cut_parquet_file_has_no_table_of_contents(tmp_path):
    path = parquet(tmp_path / "t", pa.table({"a": ["x"], "b": ["y"]}))
    path.write_bytes(path.read_bytes()[:-9])
    for bad in (BadInput(), BadInput(skip=True)):
        with pytest.raises(DataError, match=f"^{path}: damaged or truncated .*; download it again"):
            read(path, bad=bad)


def test_damage_never_ends_the_process(tmp_path, write):
    """Offsets that pyarrow reads unchecked lead out of the file."""
    rows = [{"en": f"é {i}", "fr": None if i % 7 == 0 else f"{i}"} for i in range(60)]
    maps = pa.array([[("en", "x"), ("fr", "y")]] * 60, pa.map_(pa.string(), pa.string()))
    table = of_rows(*rows).append_column("m", maps)
    whole = write(tmp_path / "whole", table, rows=20).read_bytes()
    draw = random.Random(len(whole))
    path = tmp_path / "damaged"
    failed = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 2, 20])):
            damaged[draw.randrange(8, len(whole))] = draw.randrange(256)
        path.write_bytes(damaged)
        with contextlib.suppress(DataError):  # damage within a text may not show
            read(path, draw.choice([EN_FR, ("m.en", "m.fr"), ("id", "id")]))
            continue
        failed += 1
    assert failed


@pytest.mark.parametrize(
    ("contents", "remedy"),
    [
        (gzip.compress(b"PAR1", mtime=0), "unpack it with gzip -d"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "unpack it with zstd -d"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "run git lfs pull"),
        (b"<!DOCTYPE html>", "download it again"),
        (b"", "download it again"),
    ],
)
def test_another_file_is_refused_with_a_remedy(tmp_path, contents, remedy):
    path = tmp_path / "train.parquet"
    path.write_bytes(contents)
    with pytest.raises(DataError, match=f"{path}: neither a Parquet nor an Arrow file.*{remedy}$"):
        read(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"nothing\.parquet: no such file"):
        read(tmp_path / "nothing.parquet")
    with pytest.raises(UserError, match="is a folder"):
        read(tmp_path)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install '\.\[tables\]'"):
        read(tmp_path / "t.parquet")


# ---- properties


texts = st.text(st.characters(codec="utf-8"), max_size=5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts | st.none(), texts), min_size=1, max_size=9), st.integers(1, 9))
def test_all_formats_have_the_same_pairs(tmp_path_factory, rows, batch):
    folder = tmp_path_factory.mktemp("t")
    table = pa.table({"a": pa.array([a for a, _ in rows], pa.string()), "b": [b for _, b in rows]})
    found = []
    for name, write in WRITERS.items():
        try:
            found.append(read(write(folder / name, table, rows=batch)))
        except DataError as error:
            found.append(str(error).partition(": ")[2])
    assert found[0] == found[1] == found[2]


@pytest.mark.integration
def test_memory_does_not_grow_with_the_file(tmp_path, write):
    """Not even if a writer has put all rows into one batch or one row group."""
    draw = random.Random(0)
    peaks = []
    for count in (20_000, 80_000):
        lines = [f"{draw.getrandbits(400):x}" for _ in range(count)]
        path = write(tmp_path / f"{count}", pa.table({"a": lines, "b": lines, "c": lines}))
        del lines
        before = pa.total_allocated_bytes()
        samples = tables.table_pairs([path], ("a", "b"))
        peaks.append(max(pa.total_allocated_bytes() for _ in samples) - before)
    assert peaks[1] < max(1.5 * peaks[0], 2**20), peaks
