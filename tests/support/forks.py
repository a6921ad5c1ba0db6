"""Tests in a fork of the worker that collected them, so that their memory is given back.

TensorFlow keeps much of what it traces, outside Python, for as long as its process lives. With
`--fork-above=MIB`, a worker of pytest-xdist runs no test itself: a child does, which begins where
the worker is once tests are collected, before TensorFlow has touched a device. When a file begins
and the child has more memory than that, another child takes its place.
"""

import multiprocessing
import os
import pathlib
import resource
import warnings
from multiprocessing.connection import Connection
from typing import Any

import pytest
from xdist.remote import serialize_warning_message
from xdist.workermanage import unserialize_warning_message

_NAME = "forks"  # of the plugin of a worker whose children run its tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the flag."""
    parser.getgroup("t2t_lite").addoption(
        "--fork-above",
        type=int,
        default=0,
        metavar="MIB",
        help="workers fork children that run the tests, another one for a file that begins with "
        "more memory than that; 0: workers run them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Works in the workers alone."""
    mebibytes = config.getoption("fork_above")
    if mebibytes and hasattr(config, "workerinput"):
        config.pluginmanager.register(_Forks(config, mebibytes << 20), _NAME)


def is_ending(config: pytest.Config) -> bool:
    """Whether this process is a child with more memory than the next file of tests may find."""
    most_bytes = config.getoption("fork_above") << 20
    return config.pluginmanager.has_plugin(_NAME) and _resident_bytes(os.getpid()) > most_bytes


class _Forks:
    """In a worker, hands each test to a child, and its reports to pytest-xdist; and that child."""

    def __init__(self, config: pytest.Config, most_bytes: int) -> None:
        self._config = config
        self._most_bytes = most_bytes
        self._tests: dict[str, pytest.Item] = {}
        self._file = ""
        self._is_child = False
        self._pid = 0  # of the child; 0: there is none
        self._pipe: Connection  # to the other of the two
        self._told: list[tuple[str, dict[str, Any]]] = []  # by the child, of the test that it runs

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tests = {item.nodeid: item for item in session.items}
        # A child that makes this folder removes what the one before it has left there.
        self._config._tmp_path_factory.getbasetemp()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: Any) -> bool | None:
        if self._is_child:
            return None
        file = item.nodeid.partition("::")[0]
        if self._pid and file != self._file and _resident_bytes(self._pid) > self._most_bytes:
            self._end()
        self._file = file
        if not self._pid:
            self._fork()
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._pipe.send((item.nodeid, nextitem and nextitem.nodeid))
        try:
            for what, data in self._pipe.recv():
                self._pass_on(item, what, data)
        except (EOFError, ConnectionResetError):
            self._die_as_the_child()
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_sessionfinish(self) -> None:
        if self._pid:
            self._end()

    def _pass_on(self, item: pytest.Item, what: str, data: dict[str, Any]) -> None:
        hook = self._config.hook
        if what == "report":
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
            item.ihook.pytest_runtest_logreport(report=report)
        else:
            data["warning_message"] = unserialize_warning_message(data["warning_message"])
            item.ihook.pytest_warning_recorded.call_historic(kwargs=data)

    def _fork(self) -> None:
        own, of_child = multiprocessing.Pipe()
        with warnings.catch_warnings(action="ignore"):  # other threads do but wait
            self._pid = os.fork()
        self._is_child = not self._pid
        unused, self._pipe = (own, of_child) if self._is_child else (of_child, own)
        unused.close()
        if not self._is_child:
            return
        code = 1
        try:
            self._run_tests()
            code = 0
        finally:
            os._exit(code)

    def _run_tests(self) -> None:
        """Runs tests in the child, until it is told to end or the worker is gone."""
        plugins = self._config.pluginmanager
        for plugin in plugins.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":  # of pytest-xdist
                plugins.unregister(plugin)
        for name, next_name in iter(self._pipe.recv, None):
            item, nextitem = self._tests[name], self._tests.get(next_name)
            self._told = []
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            self._pipe.send(self._told)
        item.session._setupstate.teardown_exact(None)  # the fixtures of the session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._is_child:
            to_data = self._config.hook.pytest_report_to_serializable
            self._told.append(("report", to_data(config=self._config, report=report)))

    def pytest_warning_recorded(
        self, warning_message: Any, when: str, nodeid: str, location: Any
    ) -> None:
        if self._is_child:
            data = {"when": when, "nodeid": nodeid, "location": location}
            data["warning_message"] = serialize_warning_message(warning_message)
            self._told.append(("warning", data))

    def _end(self) -> None:
        self._pipe.send(None)
        _, status = os.waitpid(self._pid, 0)
        if status:
            raise RuntimeError(f"the process of tests before {self._file} ended with {status=}")
        self._pid = 0

    def _die_as_the_child(self) -> None:
        """So that pytest-xdist names the test."""
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.waitstatus_to_exitcode(status))


def _resident_bytes(pid: int) -> int:
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
