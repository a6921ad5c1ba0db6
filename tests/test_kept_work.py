"""What work was made from: contents of files, compared cheaply and never wrongly."""

import os
import pathlib
import time

import pytest

from t2t_lite import files, kept_work
from t2t_lite.errors import UserError
from t2t_lite.kept_work import Fingerprint


@pytest.fixture
def text(tmp_path) -> pathlib.Path:
    path = tmp_path / "text"
    path.write_text("one two")
    return path


@pytest.fixture
def later(monkeypatch):
    """Some time passes after files were written, so that their times tell them apart."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10**10)


def read_files(monkeypatch) -> list[str]:
    """The names of the files that are read from now on."""
    names = []
    digest = files.digest

    def counted(path):
        names.append(os.path.basename(path))
        return digest(path)

    monkeypatch.setattr(files, "digest", counted)
    return names


def with_times_of(path: pathlib.Path, contents: str) -> None:
    """Writes other contents, and gives the file its old times back."""
    status = path.stat()
    path.write_text(contents)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def overwrite(path):
    with_times_of(path, "two one")


def replace(path):
    other = path.with_name("other")
    other.write_text("two one")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def link(path):
    other = path.with_name("other")
    other.write_text("two one")
    path.unlink()
    path.symlink_to(other)


def link_elsewhere(path):
    link(path)
    path.with_name("other").rename(path.with_name("moved"))


def append(path):
    path.write_text("one two\n")


def remove(path):
    path.unlink()


def put_a_folder_there(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    "change", [overwrite, replace, link, link_elsewhere, append, remove, put_a_folder_there]
)
def test_every_change_is_noticed(text, request, waits, change):
    if waits:
        request.getfixturevalue("later")
    before = Fingerprint([text])
    change(text)
    with pytest.raises(UserError, match=r"text was (replaced|removed) while this command read it"):
        before.require_unchanged()


def touch(path):
    os.utime(path, ns=(1, 1))


def copy(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def link_to_itself(path):
    path.rename(path.with_name("there"))
    path.symlink_to("there")


@pytest.mark.parametrize("change", [lambda path: None, touch, copy, link_to_itself])
def test_the_same_contents_are_unchanged(text, change):
    before = Fingerprint([text])
    change(text)
    before.require_unchanged()
    assert before.digest(text) == files.digest(text)


def test_what_has_not_changed_for_a_while_is_read_once(text, later, monkeypatch):
    read = read_files(monkeypatch)
    before = Fingerprint([text])
    for _ in range(3):
        before.require_unchanged()
    assert read == ["text"]
    touch(text)
    for _ in range(3):
        before.require_unchanged()
    assert read == ["text", "text"]


def test_what_has_just_changed_is_read_again(text, monkeypatch):
    """On a file system that counts seconds, a second change may have the time of the first."""
    read = read_files(monkeypatch)
    assert kept_work.contents(text) == kept_work.contents(text)
    assert read == ["text", "text"]


def test_coarse_times_hide_nothing(text, later, monkeypatch):
    """Replaced by a file of the same size and times, as FAT has them after two seconds."""
    stat = os.stat

    def coarse(path, **kwargs):
        fields = list(stat(path, **kwargs))
        return os.stat_result(fields, {"st_mtime_ns": 10**9, "st_ctime_ns": 10**9})

    monkeypatch.setattr(os, "stat", coarse)
    before = Fingerprint([text])
    other = text.with_name("other")
    other.write_text("two one")
    other.replace(text)
    with pytest.raises(UserError, match="text was replaced"):
        before.require_unchanged()


def test_only_the_files_that_are_named_are_compared(text, tmp_path):
    other = tmp_path / "other"
    other.touch()
    before = Fingerprint([text], Fingerprint([other]))
    append(other)
    before.require_unchanged(text)
    with pytest.raises(UserError, match="other was replaced"):
        before.require_unchanged()


@pytest.mark.parametrize(("name", "message"), [("gone", "no such file"), (".", "not a regular")])
def test_only_files_have_a_fingerprint(text, name, message):
    with pytest.raises(UserError, match=message):
        Fingerprint([text, text.parent / name])


def test_a_file_as_a_folder_is_missing(text):
    with pytest.raises(UserError, match="text/x: no such file"):
        Fingerprint([text / "x"])


ORIGIN = {"text": {"a": "1"}, "shares": (0.5, 1.0), "beam": 4}


def test_origins_differ_in_what_they_mean_and_not_in_how_json_writes_it(tmp_path):
    kept_work.write_record(tmp_path / "record", ORIGIN, release="x")
    (tmp_path / "out").write_text("")
    found = kept_work.read_record(tmp_path / "out", tmp_path / "record")
    assert kept_work.differing(found["origin"], {**ORIGIN, "shares": [0.5, 1]}) == []
    kept_work.refuse_another(tmp_path / "out", found, ORIGIN)
    for other, names in (
        ({**ORIGIN, "beam": 5}, "beam"),
        ({**ORIGIN, "text": {"b": "1"}, "more": 1}, "text, more"),
        ({"text": {"a": "1"}, "beam": 4}, "shares"),
    ):
        with pytest.raises(UserError, match=rf"out was made from something else .*\({names}\): "):
            kept_work.refuse_another(tmp_path / "out", found, other)


def test_a_result_without_a_record_is_not_taken_for_one(tmp_path):
    record = tmp_path / "record"
    assert kept_work.read_record(tmp_path / "gone", record) is None
    (tmp_path / "empty").mkdir()
    assert kept_work.read_record(tmp_path / "empty", record) is None
    (tmp_path / "out").touch()
    with pytest.raises(UserError, match="out already exists, without record, which would say"):
        kept_work.read_record(tmp_path / "out", record)
    for text in ("", "[]", '{"origin": 3}'):
        record.write_text(text)
        with pytest.raises(UserError, match="record"):
            kept_work.read_record(tmp_path / "out", record)


def test_a_digest_names_an_origin():
    names = {
        kept_work.digest(origin) for origin in (ORIGIN, dict(reversed(ORIGIN.items())), {"a": 1})
    }
    assert len(names) == 2
