"""Starts Python processes for tests, as forks of one that has imported TensorFlow.

Importing TensorFlow takes longer than most of these processes run. With `--fork-above`, each worker
of pytest-xdist therefore starts a fork server, which has imported pytest, TensorFlow and Keras, but
no test and nothing of this package. Otherwise processes start as usual.

A fork differs from a new process in one thing that matters: all forks of a worker have the same
hash seed. A test that compares what two processes make starts one of them with `fresh=True`.
"""

import atexit
import contextlib
import faulthandler
import gc
import json
import logging
import os
import pathlib
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

_TREE = f"{pathlib.Path(__file__).resolve().parents[2]}/"
_INSTALLED = (f"{sys.prefix}/", f"{sys.base_prefix}/")
# Variables that Python or TensorFlow reads at its start.
_READ_AT_START = ("PYTHON", "TF_", "XLA_", "KERAS_", "LC_", "LANG")
_THRESHOLDS = gc.get_threshold()  # before conftest.py raises them
# What a fork says once it is ready, and its supervisor once it has ended: the PID, the wait status,
# and the seconds of user and system time.
_STATUS = struct.Struct("iid")

_server: socket.socket | None = None
_server_pid = 0
_cpu_seconds = 0.0


class Python(subprocess.Popen):
    """`python -m MODULE ARGUMENTS...` or `python -c PROGRAM ARGUMENTS...`, as `Popen` starts it.

    Of its options, a fork takes those for streams and text, `cwd`, `env` and `start_new_session`.

    Args:
        arguments: of Python.
        fresh: never fork.
        start_new_session: as in `Popen`.
        options: others of `Popen`.
    """

    def __init__(
        self, *arguments: object, fresh: bool = False, start_new_session: bool = False, **options
    ) -> None:
        self._arguments = [str(argument) for argument in arguments]
        self._new_session = start_new_session
        self._status_socket: socket.socket | None = None  # None: not a fork
        env = os.environ if options.get("env") is None else options["env"]
        self._forks = _server is not None and not fresh and not _differs(env)
        command = [sys.executable, *self._arguments]
        super().__init__(command, start_new_session=start_new_session, **options)

    def _execute_child(self, *given) -> None:
        if not self._forks:
            super()._execute_child(*given)
            return
        cwd, env, ends = given[5], given[6], given[10:16]  # as in Python 3.11 to 3.14
        streams = [ends[0], *ends[3::2]]
        streams = [own if given == -1 else given for own, given in enumerate(streams)]
        request = {
            "arguments": self._arguments,
            "new_session": self._new_session,
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
        }
        self._status_socket, of_fork = socket.socketpair()
        with of_fork:
            socket.send_fds(_server, [b"."], [of_fork.fileno(), *streams])
        self._status_socket.sendall(json.dumps(request).encode())
        self._status_socket.shutdown(socket.SHUT_WR)
        self._close_pipe_fds(*ends)
        self.pid, status, _ = self._status()
        if status:
            raise OSError(f"{self.args} could not start in {cwd}")
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        global _cpu_seconds
        if self._status_socket is None:
            return super()._try_wait(wait_flags)
        poll = select.poll()
        poll.register(self._status_socket, select.POLLIN)
        if not poll.poll(0 if wait_flags & os.WNOHANG else None):
            return 0, 0
        pid, status, seconds = self._status()
        self._status_socket.close()
        _cpu_seconds += seconds
        return pid, status

    def _internal_poll(self, *args, **options) -> int | None:
        if self._status_socket is None:
            return super()._internal_poll(*args, **options)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(timeout=0)
        return self.returncode

    def _status(self) -> tuple[Any, ...]:
        message = self._status_socket.recv(_STATUS.size, socket.MSG_WAITALL)
        if len(message) < _STATUS.size:
            raise RuntimeError("the fork server has died")
        return _STATUS.unpack(message)


def run(*arguments: object, input: str = "", **options) -> subprocess.CompletedProcess[str]:
    """Runs a `Python` to its end; returns what it wrote, as text."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Python(*arguments, text=True, **streams, **options) as process:
        out, errors = process.communicate(input)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def fork_cpu_seconds() -> float:
    """Returns the user and system time of all forks that have ended, and of what they started."""
    return _cpu_seconds


def start_fork_server() -> None:
    """Lets a fork of this process be the fork server."""
    global _server, _server_pid
    _server, requests = socket.socketpair()
    _server_pid = _fork()
    if _server_pid:
        requests.close()
        return
    try:
        _serve(requests)
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def stop_fork_server() -> None:
    """Ends the fork server, and forks that are left."""
    global _server
    if _server is not None:
        _server.shutdown(socket.SHUT_RDWR)
        _server.close()
        _server = None
        os.waitpid(_server_pid, 0)


def _differs(env: Mapping[str, str]) -> bool:
    """Whether variables that are read at the start are not those of the fork server."""
    own, given = (
        {name: value for name, value in each.items() if name.startswith(_READ_AT_START)}
        for each in (os.environ, env)
    )
    return (own | {"PYTHONPATH": ""}) != (given | {"PYTHONPATH": ""})


# ---- the fork server


def _serve(requests: socket.socket) -> None:
    """Forks a supervisor for each request, until there is no one to ask."""
    _forget_pytest()
    _close_all_but(requests.fileno())
    gc.freeze()
    while files := socket.recv_fds(requests, 1, 4)[1]:
        if not _fork():
            requests.close()
            _supervise(*files)
            os._exit(0)
        for file in files:
            os.close(file)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass


def _forget_pytest() -> None:
    """Undoes what pytest and conftest.py have changed in the interpreter."""
    # Interrupts wait until a fork is ready for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in a job in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.disable()  # it would write to a file that is closed, as these handlers would
    logging.root.handlers.clear()
    threading.excepthook, sys.unraisablehook = threading.__excepthook__, sys.__unraisablehook__
    warnings.resetwarnings()
    for category in (ResourceWarning, ImportWarning, PendingDeprecationWarning, DeprecationWarning):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
    gc.set_threshold(*_THRESHOLDS)
    sys.meta_path[:] = [f for f in sys.meta_path if "pytest" not in type(f).__module__]
    sys.path[:] = [path for path in sys.path if path and not _is_of_tree(f"{path}/")]
    of_tree = [n for n, module in sys.modules.items() if any(map(_is_of_tree, _paths(module)))]
    # Without `keras`, this package imports no model before it must. The rest of Keras stays.
    for name in [*of_tree, "keras"]:
        del sys.modules[name]


def _paths(module: object) -> list[str]:
    """Returns the file and the folders of a module, without loading what is loaded when asked."""
    fields = vars(module) if isinstance(module, types.ModuleType) else {}
    return [fields.get("__file__") or "", *(f"{p}/" for p in fields.get("__path__") or ())]


def _is_of_tree(path: str) -> bool:
    return path.startswith(_TREE) and not path.startswith(_INSTALLED)


def _supervise(channel: int, *streams: int) -> None:
    """Forks a process, tells who asked for it how it ends, and kills it if no one is there."""
    with socket.socket(fileno=channel) as status_socket:
        with status_socket.makefile() as text:
            request = json.load(text)
        pid = _fork()
        if not pid:
            _run_child(status_socket, streams, **request)
        for stream in streams:
            os.close(stream)
        poll = select.poll()
        poll.register(os.pidfd_open(pid), select.POLLIN)
        poll.register(channel, 0)  # its end is reported anyway
        if channel in dict(poll.poll()):
            os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        with contextlib.suppress(BrokenPipeError):
            status_socket.sendall(_STATUS.pack(pid, status, usage.ru_utime + usage.ru_stime))


def _run_child(
    status_socket: socket.socket,
    streams: Sequence[int],
    arguments: Sequence[str],
    new_session: bool,
    cwd: str,
    env: Mapping[str, str],
) -> None:
    """Turns this fork into the process that was asked for; never returns."""
    code = 1
    try:
        if new_session:
            os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.modules["numpy"].random.seed()  # as in a process of its own; `random` does by itself
        gc.enable()
        status_socket.sendall(_STATUS.pack(os.getpid(), 0, 0.0))
        _close_all_but()
        code = _interpret(*arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _interpret(kind: str, what: str, *arguments: str) -> int:
    """Does what the interpreter does from its start to its end; returns the exit code."""
    own = [os.getcwd() if kind == "-m" else ""]
    if "PYTHONPATH" in os.environ:
        own += os.environ["PYTHONPATH"].split(os.pathsep)
    sys.path[:0] = own
    sys.argv[:] = [kind, *arguments]
    code, is_interrupted = 0, False
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), vars(main))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        traceback.print_exc()
        code, is_interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stderr.flush()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    if is_interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code & 0xFF


def _close_all_but(*kept: int) -> None:
    for file in map(int, os.listdir("/proc/self/fd")):
        if file > 2 and file not in kept:
            with contextlib.suppress(OSError):
                os.close(file)


def _fork() -> int:
    with warnings.catch_warnings(action="ignore"):  # the other threads only wait
        return os.fork()
