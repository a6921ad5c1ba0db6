import json
import os
import pathlib

import numpy as np
import pytest

from support.limits import full_disk
from t2t_lite.data.problem import Output
from t2t_lite.decoding.batch_journal import (
    FROM_START,
    BatchJournal,
    BatchRecord,
    OutputLine,
    ResumePoint,
)
from t2t_lite.decoding.hypotheses import Details, Hypothesis
from t2t_lite.errors import UserError

ROWS = [
    OutputLine("eins", Output("eins", 2)),
    OutputLine("a\u2028b\x00\tc", Output("a\u2028b\x00")),
    OutputLine("", Output("")),
    OutputLine("vier", Output("vier")),
]
PIECE = Hypothesis(
    Output("ein"),
    [5, 6],
    -0.1 - 0.2,
    Details(["a", "<EOS>"], ["b"], np.array([-0.1], np.float32).astype(float), np.array([[1 / 3]])),
)
BARE = PIECE._replace(details=PIECE.details._replace(attention=None))
RECORDS = [
    BatchRecord(0, 2, {1: ROWS[1]}, {}),  # batches of one window come in any order
    BatchRecord(0, 0, {0: ROWS[0]}, {}),
    BatchRecord(2, 1, {}, {4: [PIECE, PIECE._replace(details=None)], 5: [], 6: [BARE]}),
    BatchRecord(2, 3, {3: ROWS[3]}, {}),
    BatchRecord(2, 2, {2: ROWS[2]}, {}),
]
ORIGIN = {"input": ["abc"], "checkpoint": {"alpha": 0.1}}


@pytest.fixture
def target(tmp_path) -> pathlib.Path:
    return tmp_path / "new" / "out"


def leave(target: pathlib.Path, records: list[BatchRecord], origin=ORIGIN) -> pathlib.Path:
    """Writes the records that a killed process left; returns the journal's path."""
    with BatchJournal(target, origin).opened() as journal:
        for record in records:
            journal.append(record)
    return target.with_name("out.part")


def reopened(target: pathlib.Path, origin=ORIGIN) -> ResumePoint:
    with BatchJournal(target, origin).opened() as journal:
        return journal.resume_point


def test_the_target_appears_whole_and_in_order(target):
    with BatchJournal(target, ORIGIN).opened() as journal:
        for record in RECORDS:
            journal.append(record)
            assert not target.exists()
        assert list(journal.lines()) == ROWS
        journal.finish()
    assert target.read_bytes() == b"eins\na\xe2\x80\xa8b\x00\tc\n\nvier\n"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_a_full_disk_names_the_target(target):
    with BatchJournal(target, ORIGIN).opened() as journal:
        size = target.with_name("out.part").stat().st_size
        with full_disk(size + 10), pytest.raises(OSError, match="too large") as raised:
            journal.append(RECORDS[0])
    assert raised.value.filename == str(target)


def test_resumes_with_the_batches_of_the_last_window(target):
    leave(target, RECORDS[:2])
    assert reopened(target) == ResumePoint(lines=2, window=0, known={2: {}, 0: {}})
    leave(target, RECORDS[2:4])
    done = reopened(target)
    assert done[:2] == (3, 2)
    assert done.known.keys() == {1, 3}
    (first, second), none, (bare,) = done.known[1].values()
    assert second == PIECE._replace(details=None)
    assert none == []
    for found, wrote in ((first, PIECE), (bare, BARE)):
        assert found[:3] == wrote[:3]
        for kept, given in zip(found.details, wrote.details, strict=True):
            np.testing.assert_array_equal(kept, given)


@pytest.mark.integration
def test_a_kill_at_any_byte_loses_only_the_record_it_tears(target, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds of calls take seconds
    part_file = leave(target, RECORDS)
    whole = part_file.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]  # the header's first
    for size in range(ends[0], len(whole) + 1):
        part_file.write_bytes(whole[:size])
        count = sum(end <= size for end in ends) - 1
        done = reopened(target)
        assert part_file.read_bytes() == whole[: ends[count]]
        assert done.lines == sum(len(record.lines) for record in RECORDS[:count])
        leave(target, RECORDS[count:])
        assert part_file.read_bytes() == whole


@pytest.mark.parametrize("damage", [b"\x00" * 40 + b"\n", b"[0, 1]\n", b"7\n", b"\xff\n"])
def test_what_a_crash_of_the_machine_has_damaged_is_cut_off(target, damage):
    part_file = leave(target, RECORDS[:1])
    whole = part_file.read_bytes()
    part_file.write_bytes(whole + damage + whole.splitlines(keepends=True)[1])
    assert reopened(target).lines == 1
    assert part_file.read_bytes() == whole


@pytest.mark.parametrize("place", [0, 9, 10, 12, -3])
def test_a_record_that_was_altered_is_cut_off(target, place):
    part_file = leave(target, RECORDS[:1])
    whole = part_file.read_bytes()
    leave(target, RECORDS[1:])
    altered = bytearray(part_file.read_bytes().splitlines(keepends=True)[2])
    altered[place] = ord("1") if altered[place] != ord("1") else ord("2")
    part_file.write_bytes(whole + altered)
    assert reopened(target).lines == 1
    assert part_file.read_bytes() == whole


def test_another_origin_starts_over_and_says_why(target, caplog):
    leave(target, RECORDS)
    with BatchJournal(target, ORIGIN | {"input": ["abd"]}).opened() as journal:
        assert journal.resume_point == FROM_START
        assert list(journal.lines()) == []
    assert "starting over" in caplog.text
    assert "was made with another input\n" in caplog.text + "\n"


def test_records_of_an_earlier_release_are_discarded_with_a_warning(target, caplog):
    lines = [json.dumps(ORIGIN), '["eins", ["eins", 2]]']
    target.parent.mkdir()
    target.with_name("out.part").write_text("".join(f"{line}\n" for line in lines))
    assert reopened(target) == FROM_START
    assert "out.part was made with another format" in caplog.text


@pytest.mark.parametrize("first", [b"", b"{", b"3\n", b"\xff\n"])
def test_a_damaged_part_file_starts_over(target, first):
    leave(target, RECORDS).write_bytes(first)
    assert reopened(target) == FROM_START


def test_a_second_process_is_kept_out(target):
    with (
        BatchJournal(target, ORIGIN).opened(),
        pytest.raises(UserError, match=r"another t2t-decoder is writing .*out; wait"),
        BatchJournal(target, ORIGIN).opened(),
    ):
        pytest.fail("entered")


def test_a_target_that_cannot_be_written_is_refused_at_once(tmp_path):
    with (
        pytest.raises(UserError, match="is a folder: name a file in it"),
        BatchJournal(tmp_path, ORIGIN).opened(),
    ):
        pytest.fail("entered")
