"""What tests cost: `--costs` prints processor seconds and peak memory by folder.

The files and the fixtures that cost most are named apart. Seconds are user and system time of the
worker, of all its threads, and of the processes that it has waited for. Memory is the worker's own.
"""

import collections
import os
import resource
from collections.abc import Iterator
from typing import Any

import pytest

MOST = 15  # files and fixtures that are named
_PHASES = ("setup", "call", "teardown")
_COST = "cost"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the flag."""
    parser.getgroup("t2t_lite").addoption(
        "--costs", action="store_true", help="print processor seconds and peak memory by folder"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measures in every process, and adds up in the one that prints."""
    if config.getoption("costs"):
        config.pluginmanager.register(_Meter())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(_Table())


class _Meter:
    """Adds to each report the seconds of its phase, and of the fixtures that were set up in it."""

    def __init__(self) -> None:
        self._began = 0.0
        self._fixtures: dict[str, float] = {}
        self._within: list[float] = []  # seconds of fixtures inside those that are being set up

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        self._begin()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        self._begin()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        self._begin()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef) -> Iterator[Any]:
        began = _seconds()
        self._within.append(0.0)
        try:
            return (yield)
        finally:
            seconds = _seconds() - began
            own = seconds - self._within.pop()
            if self._within:
                self._within[-1] += seconds
            name = f"{fixturedef.argname} ({fixturedef.baseid or 'plugin'})"
            self._fixtures[name] = self._fixtures.get(name, 0.0) + own

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[pytest.TestReport]:
        report = yield
        cost = {"seconds": _seconds() - self._began, "fixtures": self._fixtures, "bytes": _peak()}
        report.user_properties = [*report.user_properties, (_COST, cost)]
        return report

    def _begin(self) -> None:
        self._began = _seconds()
        self._fixtures = {}


class _Table:
    """Prints the sums."""

    def __init__(self) -> None:
        self._tests: collections.Counter[str] = collections.Counter()
        self._seconds: collections.Counter[tuple[str, str]] = collections.Counter()
        self._files: collections.Counter[str] = collections.Counter()
        self._fixtures: collections.Counter[str] = collections.Counter()
        self._peak: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.split("::")[0]
        folder = file.rpartition("/")[0]
        costs = [value for name, value in report.user_properties if name == _COST]
        if not costs:  # the worker has died
            return
        cost = costs[-1]
        self._tests[folder] += report.when == "call"
        self._seconds[folder, report.when] += cost["seconds"]
        self._files[file] += cost["seconds"]
        self._fixtures.update(cost["fixtures"])
        self._peak[folder] = max(self._peak.get(folder, 0), cost["bytes"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor seconds and peak memory")
        heads = ("tests", *(f"{phase} s" for phase in _PHASES), "peak MiB")
        terminalreporter.write_line("".join(f"{head:>12}" for head in heads) + "  folder")
        sums = {f: sum(self._seconds[f, phase] for phase in _PHASES) for f in self._peak}
        for folder in sorted(sums, key=lambda folder: -sums[folder]):
            seconds = [f"{self._seconds[folder, phase]:.1f}" for phase in _PHASES]
            row = (self._tests[folder], *seconds, self._peak[folder] >> 20)
            terminalreporter.write_line("".join(f"{cell:>12}" for cell in row) + f"  {folder}")
        terminalreporter.write_line(f"{sum(sums.values()):.0f} s in all")
        for what, costs in (("files", self._files), ("fixtures", self._fixtures)):
            terminalreporter.write_line(f"{what} that cost most:")
            for name, seconds in costs.most_common(MOST):
                terminalreporter.write_line(f"{seconds:12.1f}  {name}")


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
