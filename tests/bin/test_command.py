"""The frame of every command: flags, help, log lines, errors and exit codes."""

import errno
import gc
import io
import logging
import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest

from t2t_lite.bin import command
from t2t_lite.bin.command import Command, Flag
from t2t_lite.errors import DataError, UsageError

_GREETER = Command(
    "greeter",
    "greets.\nTwice if asked.",
    ["greeter --to=you"],
    {
        "Whom": (
            Flag("to", str, "", "Name of the greeted. More of it."),
            Flag("style", str, "short", "How.", choices=("short", "long")),
        ),
        "How": (
            Flag("times", int, 1, "How often.", minimum=1),
            Flag("seed", int, None, "Of the mood."),
            Flag("loudness", float, 0.5, "In sones.", minimum=0),
            Flag("twice", bool, False, "Whether to repeat."),
            Flag("file", pathlib.Path, "", "Where to."),
        ),
    },
)


@pytest.fixture(autouse=True)
def _no_t2t_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(command.upstream_flags._TABLE, "greeter", ())


def run(body: Any, *argv: str) -> int:
    with pytest.raises(SystemExit) as end:
        _GREETER.main(body)(argv)
    return end.value.code


def values(*argv: str) -> dict[str, Any]:
    return vars(_GREETER.parse(argv))


def test_defaults():
    assert values() == {
        "to": "",
        "style": "short",
        "times": 1,
        "seed": None,
        "loudness": 0.5,
        "twice": False,
        "file": "",
        "t2t_usr_dir": "",
        "registry_help": False,
    }


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--to=you"], "to", "you"),
        (["--to", "you"], "to", "you"),
        (["-to=you"], "to", "you"),
        (["--to=a=b,c=d"], "to", "a=b,c=d"),
        (["--to=a", "--to=b"], "to", "b"),
        (["--times=3"], "times", 3),
        (["--seed=-3"], "seed", -3),
        (["--loudness=2"], "loudness", 2.0),
        (["--twice"], "twice", True),
        (["--twice=true"], "twice", True),
        (["--twice", "--notwice"], "twice", False),
        (["--style=long"], "style", "long"),
        (["--file=~/x"], "file", os.path.expanduser("~/x")),
        (["--to=~/x"], "to", "~/x"),
    ],
)
def test_values(argv: list[str], name: str, value: Any):
    assert values(*argv)[name] == value


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--tmes=3"], "unknown flag --tmes; did you mean 'times'"),
        (["--notwce"], "unknown flag --notwce"),
        (["--hp_size", "3"], "--hp_size is refused: write --hparams=size=VALUE"),
        (["--to=x", "you"], "unexpected argument 'you'"),
        (["--twice", "true"], "unexpected argument 'true'"),
        (["--", "--to=x"], "unexpected argument '--to=x'"),
        (["--times=0"], "--times=0: expected a whole number, at least 1"),
        (["--times=x"], "--times=x"),
        (["--times"], "Missing value for flag --times"),
        (["--loudness=-1"], "--loudness=-1.0: expected a number, at least 0"),
        (["--style=loud"], "--style=loud: expected short or long"),
        (["--twice=maybe"], "--twice=maybe"),
        (["--notwice=1"], "does not take an argument"),
        (["--flagfile=/no/such/file"], "/no/such/file"),
    ],
)
def test_bad_command_lines_exit_with_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert run(pytest.fail, *argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("greeter: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_flagfile(tmp_path: pathlib.Path):
    file = tmp_path / "flags"
    file.write_text("# a comment\n--to=you and me\n\n--times=2\n")
    found = values("--times=1", f"--flagfile={file}", "--twice")
    assert (found["to"], found["times"], found["twice"]) == ("you and me", 2, True)


def test_parsing_again_forgets_what_was_given_before():
    values("--times=3")
    assert values()["times"] == 1


@pytest.mark.parametrize("flag", ["--help", "-h", "-help"])
def test_help_shows_every_flag_and_wins_over_errors(flag: str, capsys: pytest.CaptureFixture[str]):
    assert run(pytest.fail, "--wrong", flag) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("greeter: greets.\nTwice if asked.\n")
    assert "  greeter --to=you\n" in out
    assert "Whom:\n  --to=TEXT\n        Name of the greeted. More of it.\n" in out
    assert "  --style=short|long\n        How (default: short).\n" in out
    assert "  --times=N\n        How often (default: 1).\n" in out
    assert "  --[no]twice\n        Whether to repeat.\n" in out
    assert "  --file=PATH\n" in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_finished_command_exits_with_0(capsys: pytest.CaptureFixture[str]):
    def greet(args: types.SimpleNamespace) -> None:
        print("hello", args.to)

    assert run(greet, "--to=you") == 0
    assert capsys.readouterr() == ("hello you\n", "")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError("x.txt, line 3: bad\nthing"), 1, "x.txt, line 3: bad thing"),
        (UsageError("no such model"), 2, "no such model"),
        (OSError(errno.ENOSPC, "No space left on device", "d/f"), 1, "d/f: the disk is full"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "f"), 1, "f: Permission denied"),
        (OSError("cannot reach the server"), 1, "cannot reach the server"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_failures_are_one_line(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
):
    def fail(args: types.SimpleNamespace) -> None:
        raise error

    assert run(fail) == code
    assert capsys.readouterr() == ("", f"greeter: error: {line}\n")


def test_output_that_the_terminal_cannot_show_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert run(lambda _: print("20 €")) == 1
    assert "characters that iso8859-1 lacks" in capsys.readouterr().err
    with pytest.raises(UnicodeEncodeError):
        _GREETER.main(lambda _: "€".encode("ascii"))([])


def test_defects_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        _GREETER.main(lambda args: 1 // 0)([])


def test_log_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]):
    log = logging.getLogger("t2t_lite.somewhere")

    def work(args: types.SimpleNamespace) -> None:
        log.debug("not shown")
        log.info("step %d", 100)
        log.warning("beware")

    for _ in range(2):  # a second command in the same process prints no line twice
        assert run(work) == 0
        out, err = capsys.readouterr()
        info, warning = err.splitlines()
        assert out == ""
        assert info.startswith("INFO ")
        assert info.endswith(" step 100")
        assert warning.startswith("WARNING ")


def test_a_missing_flag_is_named_with_its_meaning():
    with pytest.raises(UsageError, match=r"^--to is missing: Name of the greeted$"):
        _GREETER.require(_GREETER.parse(["--twice"]), "twice", "to")


_NOISE = """
import os
from t2t_lite.bin.command import quiet_import
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    with quiet_import():
        os.write(2, b"chatter;")
        if {fails}:
            raise ImportError
except ImportError:
    pass
os.write(2, b"afterwards")
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("fails", "level", "seen"),
    [
        (False, None, "afterwards"),
        (True, None, "chatter;afterwards"),
        (False, "0", "chatter;afterwards"),
    ],
)
def test_chatter_while_loading_shows_only_if_it_matters(fails: bool, level: str | None, seen: str):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    process = subprocess.run(
        [sys.executable, "-c", _NOISE.format(fails=fails)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stderr == seen


def test_only_the_first_import_of_tensorflow_is_kept_from_the_garbage_collector(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    before = gc.get_freeze_count()
    with command.quiet_import():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before
    monkeypatch.delitem(sys.modules, "tensorflow")
    with command.quiet_import():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()


@pytest.mark.parametrize(
    ("text", "module", "imported"),
    [
        ("import tensorflow", "usr_quiet/problems.py", True),
        ("import tensorflow", "usr_quiet/problems/chat.py", True),
        ("import tensorflow", "beside.py", True),
        ("", "usr_quiet/problems.py", False),
    ],
)
def test_a_user_folder_that_names_tensorflow_loads_it_without_its_messages(
    tmp_path, monkeypatch, text, module, imported
):
    folder = tmp_path / "usr_quiet"
    (folder / "problems").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (tmp_path / module).write_text(text)
    calls = []
    monkeypatch.setattr(command.importlib, "import_module", calls.append)
    monkeypatch.setattr(command.registry, "import_usr_dir", calls.append)
    command._import_usr_dir(str(folder))
    assert calls == ["tensorflow"] * imported + [str(folder)]
