"""metrics.jsonl: one line for every log line and evaluation of a run."""

import logging
import pathlib
from collections.abc import Iterator
from typing import Any

from t2t_lite import json_files
from t2t_lite.errors import UserError

log = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
# A line of metrics.jsonl that is longer is none of ours; only values of such names are text.
_LONGEST_RECORD = 1 << 20
_TEXT_SUFFIX = "_signature"


def read_metrics(folder: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the whole lines of metrics.jsonl and what they hold; none if there is no such file.

    Every record has the text `kind` and the whole number `step`. A line that was cut short by a
    kill is left out, and one that is damaged (a power cut may leave zeros), with a warning.
    """
    path, damaged = folder / METRICS, []
    if not path.is_file():
        return
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(_LONGEST_RECORD), b"")
        for number, line in enumerate(lines, 1):
            record = _record(line) if line.endswith(b"\n") else None
            if record is not None:
                yield line.decode(), record
            elif line.endswith(b"\n") or b"\0" in line or len(line) == _LONGEST_RECORD:
                damaged.append(number)
    if damaged:
        log.warning(
            "%s is damaged: %d of its lines skipped, line %d the first; they are cut when "
            "training goes on",
            path,
            len(damaged),
            damaged[0],
        )


def _record(line: bytes) -> dict[str, Any] | None:
    """Returns the record that a line of metrics.jsonl is; None if it is none."""
    try:
        record = json_files.Fields(pathlib.Path(METRICS), json_files.parse_object(line))
        record.check({"kind": str, "step": int})
    except (ValueError, UserError):
        return None
    rest = [(name, value) for name, value in record.items() if name != "kind"]
    sound = "kind" in record and "step" in record and all(_is_value(*field) for field in rest)
    return dict(record) if sound else None


def _is_value(name: str, value: Any) -> bool:
    return isinstance(value, str) if name.endswith(_TEXT_SUFFIX) else json_files.is_number(value)
