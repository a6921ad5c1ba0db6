"""Atomic writing of files and folders."""

import os
import pathlib

import pytest

from t2t_lite import files
from t2t_lite.errors import UserError


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"  # as /dev/null is none
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(UserError, match="is not a regular file"):
            files.write_text(path, "text")
    assert pipe.is_fifo()


@pytest.mark.parametrize("durable", [True, False])
def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, durable):
    synced = []

    def fsync(descriptor):
        synced.append((os.stat(descriptor).st_ino, path.exists()))

    path = tmp_path / "file"
    monkeypatch.setattr(os, "fsync", fsync)
    with files.whole_file(path, durable) as temporary:
        temporary.write_text("text")
    wanted = [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
    assert synced == (wanted if durable else [])


def test_a_folder_has_its_name_when_it_is_whole(tmp_path):
    folder = tmp_path / "a" / "b"
    with files.whole_folder(folder) as new:
        (new / "file").write_text("text")
        assert not folder.exists()
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", folder, folder / "file"]
    with pytest.raises(UserError, match="already exists"), files.whole_folder(folder):
        pass


def fail_beside(folder, other):
    with files.whole_folder(folder):
        other.touch()
        raise ValueError


@pytest.mark.parametrize(("other", "left"), [("c", ["c"]), ("a/c", ["a", "a/c"])])
def test_a_folder_that_fails_leaves_no_parents_but_those_in_use(tmp_path, other, left):
    with pytest.raises(ValueError, match=r"^$"):
        fail_beside(tmp_path / "a" / "b", tmp_path / other)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / name for name in left]


@pytest.mark.parametrize("name", ["plain", "a,b*?{c} ü"])
def test_a_prefix_that_is_read_literally_stays(tmp_path, name):
    with files.plain_prefix(str(tmp_path / name)) as prefix:
        assert prefix == str(tmp_path / name)


@pytest.mark.parametrize("name", ["[a]", "[", "a\\b", "new\n[line]"])
def test_a_prefix_that_would_be_misread_has_another_name_for_a_while(tmp_path, monkeypatch, name):
    for end in (".index", ".data-00000-of-00001", "0.index"):
        (tmp_path / (name + end)).write_text(end)
    monkeypatch.chdir(tmp_path)
    with files.plain_prefix(name) as prefix:
        assert not files.is_misread(prefix)
        folder = pathlib.Path(prefix).parent
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found == {f"files{end}": end for end in (".index", ".data-00000-of-00001")}
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 3
