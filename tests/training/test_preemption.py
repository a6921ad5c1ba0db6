"""SIGTERM and SIGINT stop training between steps."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from t2t_lite.training.preemption import PreemptionError, StopSignals

# What each signal raises.
RAISED = {signal.SIGTERM: PreemptionError, signal.SIGINT: KeyboardInterrupt}
NAMES = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}


@pytest.fixture(autouse=True)
def interruptible():
    """Restores Ctrl-C, which background processes ignore from the start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", RAISED)
def test_a_signal_stops_at_once_where_none_is_held(number):
    with StopSignals(), pytest.raises(RAISED[number]):
        send(number)


@pytest.mark.parametrize("number", RAISED)
def test_a_held_signal_waits_for_the_end_of_the_block(number):
    done = []

    def train(stop: StopSignals) -> None:
        with stop.held():
            assert not stop.received
            send(number)
            assert stop.received is number
            done.append("the step and the save")
        done.append("what comes after")

    with StopSignals() as stop, pytest.raises(RAISED[number]):
        train(stop)
    assert done == ["the step and the save"]


def test_an_evaluation_is_broken_off_and_not_begun():
    with StopSignals() as stop:
        with pytest.raises(PreemptionError), stop.held(), stop.at_once():
            send(signal.SIGTERM)
        with pytest.raises(PreemptionError), stop.at_once():
            pytest.fail("began")


def test_a_swallowed_exception_is_raised_again():
    with (
        StopSignals() as stop,
        pytest.raises(PreemptionError),
        stop.at_once(),
        contextlib.suppress(Exception),
    ):
        send(signal.SIGTERM)


def test_a_failure_after_a_swallowed_exception_is_that_of_the_signal():
    def swallowing() -> None:
        with contextlib.suppress(PreemptionError):
            send(signal.SIGTERM)
        raise TypeError("what comes of it, in TensorFlow's tracing, say")

    with pytest.raises(PreemptionError), StopSignals():
        swallowing()


@pytest.mark.parametrize(("number", "sent"), [(signal.SIGTERM, 3), (signal.SIGINT, 2)])
def test_sigterm_again_still_waits_but_ctrl_c_again_does_not(number, sent):
    survived = []

    def train(stop: StopSignals) -> None:
        with stop.held():
            for count in range(1, 4):
                survived.append(count)
                send(number)

    message = f"stopped by {NAMES[number]}; run the same command again to resume"
    with StopSignals() as stop, pytest.raises(RAISED[number], match=message):
        train(stop)
    assert len(survived) == sent


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in RAISED]
    with StopSignals():
        assert [signal.getsignal(number) for number in RAISED] != before
    assert [signal.getsignal(number) for number in RAISED] == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            send(signal.SIGINT)
        assert not stop.received
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_that_may_set_no_handlers_trains_without():
    received = []
    thread = threading.Thread(target=lambda: received.append(StopSignals().__enter__().received))
    thread.start()
    thread.join()
    assert received == [None]


@pytest.mark.integration
def test_each_signal_has_its_own_exit_code():
    script = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from t2t_lite.bin.command import Command
from t2t_lite.training.preemption import StopSignals

def body(args):
    with StopSignals():
        os.kill(os.getpid(), signal.Signals[sys.argv[1]])

Command("t2t-test", "", [], {}).main(body)([])
"""
    ends = {
        name: subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True)
        for name in ("SIGTERM", "SIGINT")
    }
    assert [end.returncode for end in ends.values()] == [75, 130]
    assert ends["SIGTERM"].stderr == (
        "t2t-test: error: stopped by SIGTERM; run the same command again to resume\n"
    )
