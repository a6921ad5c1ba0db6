import pytest

from t2t_lite.runs.metrics_jsonl import METRICS, read_records

FIRST, LAST = b'{"kind": "train", "step": 1}\n', b'{"kind": "eval", "step": 12}\n'


@pytest.mark.parametrize(
    ("lines", "steps", "damaged"),
    [
        ([FIRST, LAST], [1, 12], ""),
        ([FIRST, LAST[:-1]], [1], ""),  # a record, but a longer one may have been meant
        ([FIRST, LAST[:9]], [1], ""),
        ([LAST[3:], b"[1]\n", FIRST], [1], "skipped 2 lines, the first of which is line 1"),
        ([FIRST, b"\0\0\0"], [1], "skipped 1 lines, the first of which is line 2"),
        ([FIRST, b'{"kind": "eval", "step": 1, "loss": "low"}\n'], [1], "which is line 2"),
    ],
)
def test_only_whole_records_are_read(tmp_path, caplog, lines, steps, damaged):
    (tmp_path / METRICS).write_bytes(b"".join(lines))
    assert [record["step"] for _, record in read_records(tmp_path)] == steps
    assert damaged in caplog.text
    assert bool(caplog.records) == bool(damaged)
