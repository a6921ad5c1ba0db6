import gzip
import hashlib
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite.data import corpora
from t2t_lite.errors import DataError, UserError

text = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)
line = text.filter(lambda line: line == line.strip() and not line.startswith("\ufeff"))


@pytest.fixture
def write(tmp_path):
    def write(name: str, contents: str | bytes):
        path = tmp_path / name
        data = contents if isinstance(contents, bytes) else contents.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@given(st.lists(st.tuples(line, line), min_size=1))
@settings(max_examples=50, deadline=None)
def test_line_n_of_one_file_meets_line_n_of_the_other(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("pairs")
    sources, targets = zip(*pairs, strict=True)
    (folder / "a").write_bytes("\n".join(sources).encode())
    (folder / "b").write_bytes(("\n".join(targets) + "\n").encode())
    found = corpora.aligned_pairs(folder / "a", folder / "b")
    assert [(sample["inputs"], sample["targets"]) for sample in found] == pairs


def test_reads_gzip_and_strips_white_space(write):
    found = corpora.aligned_pairs(write("a.gz", " x y\t\r\n"), write("b", "z\r\n"))
    assert list(found) == [{"inputs": "x y", "targets": "z"}]


def test_pairs_with_an_empty_side_are_dropped_and_counted(write, caplog):
    caplog.set_level(logging.WARNING)
    found = corpora.aligned_pairs(write("a", "1\n\n3\n4\n"), write("b", "1\n2\n \n4\n"))
    assert [sample["inputs"] for sample in found] == ["1", "4"]
    assert "dropped 2 of 4 pairs" in caplog.text


@pytest.mark.parametrize(
    ("inputs", "targets", "counts"),
    [("1\n2\n3\n4\n", "1\n2\n", "4 and 2"), ("1\n", "1\n2\n3", "1 and 3"), ("", "1\n", "0 and 1")],
)
def test_unequal_lengths_are_an_error_with_both_counts(write, inputs, targets, counts):
    a, b = write("a", inputs), write("b", targets)
    with pytest.raises(DataError, match=f"{a} and {b}: {counts} lines"):
        list(corpora.aligned_pairs(a, b))


@pytest.mark.parametrize("contents", ["", "\n\n", "1\n\n"])
def test_files_without_a_pair_are_an_error_that_names_them(write, contents):
    a, b = write("a", contents), write("b", "\n" * contents.count("\n"))
    with pytest.raises(DataError, match=f"{a} and {b}: no pair"):
        list(corpora.aligned_pairs(a, b))


def test_undecodable_bytes_are_an_error_that_names_file_and_line(write):
    b = write("b", b"1\n2\n\xff\n")
    with pytest.raises(DataError, match=f"{b}, line 3"):
        list(corpora.aligned_pairs(write("a", "1\n2\n3\n"), b))


def test_finds_a_file_plain_or_compressed(write, tmp_path):
    assert corpora.find_file(tmp_path / "a") is None
    compressed = write("a.gz", "x")
    assert corpora.find_file(tmp_path / "a") == compressed
    plain = write("a", "x")
    assert corpora.find_file(tmp_path / "a") == plain


def test_downloads_a_file_over_what_a_killed_download_left(write, tmp_path):
    origin = write("origin.txt", "contents")
    target = tmp_path / "folder" / "copy.txt"
    target.parent.mkdir()
    (target.parent / "copy.txt.incomplete").write_text("cont")
    corpora.download(origin.as_uri(), target, hashlib.sha256(b"contents").hexdigest())
    assert target.read_text() == "contents"
    assert list(target.parent.iterdir()) == [target]


def test_a_download_with_another_hash_or_none_says_where_to_put_the_file(write, tmp_path):
    target = tmp_path / "folder" / "copy.txt"
    for origin in (write("origin.txt", "contents"), tmp_path / "absent.txt"):
        expected = f"cannot download {origin.as_uri()} .*put it at {target}"
        with pytest.raises(UserError, match=expected):
            corpora.download(origin.as_uri(), target, "0" * 64)
        assert list(target.parent.iterdir()) == []
