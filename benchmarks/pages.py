"""The tables of speeds in docs/performance.md, made from benchmarks/figures/.

    python benchmarks/pages.py

writes each table anew between its marks, `<!-- figures: NAME -->` and `<!-- end of figures -->`.

benchmarks/figures/ has one JSON file for each machine, which `all.py --machine=NAME` writes: the
short name that heads its column, the processor, our version, and for each case of each benchmark
what is known of the contenders: median seconds of a step, rates, peak memory in MiB, latencies, and
the ratios of speeds. A ratio is [median, lowest, highest] of the rounds, [lowest, highest] of
several runs, or [median]. Where it is not there, the quotient of the medians takes its place.
"""

import importlib.metadata
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import report
import serve
from decode_throughput import ENGINE, FLOAT32
from peers import COMPILED, OURS, PYTORCH
from train_throughput import PRODUCTS

from t2t_lite import files

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "figures"
PAGES = (ROOT / "docs" / "performance.md",)

BFLOAT16, INT8 = f"{OURS} bfloat16", "CTranslate2 int8"

_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(\n<!-- end of figures -->)", re.S)


class Row(NamedTuple):
    """One ratio: our speed to another's."""

    label: str
    benchmark: str
    case: str
    other: str
    ours: str = OURS


def _training(case: str, label: str, *others: tuple[str, str]) -> list[Row]:
    rows = [Row(f"{label}: PyTorch", "train_throughput", case, PYTORCH)]
    return rows + [Row(text, "train_throughput", case, other) for text, other in others]


_COMPILED = ("PyTorch compiled", COMPILED)
_PRODUCTS = ("the matrix products of the step alone", PRODUCTS)
TRAINING = [
    *_training("base", "base, float32", _COMPILED, _PRODUCTS),
    *_training("base_bfloat16", "base, bfloat16", _COMPILED, _PRODUCTS),
    *_training("tiny", "tiny, float32", _COMPILED, _PRODUCTS),
    *_training("tiny_bfloat16", "tiny, bfloat16", _COMPILED),
]


def _decoding(case: str, label: str) -> list[Row]:
    return [
        Row(f"{label}, float32: CTranslate2 float32", "decode_throughput", case, FLOAT32),
        Row("bfloat16: CTranslate2 float32", "decode_throughput", case, FLOAT32, BFLOAT16),
        Row("float32: CTranslate2 int8", "decode_throughput", case, INT8),
        Row("bfloat16: CTranslate2 int8", "decode_throughput", case, INT8, BFLOAT16),
        Row("float32: matrix products in float32", "decode_throughput", case, PRODUCTS),
    ]


DECODING = [
    *_decoding("beam", "beam 4"),
    *_decoding("greedy", "greedy"),
    *_decoding("one", "one line at a time, beam 4"),
]
AROUND_CTRANSLATE2 = [
    Row(f"{label}, {kind}", "decode_throughput", case, f"CTranslate2 {kind}", ENGINE + kind)
    for case, label in (("beam", "beam 4"), ("greedy", "greedy"), ("one", "one line, beam 4"))
    for kind in ("float32", "int8")
]
CONV_S2S = [
    Row(f"{width} features", "model_throughput", f"conv_s2s_{width}", PYTORCH)
    for width in (128, 256)
]
GNMT = [
    Row(label, "model_throughput", case, PYTORCH)
    for case, label in (
        ("gnmt_256", "3+3 layers of 256"),
        ("gnmt_unfed", "the same without input feeding"),
        ("gnmt_old", "3+3 layers of 256, `attention_architecture=gnmt`"),
        ("gnmt_512", "4+4 layers of 512"),
    )
]


class Measured(NamedTuple):
    """A ratio on one machine."""

    lowest: float  # the median, if there is one
    highest: float
    text: str


class Machine:
    """The figures of one machine.

    Args:
        content: of its file.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.name: str = content["name"]
        self.processor: str = content["processor"]
        self.version: str = content["version"]
        self._benchmarks: Mapping[str, Any] = content["benchmarks"]

    def figure(self, row: Row, field: str, contender: str) -> float | None:
        """Returns one figure of a contender in the case of `row`; None: not known."""
        case = self._benchmarks.get(row.benchmark, {}).get(row.case, {})
        return case.get(field, {}).get(contender)

    def ratio(self, row: Row) -> Measured | None:
        """Returns the ratio of `row`; None: not measured."""
        match self.figure(row, "ratios", f"{row.ours} : {row.other}"):
            case [median, lowest, highest]:
                return Measured(median, median, f"{median:.2f} ({lowest:.2f} to {highest:.2f})")
            case [lowest, highest]:
                return Measured(lowest, highest, f"{lowest:.2f} to {highest:.2f}")
            case [median]:
                return Measured(median, median, f"{median:.2f}")
        for field in ("seconds", "rate"):
            ours, other = (self.figure(row, field, side) for side in (row.ours, row.other))
            if ours and other:
                found = other / ours if field == "seconds" else ours / other
                return Measured(found, found, f"{found:.2f}")
        return None


def machines(folder: pathlib.Path = FOLDER) -> list[Machine]:
    """Returns the machines of a folder, by name."""
    contents = (json.loads(path.read_text("utf-8")) for path in folder.glob("*.json"))
    return sorted(map(Machine, contents), key=lambda machine: machine.name)


def content_of(name: str, processor: str, results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the content of a machine's file.

    Args:
        name: heads its column.
        processor: what it is.
        results: the JSON of benchmarks (see `report.py`).
    """
    benchmarks: dict[str, Any] = {}
    for result in results:
        for case in result["results"]:
            sides = case["contenders"].items()
            known = {
                "seconds": {side: one["median"] for side, one in sides},
                "rate": {side: one["rate"] for side, one in sides if one["rate"]},
                "mib": {side: one["peak_mib"] for side, one in sides if one["peak_mib"]},
                "ratios": {
                    f"{ratio['name']} : {ratio['other']}": [
                        ratio[field] for field in ("median", "lowest", "highest")
                    ]
                    for ratio in case["ratios"]
                },
                "figures": {figure["name"]: figure["value"] for figure in case["figures"]},
            }
            cases = benchmarks.setdefault(result["benchmark"], {})
            cases[case["case"]] = {field: values for field, values in known.items() if values}
    version = importlib.metadata.version("t2t_lite")
    return {"name": name, "processor": processor, "version": version, "benchmarks": benchmarks}


def write_machine(folder: pathlib.Path, content: Mapping[str, Any]) -> pathlib.Path:
    """Writes a machine's file, in place of an older one; returns its path."""
    name = re.sub(r"\W+", "_", content["name"].lower()).strip("_")
    path = folder / f"{name}.json"
    files.write_text(str(path), json.dumps(content, indent=1) + "\n")
    return path


# ---- tables


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [_line(head), "|---" * len(head) + "|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def spread(found: Iterable[Measured | None]) -> str:
    """Returns the range over machines, the worst first, in bold if there is more than one."""
    known = [one for one in found if one]
    worst, best = min(one.lowest for one in known), max(one.highest for one in known)
    text = f"{worst:.2f}" + (f" to {best:.2f}" if best > worst else "")
    return f"**{text}**" if len(known) > 1 else text


def by_machine(rows: Iterable[Row], columns: Sequence[Machine]) -> str:
    """Returns a table of ratios with a column for each machine that has any.

    Where there are several, a column before them has the range.
    """
    found = {row: [machine.ratio(row) for machine in columns] for row in rows}
    found = {row: ratios for row, ratios in found.items() if any(ratios)}
    shown = [n for n in range(len(columns)) if any(ratios[n] for ratios in found.values())]
    lines = []
    for row, ratios in found.items():
        cells = [one.text if (one := ratios[n]) else "" for n in shown]
        lines.append([row.label, *[spread(ratios)] * (len(shown) > 1), *cells])
    names = [columns[n].name for n in shown]
    head = ["t2t_lite : the other", *["range"] * (len(shown) > 1), *names]
    return table(head, lines)


def processors(columns: Sequence[Machine]) -> str:
    """Returns the table of the machines."""
    cells = ([f"**{one.name}**", one.processor, one.version] for one in columns)
    return table(["name here", "processor", "version"], cells)


def details(rows: Iterable[Row], columns: Sequence[Machine], fields: Mapping[str, str]) -> str:
    """Returns a table with figures of both sides of each ratio.

    Args:
        rows: the ratios.
        columns: the machines.
        fields: the head of a column for each field.
    """
    lines = []
    for machine in columns:
        for row in rows:
            sides = {
                field: [machine.figure(row, field, side) for side in (row.ours, row.other)]
                for field in fields
            }
            ratio = machine.ratio(row)
            if ratio and all(None not in pair for pair in sides.values()):
                pairs = (" : ".join(map(_number, pair)) for pair in sides.values())
                lines.append([row.label, machine.name, *pairs, ratio.text])
    return table(["t2t_lite : the other", "processor", *fields.values(), "ratio of speeds"], lines)


def amounts(
    rows: Mapping[str, tuple[str, str]],
    columns: Sequence[Machine],
    field: str,
    contenders: Sequence[str],
) -> str:
    """Returns a table of one field of many contenders, a line for each case and machine.

    Args:
        rows: benchmark and case of each label.
        columns: the machines.
        field: such as "seconds".
        contenders: a column for each.
    """
    lines = []
    for label, (benchmark, case) in rows.items():
        for machine in columns:
            row = Row(label, benchmark, case, "")
            found = [machine.figure(row, field, contender) for contender in contenders]
            if found[0] is not None:
                lines.append(
                    [label, machine.name, *("" if x is None else _number(x) for x in found)]
                )
    return table(["", "processor", *contenders], lines)


def serving(columns: Sequence[Machine]) -> str:
    """Returns the table of the servers."""
    lines = []
    for machine in columns:
        for clients in (8, 50):
            for side in serve.SERVERS:
                is_peer, is_engine = map(side.startswith, (serve.PEER, serve.ENGINE))
                other = side.replace(serve.ENGINE, serve.PEER) if is_engine else FLOAT32
                row = Row("", "serve", f"base, {clients} clients", other, side)
                rate = machine.figure(row, "rate", side)
                if rate is None:
                    continue
                latencies = (
                    machine.figure(row, "figures", f"{side}, latency p{p}") or 0 for p in (50, 99)
                )
                ratio = None if is_peer else machine.ratio(row)
                text = ", ".join(f"{x:.2f}" for x in latencies)
                cells = [str(clients), side, machine.name, _number(rate), text]
                lines.append([*cells, ratio.text if ratio else ""])
    head = ["clients", "server", "processor", "requests/s", "latency p50, p99, s"]
    return table([*head, "throughput to CTranslate2's"], lines)


def _number(value: float) -> str:
    """Returns a number with thousands separated, or with the digits that it has in the file."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


_STEPS = {
    f"{size}, {dtype}": ("train_throughput", size + suffix)
    for size in ("base", "tiny")
    for dtype, suffix in (("float32", ""), ("bfloat16", "_bfloat16"))
}
_SEARCHES = {
    "beam 4": ("decode_throughput", "beam"),
    "greedy": ("decode_throughput", "greedy"),
    "one line at a time": ("decode_throughput", "one"),
}
_TRAINED = (OURS, PYTORCH, COMPILED, PRODUCTS)
_DECODED = (OURS, BFLOAT16, FLOAT32, INT8, PRODUCTS)
_BOTH = {"seconds": "seconds a step", "mib": "peak memory, MiB"}

TABLES: dict[str, Callable[[Sequence[Machine]], str]] = {
    "processors": processors,
    "training": lambda columns: by_machine(TRAINING, columns),
    "training_seconds": lambda columns: amounts(_STEPS, columns, "seconds", _TRAINED),
    "conv_s2s": lambda columns: details(CONV_S2S, columns, _BOTH),
    "gnmt": lambda columns: details(GNMT, columns, _BOTH),
    "decoding": lambda columns: by_machine(DECODING, columns),
    "decoding_rates": lambda columns: amounts(_SEARCHES, columns, "rate", _DECODED),
    "engine": lambda columns: by_machine(AROUND_CTRANSLATE2, columns),
    "serving": serving,
}


def rewritten(text: str, columns: Sequence[Machine]) -> str:
    """Returns a page with its tables made anew.

    Raises:
        KeyError: a mark names no table.
    """

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match[2]](columns)}\n{match[3]}"

    return _BLOCK.sub(block, text)


def main() -> None:
    """Writes the pages."""
    report.parser(__doc__).parse_args()
    columns = machines()
    for path in PAGES:
        files.write_text(str(path), rewritten(path.read_text("utf-8"), columns))


if __name__ == "__main__":
    main()
