"""Runs of tests: their parts, and how they end."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from support import stacks
from support.parts import PARTS, optimize_graphs, part_of
from support.run_watch import EXIT_CODE, KERNELS_VARIABLE

TESTS = pathlib.Path(__file__).parent
PLUGINS = [f"-psupport.{name}" for name in ("costs", "forks", "parts", "run_watch")]
_BOTH = """
import pytest

def test_unit():
    pass

@pytest.mark.integration
def test_integration():
    pass
"""


def run_tests(folder: pathlib.Path, source: str, *flags: str, **variables: str):
    """Runs tests of their own in a folder, with our plugins and settings; returns how it ended."""
    (folder / "test_own.py").write_text(source, encoding="utf-8")
    markers = "[pytest]\nmarkers = integration: takes seconds\n"
    (folder / "pytest.ini").write_text(markers, encoding="utf-8")
    plugins = ("-pxdist", *PLUGINS, "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--color=no", "-v", *plugins, *flags, "."],
        cwd=folder,
        # Other packages' plugins would take half of the time.
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            KERNELS_VARIABLE: "",  # these tests' own
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.integration
def test_each_integration_test_is_in_one_part_and_every_other_test_in_all(tmp_path):
    names = [f"test_{letter}.py" for letter in "abcdefghijkl"]
    for name in names:
        (tmp_path / name).write_text(_BOTH, encoding="utf-8")
    ran = [run_tests(tmp_path, "", f"--part={part}").stdout for part in range(PARTS)]
    for name in names:
        assert all(f"{name}::test_unit PASSED" in out for out in ran)
        parts = [f"{name}::test_integration PASSED" in out for out in ran]
        assert [part for part, runs in enumerate(parts) if runs] == [part_of(f"{name}::test_x")]
    assert all("::test_integration PASSED" in out for out in ran)
    assert "24 passed" in run_tests(tmp_path, "").stdout


@pytest.mark.integration
def test_of_some_folders_the_integration_tests_alone_run(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text(_BOTH, encoding="utf-8")
    found = run_tests(tmp_path, "", "--integration-alone=a").stdout
    ran = {line.split(" ")[0] for line in found.splitlines() if " PASSED" in line}
    in_a, in_b = "a/test_a.py::test_", "b/test_b.py::test_"
    assert ran == {f"{in_a}integration", f"{in_b}integration", f"{in_b}unit"}


def test_parts_are_those_of_every_machine():
    names = [f"tests/a/test_{letter}.py::test_x[1]" for letter in "abcdefghijkl"]
    assert [part_of(name) for name in names] == [1, 2, 2, 0, 1, 2, 1, 1, 2, 1, 1, 0]


@pytest.mark.parametrize("wanted", [True, False])
def test_graphs_are_optimized_or_not(wanted, monkeypatch):
    import tensorflow as tf

    options = {}
    monkeypatch.setattr(tf.config.optimizer, "set_experimental_options", options.update)
    optimize_graphs(wanted)
    assert options == {"disable_meta_optimizer": not wanted}


def test_stacks_are_not_noted():
    import tensorflow as tf

    def names():
        with tf.Graph().as_default():
            return [frame.name for frame in tf.identity(1).op.traceback]

    with stacks.not_noted():
        assert "names" not in names()


def test_processes_have_the_malloc_of_users():
    """Though .ci/run gives workers another, which is faster in old ones."""
    script = "print('jemalloc' in open('/proc/self/maps').read())"
    printed = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert printed == "False\n"


@pytest.mark.integration
@pytest.mark.parametrize("flags", [(), ("--fork-above=1", "--costs")])
def test_a_worker_that_dies_ends_the_run_with_the_name_of_its_test(tmp_path, flags):
    source = "import os\ndef test_dies():\n    os.abort()\ndef test_lives():\n    pass\n"
    ended = run_tests(tmp_path, source, "--numprocesses=1", "--max-worker-restart=0", *flags)
    assert ended.returncode == 1
    assert "worker 'gw0' crashed while running 'test_own.py::test_dies'" in ended.stdout
    assert "python -m pytest -m '' test_own.py::test_dies\n" in ended.stdout


@pytest.mark.integration
@pytest.mark.parametrize(
    "flags", [(), ("--numprocesses=2",), ("--numprocesses=1", "--fork-above=1")]
)
def test_a_run_that_stands_still_is_ended_with_the_name_of_the_test(tmp_path, flags):
    """And its processes with it."""
    source = (
        "import os, pathlib, time\n"
        "def test_stands_still():\n"
        "    pathlib.Path('pid').write_text(str(os.getpid()))\n"
        "    time.sleep(1000)\n"
    )
    began = time.monotonic()
    ended = run_tests(tmp_path, source, "--standstill=20", *flags)
    assert time.monotonic() - began < 500
    assert ended.returncode == EXIT_CODE
    name = "test_own.py::test_stands_still"
    assert f"ERROR: no test has ended for 20 s; running: {name}\n" in ended.stdout
    assert f"repeat it: python -m pytest -m '' {name}\n" in ended.stdout
    assert ends((tmp_path / "pid").read_text()), "it was killed"


def ends(pid: str) -> bool:
    """Waits until a process has given its memory back, which takes a while on a busy machine."""
    for _ in range(600):
        try:
            state = pathlib.Path("/proc", pid, "stat").read_text().rpartition(") ")[2][0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


_SAYS_WHERE = """
import os, pathlib, warnings
import pytest

def write(text):
    with open("log", "a") as log:
        print(text, os.getpid(), file=log)

@pytest.fixture(scope="session", autouse=True)
def session():
    yield
    write("session")

@pytest.mark.parametrize("number", [1, 2])
def test_one(number, tmp_path):
    write(pathlib.Path(__file__).name)
    print("seen", number)
    warnings.warn("once")
    assert number == 1
"""


@pytest.mark.integration
@pytest.mark.parametrize(("mebibytes", "children"), [(1, 2), (100_000, 1)])
def test_a_file_has_a_process_of_its_own_once_there_is_too_much_memory(
    tmp_path, mebibytes, children
):
    """Whose reports and warnings are those of the worker."""
    (tmp_path / "test_another.py").write_text(_SAYS_WHERE, encoding="utf-8")
    flags = ("--numprocesses=1", "--dist=loadfile", f"--fork-above={mebibytes}")
    ended = run_tests(tmp_path, _SAYS_WHERE, *flags)
    assert "2 failed, 2 passed, 4 warnings" in ended.stdout
    assert ended.stdout.count("E       assert 2 == 1") == 2
    assert ended.stdout.count("seen 2") == 2
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    tests = ["test_another.py", "test_another.py", "test_own.py", "test_own.py"]
    assert sorted(name for name, _ in lines if name != "session") == tests
    of_file = {name: {pid for one, pid in lines if one == name} for name, _ in lines}
    assert len(of_file["session"]) == children
    assert len(of_file["test_own.py"]) == len(of_file["test_another.py"]) == 1
    assert of_file["test_own.py"] | of_file["test_another.py"] == of_file["session"]
    assert not any(pathlib.Path("/proc", pid).exists() for pid in of_file["session"])


_SAYS_WHETHER_IT_ENDS = """
import pytest
from support import forks

@pytest.fixture(scope="module", autouse=True)
def module(request):
    yield
    print("ends:", forks.is_ending(request.config))

def test_one():
    pass
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("flags", "ends"),
    [
        (("--numprocesses=1", "--fork-above=1"), True),
        (("--numprocesses=1", "--fork-above=100000"), False),
        (("--fork-above=1",), False),
    ],
)
def test_a_child_knows_that_another_takes_its_place(tmp_path, flags, ends):
    assert f"ends: {ends}" in run_tests(tmp_path, _SAYS_WHETHER_IT_ENDS, "-rA", *flags).stdout


@pytest.mark.integration
@pytest.mark.parametrize("flags", [(), ("--numprocesses=1",)])
def test_a_failure_is_named_at_once(tmp_path, flags):
    """Also where the run never comes to its last lines."""
    source = (
        "import time\n"
        "def test_fails():\n"
        "    assert not 1\n"
        "def test_stands_still():\n"
        "    time.sleep(1000)\n"
    )
    ended = run_tests(tmp_path, source, "--standstill=20", *flags)
    assert ended.returncode == EXIT_CODE
    before, _, _ = ended.stdout.partition("ERROR: no test has ended for 20 s")
    assert "\ncall failed: test_own.py::test_fails\n" in before


@pytest.mark.integration
def test_the_last_lines_say_how_to_repeat_what_failed(tmp_path):
    source = (
        "import pytest\n"
        "@pytest.mark.parametrize('text', ['a b'])\n"
        "def test_fails(text):\n"
        "    assert not text\n"
        "@pytest.fixture\n"
        "def broken():\n"
        "    raise ValueError\n"
        "def test_has_no_fixture(broken):\n"
        "    pass\n"
        "def test_passes():\n"
        "    pass\n"
    )
    plain, older = (
        run_tests(tmp_path, source, **variables) for variables in ({}, {KERNELS_VARIABLE: "older"})
    )
    for ended, prefix in ((plain, ""), (older, ".ci/kernels older ")):
        *_, before = ended.stdout.partition("repeat each failure alone")
        *lines, last = before.splitlines()[1:]
        command = f"{prefix}python -m pytest -m ''"
        wanted = [f"{command} 'test_own.py::test_fails[a b]'"]
        wanted += [f"{command} test_own.py::test_has_no_fixture"]
        assert lines[:2] == wanted
        assert "1 failed, 1 passed, 1 error" in last
