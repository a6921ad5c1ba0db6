"""Python processes that tests start: forks of one that has imported TensorFlow.

To import it takes longer than most of what these processes do. So a worker of pytest-xdist keeps a
process that has, before it collects tests, and nothing but Python, pytest and TensorFlow is in
there; it forks those that tests ask for. Without pytest-xdist, they are started as usual.
"""

import atexit
import contextlib
import gc
import json
import os
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
from collections.abc import Sequence
from typing import Any

# What the forks import anew, from where they are told to.
_OWN = ("t2t_lite", "problems", "hparams", "support", "conftest")
_INTERPRETER = {"thresholds": gc.get_threshold(), "filters": list(warnings.filters)}

# What the process that forks says of a fork: its number; then how it ended, and its seconds of
# user and system time.
_PID, _END = struct.Struct("i"), struct.Struct("id")

_server: socket.socket | None = None  # to the process that forks
_server_pid = 0
_forks_seconds = 0.0


class Python(subprocess.Popen):
    """`python -m MODULE ARGUMENTS...` or `python -c PROGRAM ARGUMENTS...`, as `Popen` starts it.

    Of its options, a fork takes those for streams and text, `cwd`, `env` and `start_new_session`.
    """

    def __init__(self, *words: object, start_new_session: bool = False, **options) -> None:
        self._words, self._is_leader = [str(word) for word in words], start_new_session
        command = [sys.executable, *self._words]
        super().__init__(command, start_new_session=start_new_session, **options)

    def _execute_child(self, *given) -> None:
        if _server is None:
            super()._execute_child(*given)
            return
        cwd, env, ends = given[5], given[6], given[10:16]  # as in 3.11 to 3.14
        request = {"words": self._words, "is_leader": self._is_leader}
        request |= {"cwd": os.fspath(cwd or os.getcwd()), "env": dict(env or os.environ)}
        streams = [
            given if given != -1 else own for own, given in enumerate((ends[0], *ends[3::2]))
        ]
        self._answers, of_fork = socket.socketpair()
        socket.send_fds(_server, [b"."], [of_fork.fileno(), *streams])
        of_fork.close()
        self._answers.sendall(json.dumps(request).encode())
        self._answers.shutdown(socket.SHUT_WR)
        (self.pid,) = self._answer(_PID)
        self._child_created = True
        self._close_pipe_fds(*ends)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        global _forks_seconds
        if _server is None:
            return super()._try_wait(wait_flags)
        patience = 0 if wait_flags & os.WNOHANG else None
        if not select.select([self._answers], [], [], patience)[0]:
            return 0, 0
        status, seconds = self._answer(_END)
        self._answers.close()
        _forks_seconds += seconds
        return self.pid, status

    def _answer(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self._answers.recv(form.size))

    def _internal_poll(self, *args, **options) -> int | None:
        if _server is None:
            return super()._internal_poll(*args, **options)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(timeout=0)
        return self.returncode


def run(*words: object, input: str = "", **options) -> subprocess.CompletedProcess[str]:
    """Runs a `Python` to its end; returns what it wrote, as text."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Python(*words, text=True, **streams, **options) as process:
        out, errors = process.communicate(input)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def forks_seconds() -> float:
    """Returns the user and system time of all forks that have ended, and of what they started."""
    return _forks_seconds


# ---- the process that forks


def serve() -> None:
    """Lets a fork of this process, which has imported TensorFlow, be the one that forks."""
    global _server, _server_pid
    _server, requests = socket.socketpair()
    _server_pid = _fork()
    if _server_pid:
        requests.close()
        return
    try:
        _serve(requests)
    finally:
        os._exit(0)


def end() -> None:
    """Lets it end, once the last fork has."""
    global _server
    if _server is not None:
        _server.close()
        _server = None
        os.waitpid(_server_pid, 0)


def _serve(requests: socket.socket) -> None:
    import faulthandler

    faulthandler.disable()  # it would write to a file that is closed
    _close_all_but(requests.fileno())
    for name in [name for name in sys.modules if name.partition(".")[0] in _OWN]:
        del sys.modules[name]
    sys.meta_path[:] = [f for f in sys.meta_path if "pytest" not in type(f).__module__]
    gc.freeze()
    while files := socket.recv_fds(requests, 1, 4)[1]:
        if not _fork():
            requests.close()
            _watch(*files)
            os._exit(0)
        for file in files:
            os.close(file)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass


def _watch(channel: int, *streams: int) -> None:
    """Forks a process, and tells who asked for it how it ends."""
    with socket.socket(fileno=channel) as answers:
        with answers.makefile() as text:
            request = json.load(text)
        pid = _fork()
        if not pid:
            _become(streams, **request)
        for stream in streams:
            os.close(stream)
        answers.sendall(_PID.pack(pid))
        _, status, usage = os.wait4(pid, 0)
        answers.sendall(_END.pack(status, usage.ru_utime + usage.ru_stime))


def _become(
    streams: Sequence[int], words: Sequence[str], is_leader: bool, cwd: str, env: dict[str, str]
) -> None:
    """Is, from here to its end, the process that was asked for."""
    code = 1
    try:
        if is_leader:
            os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        _close_all_but()
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.filters[:] = _INTERPRETER["filters"]
        gc.set_threshold(*_INTERPRETER["thresholds"])
        gc.enable()
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
        sys.modules["numpy"].random.seed()  # as in a process of its own; `random` does by itself
        try:
            code = _interpret(*words)
        except Exception:
            traceback.print_exc()
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        os._exit(code)


def _interpret(kind: str, what: str, *arguments: str) -> int:
    """Does what the interpreter does with its words; returns the exit code."""
    own = [os.getcwd() if kind == "-m" else ""]
    if "PYTHONPATH" in os.environ:
        own += os.environ["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [*own, *(p for p in sys.path if p.startswith((sys.prefix, sys.base_prefix)))]
    sys.argv[:] = [kind, *arguments]
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), vars(main))
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    return 0


def _close_all_but(*kept: int) -> None:
    for file in map(int, os.listdir("/proc/self/fd")):
        if file > 2 and file not in kept:
            with contextlib.suppress(OSError):
                os.close(file)


def _fork() -> int:
    with warnings.catch_warnings(action="ignore"):  # other threads do but wait
        return os.fork()
