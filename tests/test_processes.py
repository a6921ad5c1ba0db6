"""Processes that tests start are what Python would be, though `.ci/run` lets them be forks."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from support import forks, processes
from support.processes import Python

_SAYS_ALL = """
import gc, json, os, random, signal, sys, warnings
import numpy as np
json.dump(
    {
        "name": __name__,
        "main": sys.modules["__main__"].__name__,
        "argv": sys.argv,
        "path": sys.path[0],
        "cwd": os.getcwd(),
        "own": os.environ.get("OWN"),
        "home": "HOME" in os.environ,
        "input": sys.stdin.read(),
        "tests": sorted(m for m in sys.modules if m.startswith(("support", "t2t_lite", "test_"))),
        "collects": [gc.isenabled(), *gc.get_threshold()],
        "files": sorted(os.listdir("/proc/self/fd"))[:3],
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "leads": os.getsid(0) == os.getpid(),
        "drawn": [random.random(), np.random.random()],
    },
    sys.stdout,
)
print("a warning", file=sys.stderr)
"""


def test_it_has_what_it_was_given_and_nothing_of_the_tests(tmp_path):
    options = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "OWN": "1"}, "input": "in\n"}
    found = [processes.run("-c", _SAYS_ALL, "one", 2, **options) for _ in range(2)]
    one, other = (json.loads(done.stdout) for done in found)
    assert [(done.returncode, done.stderr) for done in found] == [(0, "a warning\n")] * 2
    assert all(a != b for a, b in zip(one.pop("drawn"), other.pop("drawn"), strict=True))
    assert one == other
    usual = subprocess.run(
        [sys.executable, "-c", _SAYS_ALL, "one", "2"], capture_output=True, text=True, **options
    )
    usual = json.loads(usual.stdout)
    usual.pop("drawn")
    assert one == usual


def test_tensorflow_is_there_where_tests_are_forked(request):
    done = processes.run("-c", "import sys; print('tensorflow' in sys.modules)")
    assert done.stdout == f"{forks.are_made(request.config)}\n"


@pytest.mark.parametrize(
    ("program", "code", "errors"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(75)", 75, ""),
        ("import sys; sys.exit('a reason')", 1, "a reason\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "Interrupt\n"),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'last\\n')", 0, "last\n"),
        (
            "import sys, threading; threading.Timer(0.2, sys.stderr.write, ['late']).start()",
            0,
            "late",
        ),
    ],
)
def test_it_ends_as_python_does(program, code, errors):
    done = processes.run("-c", program)
    assert done.returncode == code
    assert done.stderr.endswith(errors)
    assert bool(done.stderr) == bool(errors)


def test_a_module_is_run_as_python_does(tmp_path):
    program = "import sys\nprint(__name__, __spec__.name, sys.argv, sys.path[0])\n"
    (tmp_path / "own.py").write_text(program)
    done = processes.run("-m", "own", "--flag", cwd=tmp_path)
    path = str(tmp_path / "own.py")
    assert done.stdout == f"__main__ own {[path, '--flag']} {tmp_path}\n"
    # In the worker, and in what it forks, there is nothing of it.
    (tmp_path / "own.py").write_text("print('changed')\n")
    assert processes.run("-m", "own", cwd=tmp_path).stdout == "changed\n"


def test_several_run_at_once_and_are_killed():
    program = "import sys\nprint('is there', flush=True)\nsys.stdin.read()"
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with Python("-c", program, **options) as one, Python("-c", program, **options) as other:
        assert [process.stdout.readline() for process in (one, other)] == ["is there\n"] * 2
        assert one.pid != other.pid
        assert one.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            one.wait(0.05)
        one.send_signal(signal.SIGTERM)
        assert one.wait(60) == -signal.SIGTERM == one.poll()
        assert other.poll() is None
        other.kill()
        assert other.wait() == -signal.SIGKILL


def test_its_seconds_count():
    def seconds() -> float:
        times = os.times()
        return times.children_user + times.children_system + processes.forks_seconds()

    before, began = seconds(), time.process_time()
    busy = "import time\nwhile time.process_time() < 0.5:\n    pass"
    assert processes.run("-c", busy).returncode == 0
    assert seconds() - before > 0.4
    assert time.process_time() - began < 0.4
