"""command:PROGRAM: what the program is given, what it may print, and how it fails."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import Segment
from t2t_lite.metrics.bootstrap import resample
from t2t_lite.metrics.by_name import output_metric, score_outputs
from t2t_lite.metrics.command_metric import CommandMetric, ProgramError
from t2t_lite.training.preemption import PreemptionError, StopSignals

SOURCES, REFERENCES = ["s one", "s two", "s three"], ["r one", "", "r ü three"]
OUTPUTS = [Output(text) for text in ("o one", "o two", "")]


def score(metric: str):
    return score_outputs(metric, OUTPUTS, REFERENCES, SOURCES)


def test_three_files_are_the_last_arguments(program, tmp_path):
    metric = program(f'for f in "$@"; do cat "$f"; done > {tmp_path}/seen; echo 1', " --gpus 1")
    metric = metric.replace(" --gpus 1", f" {tmp_path}/program.sh")  # any argument of its own
    score(metric)
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    texts = [*SOURCES, *(output.text for output in OUTPUTS), *REFERENCES]
    assert seen == (tmp_path / "program.sh").read_text() + "".join(f"{text}\n" for text in texts)


def test_a_number_for_each_segment(program):
    metric = program('wc -L < "$2" > /dev/null; printf "0.5\\n-1\\n 2e-1 \\n\\n"')
    found = score(metric)
    assert list(found.values) == [metric]
    assert_close(found.values[metric], -0.1, terms=4, dtype="float64", scale=1.0)
    assert found.report == f"{metric} = -0.1"
    assert found.statistics == [(0.5, 1), (-1, 1), (0.2, 1)]
    systems = {"a": found.statistics, "b": score(metric).statistics}
    assert resample(output_metric(metric), systems)["b"].p_value == 1.0


def test_one_number_for_all(program):
    metric = program("echo 0.83125")
    found = score(metric)
    assert (found.values, found.summary) == ({metric: 0.83125}, f"{metric} 0.83125")
    assert len(found.statistics) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo no luck >&2; exit 3", r"program.sh ended with exit code 3: no luck$"),
        ("exit 1", r"program.sh ended with exit code 1$"),
        ("true", "printed 0 lines; expected one number for each of 3 segments, or one for all"),
        ("echo 1; echo 2", "printed 2 lines; expected one number for each of 3"),
        ("echo 1; echo good; echo 2", "line 2 is 'good'; expected a number"),
        ("echo nan", "line 1 is 'nan'; expected a number"),
        ("echo -inf", "line 1 is '-inf'; expected a number"),
    ],
)
def test_a_program_that_fails_is_named(program, body, message):
    with pytest.raises(ProgramError, match=message):
        score(program(body))


def test_a_program_that_does_not_end_is_ended_with_its_children(program, tmp_path, monkeypatch):
    monkeypatch.setattr(CommandMetric, "time_limit", 0.5)
    with pytest.raises(ProgramError, match=r"program\.sh has not ended after 0\.5 seconds; regi"):
        score(program(f"echo 1; sleep 60 & echo $! > {tmp_path}/child; wait"))
    state = pathlib.Path(f"/proc/{int((tmp_path / 'child').read_text())}/stat")
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)


def test_programs_that_cannot_be_run(program, tmp_path):
    for name, message in (
        ("command:./no_such_program --x", r"program './no_such_program' is not found; give its"),
        ("command: ", "program '' is not found"),
        ("command:a 'b", "No closing quotation"),
    ):
        with pytest.raises(ProgramError, match=message):
            registry.metric(name).check()
    metric = program("echo 1")
    registry.metric(metric).check()
    (tmp_path / "program.sh").write_bytes(b"\x00\x01")
    with pytest.raises(ProgramError, match=r"program\.sh: Exec format error"):
        score(metric)
    (tmp_path / "program.sh").chmod(0o600)
    with pytest.raises(ProgramError, match="is not executable; try chmod \\+x"):
        registry.metric(metric).check()


def test_sources_must_be_known(program):
    with pytest.raises(UsageError, match="needs the sources, which are not known here"):
        score_outputs(program("echo 1"), OUTPUTS, REFERENCES)


def test_an_interruption_ends_the_program_and_its_children(program, tmp_path):
    metric = program(f"sleep 60 & echo $! > {tmp_path}/child; wait")
    child = tmp_path / "child"

    def interrupt() -> None:
        while not (child.exists() and child.read_text()):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    # A worker process of pytest-xdist ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            score(metric)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    state = pathlib.Path(f"/proc/{int(child.read_text())}/stat")
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)


def ended(child: pathlib.Path) -> bool:
    state = pathlib.Path(f"/proc/{int(child.read_text())}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_command_ends_the_program(program, tmp_path, number):
    child, folder = tmp_path / "child", tmp_path / "tmp"
    folder.mkdir()
    metric = program(f"sleep 60 & echo $! > {child}.new; mv {child}.new {child}; wait")
    script = (
        # A test run under nohup ignores SIGHUP, and its children do.
        f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n"
        "from t2t_lite.metrics.command_metric import CommandMetric, Segment\n"
        f"CommandMetric({metric!r}).statistics([Segment('s', 'o', 'r')])"
    )
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = subprocess.Popen([sys.executable, "-c", script], env=environment)
    try:
        wait_until(child.exists)
        command.send_signal(number)
        assert command.wait(30) == -number
    finally:
        command.kill()
    wait_until(lambda: ended(child))
    assert not list(folder.iterdir())


def test_a_handler_of_sigterm_stays(program, tmp_path):
    """The trainer's handler ends the program at once by raising an exception."""
    metric = program(
        f"sleep 60 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/child; wait"
    )

    def terminate() -> None:
        wait_until((tmp_path / "child").exists)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    thread = threading.Thread(target=terminate)
    thread.start()
    with pytest.raises(PreemptionError), StopSignals() as stop, stop.held(), stop.at_once():
        score(metric)
    thread.join()
    wait_until(lambda: ended(tmp_path / "child"))


def test_a_signal_during_the_start_ends_the_program(program, monkeypatch):
    """Python looks for signals while it starts a program, which is there by then."""
    started = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            score(program("sleep 60"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert started[0].returncode == -signal.SIGKILL


def test_handlers_are_restored(program):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    score(program("echo 1"))
    assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]


def test_a_segment_is_one_line(program, tmp_path):
    metric = program(f'cp "$2" {tmp_path}/seen; echo 1')
    CommandMetric(metric).statistics([Segment("s", "a\rb\r\nc\nd\u2028e", "r")])
    assert (tmp_path / "seen").read_bytes().decode() == "a b  c d\u2028e\n"


def test_a_program_may_have_a_name_and_a_direction(program):
    path = program("echo 4").removeprefix("command:")

    class Edits(CommandMetric):
        argument = ""
        program = path
        lower_is_better = True

    metric = Edits("edits")
    assert [value.lower_is_better for value in metric.values] == [True]
    assert metric.statistics([]) == [(4.0, 1.0)]
