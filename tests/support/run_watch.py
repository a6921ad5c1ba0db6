"""A run of tests that always ends, and whose last lines say how to repeat what failed.

With `--standstill=SECONDS`, each failure is named at once, and a run in which no test ends for so
long is ended, with an error that names the tests that were running. When a worker dies,
pytest-xdist names its test, and with `--max-worker-restart=0` ends the run.
"""

import os
import pathlib
import shlex
import signal
import threading
import time

import pytest

EXIT_CODE = 70  # of a run that stood still
# Set by .ci/kernels: what failed with other kernels is repeated with them.
KERNELS_VARIABLE = "T2T_TEST_KERNELS"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the flag."""
    group = parser.getgroup("t2t_lite")
    group.addoption(
        "--standstill",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="end the run with an error once no test has ended for so long; 0: never",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watches the process that hands tests out, not the workers."""
    seconds = config.getoption("standstill")
    if seconds and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Watch(config, seconds))


class _Watch:
    """Ends the process when no test ends for so many seconds."""

    def __init__(self, config: pytest.Config, seconds: float) -> None:
        self._config = config
        self._seconds = seconds
        self._running: list[str] = []  # in the order in which they began
        self._last = time.monotonic()
        self._is_over = threading.Event()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running.append(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.remove(nodeid)
        self._last = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Names what failed at once: the run may be ended before its last lines."""
        if report.failed:
            reporter = self._config.pluginmanager.getplugin("terminalreporter")
            reporter.ensure_newline()
            reporter.write_line(f"{report.when} failed: {report.nodeid}", red=True)

    def pytest_unconfigure(self) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(min(1.0, self._seconds / 4)):
            if time.monotonic() - self._last > self._seconds:
                self._end()

    def _end(self) -> None:
        plugins = self._config.pluginmanager
        reporter = plugins.getplugin("terminalreporter")
        if capture := plugins.getplugin("capturemanager"):
            capture.suspend_global_capture()
        running = "; ".join(self._running) or "none: the run was starting or ending"
        reporter.ensure_newline()
        reporter.write_line(f"ERROR: no test has ended for {self._seconds:g} s; running: {running}")
        for nodeid in self._running:
            reporter.write_line(f"repeat it: {repeated(nodeid)}")
        reporter._tw.flush()
        _kill_children(os.getpid())
        os._exit(EXIT_CODE)


def repeated(nodeid: str) -> str:
    """Returns the command that runs one test alone, as it was run."""
    kernels = os.environ.get(KERNELS_VARIABLE, "")
    prefix = f".ci/kernels {kernels} " if kernels else ""
    return f"{prefix}python -m pytest -m '' {shlex.quote(nodeid)}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how to repeat each test that failed."""
    reports = [
        report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])
    ]
    names = dict.fromkeys(report.nodeid for report in reports)
    if names:
        terminalreporter.section("repeat each failure alone")
    for nodeid in names:
        terminalreporter.write_line(repeated(nodeid))


def _kill_children(pid: int) -> None:
    """Kills the processes that a process has started, and theirs."""
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            _kill_children(int(child))
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue
