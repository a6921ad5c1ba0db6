"""The file metrics.jsonl, with one line for every log line and evaluation of a run."""

import json
import logging
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from t2t_lite import files, json_files
from t2t_lite.errors import UserError

log = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
_MAX_RECORD_BYTES = 1 << 20  # longer lines are not records
_TEXT_SUFFIX = "_signature"  # of the names whose values are text


def read_records(folder: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the intact lines of metrics.jsonl and their records; none if there is no such file.

    Every record has the string `kind` and the integer `step`. A last line that was cut short by a
    kill is skipped. So are damaged lines (a power cut may leave zeros), with a warning.
    """
    path, damaged = folder / METRICS, []
    if not path.is_file():
        return
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(_MAX_RECORD_BYTES), b"")
        for number, line in enumerate(lines, 1):
            record = _record(line) if line.endswith(b"\n") else None
            if record is not None:
                yield line.decode(), record
            elif line.endswith(b"\n") or b"\0" in line or len(line) == _MAX_RECORD_BYTES:
                damaged.append(number)
    if damaged:
        log.warning(
            "%s is damaged: skipped %d lines, the first of which is line %d; they are removed when "
            "training resumes",
            path,
            len(damaged),
            damaged[0],
        )


def cut_back(folder: pathlib.Path, step: int) -> set[int]:
    """Removes damaged records and those after `step`, which a killed process left.

    Returns:
        The steps of the evaluations that remain.
    """
    kept = [(line, record) for line, record in read_records(folder) if record["step"] <= step]
    files.write_text(folder / METRICS, "".join(line for line, _ in kept))
    return {record["step"] for _, record in kept if record["kind"] == "eval"}


def append(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    """Adds a record, which is on disk when this returns: before the checkpoint of its step."""
    path = folder / METRICS
    with files.errors_of(path), path.open("a+b") as lines:
        end = lines.seek(0, os.SEEK_END)
        lines.seek(max(end - 1, 0))
        torn = end and lines.read(1) != b"\n"  # by a kill: start the record on a new line
        lines.write(b"\n" * bool(torn) + json.dumps(record).encode() + b"\n")
        lines.flush()
        os.fsync(lines.fileno())


def _record(line: bytes) -> dict[str, Any] | None:
    """Returns the record on a line of metrics.jsonl; None if the line is damaged."""
    try:
        record = json_files.Fields(pathlib.Path(METRICS), json_files.parse_object(line))
        record.check({"kind": str, "step": int})
    except (ValueError, UserError):
        return None
    rest = [(name, value) for name, value in record.items() if name != "kind"]
    is_valid = "kind" in record and "step" in record and all(_is_value(*field) for field in rest)
    return dict(record) if is_valid else None


def _is_value(name: str, value: Any) -> bool:
    return isinstance(value, str) if name.endswith(_TEXT_SUFFIX) else json_files.is_number(value)
