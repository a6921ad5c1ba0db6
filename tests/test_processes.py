"""Processes that tests start are what new ones would be, though in `.ci/run` they are forks."""

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
import gc, json, logging, os, random, signal, sys, warnings
filters = warnings.filters[:]
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
        "files": os.listdir("/proc/self/fd"),
        "filters": [(action, category.__name__) for action, _, category, *_ in filters],
        "handlers": len(logging.getLogger().handlers),
        "keras": "keras" in sys.modules,
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "leads": os.getsid(0) == os.getpid(),
        "drawn": [random.random(), np.random.random()],
    },
    sys.stdout,
)
print("a warning", file=sys.stderr)
"""


# Jobs in the background ignore interrupts, and so do the processes that they start.
_INTERRUPTED = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def test_it_has_what_it_was_given_and_nothing_of_the_tests(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "HOME"} | {"OWN": "1"}
    options = {"cwd": tmp_path, "env": env, "input": "in\n"}
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
    assert done.stdout == f"{forks.is_forking(request.config)}\n"


@pytest.mark.parametrize(
    ("program", "code", "errors"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(75)", 75, ""),
        ("import sys; sys.exit('a reason')", 1, "a reason\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        (f"{_INTERRUPTED}os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "Interrupt\n"),
        ("class End(BaseException): pass\nraise End", 1, "End\n"),
        ("import sys; print('\\udc80', file=sys.stderr)", 0, "\\udc80\n"),
        ("import threading; threading.Thread(target=int, args='x').start()", 0, "'x'\n"),
        ("import logging; logging.warning('ours')", 0, "WARNING:root:ours\n"),
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
        return times.children_user + times.children_system + processes.fork_cpu_seconds()

    before, began = seconds(), time.process_time()
    busy = "import time\nwhile time.process_time() < 0.5:\n    pass"
    assert processes.run("-c", busy).returncode == 0
    assert seconds() - before > 0.4
    assert time.process_time() - began < 0.4


def test_what_is_written_before_an_interrupt_is_not_lost():
    program = f"{_INTERRUPTED}import atexit\natexit.register(print, 'last')\nprint('first')\n"
    done = processes.run("-c", f"{program}os.kill(os.getpid(), signal.SIGINT)")
    assert (done.stdout, done.returncode) == ("first\nlast\n", -signal.SIGINT)


def test_it_is_itself_as_soon_as_it_is_there():
    """In a session of its own, and open to signals."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for number in [signal.SIGTERM if is_ignored else signal.SIGINT, signal.SIGKILL] * 5:
        options = {"start_new_session": True, "stderr": subprocess.DEVNULL}
        with Python("-c", "import time; time.sleep(60)", **options) as process:
            os.killpg(process.pid, number)
            assert process.wait(60) == -number


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="none"):
        processes.run("-c", "", cwd=tmp_path / "none")


def test_another_start_is_a_new_process(request):
    """Where Python or TensorFlow would read its variables otherwise, or a test asks for it."""
    says = "import os, sys; print('tensorflow' in sys.modules)"
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    assert processes.run("-c", says, env=env).stdout == "False\n"
    assert processes.run("-c", says, fresh=True).stdout == "False\n"
    env = {**os.environ, "OWN": "1"}
    assert processes.run("-c", says, env=env).stdout == f"{forks.is_forking(request.config)}\n"
