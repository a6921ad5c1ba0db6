"""What all benchmarks share: flags, the machine printed first, a text for people, and JSON.

The JSON of a benchmark has its name, date, arguments, machine, and for each case the seconds of
every round and the peak memory of each contender, the ratios with their bars, and other figures.
`all.py` makes tables of it.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import machine
import pairing

from t2t_lite import files


class Bar(NamedTuple):
    """A ratio of speeds to report."""

    name: str
    other: str
    least: float | None = None  # required speed of `name` over that of `other`


class Figure(NamedTuple):
    """A number other than a ratio of speeds."""

    name: str
    value: float
    unit: str
    most: float | None = None  # the bar

    def __str__(self) -> str:
        bar = "" if self.most is None else f", bar <= {self.most:g}"
        return f"{number(self.value)} {self.unit}{bar}"


class Case(NamedTuple):
    """Contenders that took turns in one run, with everything that is said about them."""

    name: str
    found: pairing.Comparison = pairing.Comparison({}, {})
    bars: tuple[Bar, ...] = ()
    figures: tuple[Figure, ...] = ()
    amount: float = 0  # of `unit` in a step; 0: no rate
    unit: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the case as JSON."""
        found = self.found
        contenders = {
            name: {
                "seconds": seconds,
                "median": found.median(name),
                "rate": self.amount / found.median(name) if self.amount else None,
                "peak_mib": found.peak.get(name),
            }
            for name, seconds in found.seconds.items()
        }
        ratios = [
            {**bar._asdict(), **found.ratio(bar.name, bar.other)._asdict()}
            for bar in self.bars
            if {bar.name, bar.other} <= set(found.seconds)
        ]
        return {
            "case": self.name,
            "unit": self.unit,
            "contenders": contenders,
            "absent": dict(found.absent),
            "ratios": ratios,
            "figures": [figure._asdict() for figure in self.figures],
        }

    def __str__(self) -> str:
        case = self.to_json()
        lines = [self.name]
        for name, one in case["contenders"].items():
            rate = f"{number(one['rate']):>12} {self.unit}/s" if self.amount else ""
            peak = "" if one["peak_mib"] is None else f"{one['peak_mib']:10,.0f} MiB"
            lines.append(f"  {name:28} {one['median']:10.4f} s{rate}{peak}")
        lines += [f"  {name:28} {why}" for name, why in self.found.absent.items()]
        lines += [
            f"  {ratio['name'] + ' : ' + ratio['other']:45} {ratio_text(ratio)}"
            for ratio in case["ratios"]
        ]
        lines += [f"  {figure.name:45} {figure}" for figure in self.figures]
        return "\n".join(lines)


def ratio_text(ratio: dict[str, Any]) -> str:
    """Describes a ratio of the JSON: "1.31 (1.20 to 1.40), bar 1.25: met"."""
    text = str(pairing.Ratio(*(ratio[field] for field in pairing.Ratio._fields)))
    if ratio["least"] is None:
        return text
    return f"{text}, bar {ratio['least']:.2f}: " + (
        "met" if ratio["median"] >= ratio["least"] else "missed"
    )


def number(value: float) -> str:
    """Returns a number with three digits, or all of a large one: "0.0123", "1.5", "12,345"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def parser(
    doc: str | None,
    rounds: int | None = None,
    seconds: float | None = None,
    cases: Iterable[str] = (),
) -> argparse.ArgumentParser:
    """Returns a parser of the common flags.

    Args:
        doc: the benchmark's description.
        rounds: default of --rounds; None: there is no such flag.
        seconds: the same of --seconds.
        cases: the choices of --only, all of which are its default; (): there is no such flag.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    names = list(cases)
    if names:
        made.add_argument(
            "--only", nargs="+", choices=names, default=names, help="some cases (all)"
        )
    if rounds is not None:
        made.add_argument(
            "--rounds", type=int, default=rounds, help=f"turns of each contender ({rounds})"
        )
    if seconds is not None:
        made.add_argument(
            "--seconds", type=float, default=seconds, help=f"length of a turn ({seconds:g})"
        )
    made.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the figures")
    return made


@contextlib.contextmanager
def opened(args: argparse.Namespace) -> Iterator[Callable[[Case], None]]:
    """Prints the machine, yields a function that prints a case, and at the end writes --json."""
    here = machine.this_machine()
    print(here, flush=True)
    cases: list[Case] = []

    def add(case: Case) -> None:
        print(case, flush=True)
        cases.append(case)

    yield add
    if args.json:
        _write(args, here, cases)


def _write(args: argparse.Namespace, here: machine.Machine, cases: list[Case]) -> None:
    content = {
        "benchmark": pathlib.Path(sys.argv[0]).stem,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "arguments": json.loads(json.dumps(vars(args), default=str)),
        "machine": dataclasses.asdict(here),
        "results": [case.to_json() for case in cases],
    }
    # Whole or not at all, because all.py skips a benchmark that has its JSON.
    files.write_text(args.json, json.dumps(content, indent=1) + "\n")
