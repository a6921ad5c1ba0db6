import io
import logging
import re

import pytest

from t2t_lite import progress


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_logs_a_line_every_ten_seconds_and_one_at_the_end(clock, caplog):
    caplog.set_level(logging.INFO)
    with progress.progress("data", total=3000, unit="lines") as advance:
        for seconds in (4, 4, 4):
            clock[0] += seconds
            advance(1000)
    assert caplog.messages == [
        "data: 3,000 of 3,000 lines, 250 lines/s",
        "data: 3,000 of 3,000 lines, 250 lines/s, done",
    ]


def test_an_unknown_total_is_not_shown(clock, caplog):
    caplog.set_level(logging.INFO)
    with progress.progress("data") as advance:
        clock[0] += 2
        advance(10)
    assert caplog.messages == ["data: 10 samples, 5 samples/s, done"]


def test_failed_work_is_not_called_done(caplog):
    caplog.set_level(logging.INFO)

    def fail():
        with progress.progress("data") as advance:
            advance(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not caplog.messages


def test_draws_a_bar_in_a_terminal(monkeypatch, caplog):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.progress("data", total=7) as advance:
        advance(7)
    assert "data" in terminal.getvalue()
    assert "7/7" in terminal.getvalue()
    assert "samples/s" in terminal.getvalue()
    assert not caplog.messages


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0:00:00"), (59.6, "0:01:00"), (3723.4, "1:02:03"), (93600, "26:00:00")],
)
def test_durations_are_shown_in_whole_seconds(seconds: float, text: str):
    assert progress.duration(seconds) == text


def unconfigured(monkeypatch) -> logging.Logger:
    """Leaves logging as in a program that has not configured any; not for a fixture.

    pytest adds its own handlers when a test begins.
    """
    logger = logging.getLogger("t2t_lite")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    return logger


def test_a_program_without_logging_of_its_own_is_shown_the_progress(monkeypatch, capsys):
    logger = unconfigured(monkeypatch)
    with progress.shown_progress():
        logging.getLogger("t2t_lite.training").info("step 100")
    logging.getLogger("t2t_lite.training").info("afterwards")
    out, errors = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"INFO \d\d:\d\d:\d\d step 100\n", errors)
    assert logger.handlers == []


@pytest.mark.parametrize("configure", ["handler", "root", "level"])
def test_logging_that_is_configured_stays_as_it_is(monkeypatch, capsys, configure):
    logger = unconfigured(monkeypatch)
    own = io.StringIO()
    if configure == "level":
        logger.level = logging.WARNING
    else:
        configured = logger if configure == "handler" else logging.getLogger()
        configured.handlers.append(logging.StreamHandler(own))
    with progress.shown_progress():
        logging.getLogger("t2t_lite.training").warning("slow")
        logging.getLogger("t2t_lite.training").info("step 100")
    assert "step 100" not in own.getvalue() + capsys.readouterr().err
