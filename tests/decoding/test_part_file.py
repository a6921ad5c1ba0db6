import pathlib

import pytest

from t2t_lite.data.problem import Output
from t2t_lite.decoding.part_file import PartFile, Record
from t2t_lite.errors import UserError

RECORDS = [
    Record("eins", Output("eins", 2)),
    Record("a\u2028b\x00\tc", Output("a\u2028b\x00")),
    Record("", Output("")),
]
ORIGIN = {"input": ["abc"], "checkpoint": {"alpha": 0.1}}


@pytest.fixture
def target(tmp_path) -> pathlib.Path:
    return tmp_path / "new" / "out"


def leave(target: pathlib.Path, records: list[Record], origin=ORIGIN) -> pathlib.Path:
    """Does what a killed process has done; returns the part file."""
    with PartFile(target, origin).opened() as part:
        part.append(records)
    return target.with_name("out.part")


def test_the_target_appears_whole(target):
    with PartFile(target, ORIGIN).opened() as part:
        part.append(RECORDS[:1])
        part.append(RECORDS[1:])
        assert not target.exists()
        assert list(part.records()) == RECORDS
        part.finish()
    assert target.read_bytes() == b"eins\na\xe2\x80\xa8b\x00\tc\n\n"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_goes_on_after_the_last_whole_record(target):
    part_file = leave(target, RECORDS)
    whole = part_file.read_bytes()
    part_file.write_bytes(whole[:-3])  # cut in the last record
    with PartFile(target, ORIGIN).opened() as part:
        assert part.done == 2
        part.append(RECORDS[2:])
        assert part.done == 3
    assert part_file.read_bytes() == whole


def test_another_origin_starts_anew_and_says_why(target, caplog):
    leave(target, RECORDS)
    with PartFile(target, ORIGIN | {"input": ["abd"]}).opened() as part:
        assert part.done == 0
        assert list(part.records()) == []
    assert "starting anew" in caplog.text
    assert "was made with another input\n" in caplog.text + "\n"


@pytest.mark.parametrize("first", [b"", b"{", b"3\n", b"\xff\n"])
def test_a_damaged_part_file_starts_anew(target, first):
    leave(target, RECORDS).write_bytes(first)
    with PartFile(target, ORIGIN).opened() as part:
        assert part.done == 0


def test_a_second_process_is_kept_out(target):
    with (
        PartFile(target, ORIGIN).opened(),
        pytest.raises(UserError, match=r"another t2t-decoder is writing .*out; wait"),
        PartFile(target, ORIGIN).opened(),
    ):
        pytest.fail("entered")


def test_a_target_that_cannot_be_written_is_refused_at_once(tmp_path):
    with (
        pytest.raises(UserError, match="is a folder: name a file in it"),
        PartFile(tmp_path, ORIGIN).opened(),
    ):
        pytest.fail("entered")
