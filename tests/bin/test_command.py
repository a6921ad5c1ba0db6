"""The frame of every command: flags, help, log lines, errors and exit codes."""

import dataclasses
import errno
import importlib
import io
import logging
import os
import pathlib
import sys
import types
from typing import Any

import pytest

from support.commands import exit_code, refusal
from t2t_lite import files
from t2t_lite.bin import command
from t2t_lite.bin.command import Command
from t2t_lite.bin.flag import Flag, config_flags, from_flags
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import DataError, UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.settings import Config, required_settings, setting, settings_of
from t2t_lite.study.distillation.config import DistillConfig
from t2t_lite.study.distillation.shortlist_config import ShortlistConfig
from t2t_lite.study.insights.config import InsightsConfig
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.tuning.config import TuningConfig

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
            Flag("gifts", str, "", "What with: A,B.", listed=True),
        ),
    },
)


@pytest.fixture(autouse=True)
def _no_t2t_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("greeter", "copier"):
        monkeypatch.setitem(command.t2t_flags._TABLE, name, ())


def run(body: Any, *argv: str) -> int:
    return exit_code(_GREETER.main(body), *argv)


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
        "gifts": "",
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
        (["--gifts=a,b", "--gifts=a,b"], "gifts", "a,b"),
        (["--gifts=", "--gifts=a"], "gifts", "a"),
        (["--gifts=a", "--gifts="], "gifts", ""),
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
def test_values(argv, name, value):
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
        (["--to=x", "--", "--"], "unexpected argument '--'"),
        (["--=x"], "unexpected argument '--=x'"),
        (["-"], "unexpected argument '-'"),
        (["you", "-tmes=3"], "unknown flag --tmes; did you mean 'times'"),
        (["--times=0"], "--times=0: expected a whole number, at least 1"),
        (["--times=x"], "--times='x': expected a whole number, at least 1 (How often.)"),
        (["--times=1.5"], "--times='1.5': expected a whole number, at least 1"),
        (["--times="], "--times='': expected a whole number, at least 1"),
        (["--loudness=loud"], "--loudness='loud': expected a number, at least 0 (In sones.)"),
        (["--times"], "Missing value for flag --times"),
        (["--loudness=-1"], "--loudness=-1.0: expected a number, at least 0"),
        (["--style=loud"], "--style=loud: expected short or long"),
        (["--twice=maybe"], "--twice='maybe': expected true or false (Whether to repeat.)"),
        (["--notwice=1"], "does not take an argument"),
        (["--flagfile=/no/such/file"], "/no/such/file"),
        (
            ["--gifts=a,b", "--gifts", "c"],
            "--gifts is given twice: join its values, as --gifts=a,b,c",
        ),
    ],
)
def test_bad_command_lines_exit_with_2(argv, message):
    error = refusal(_GREETER.main(pytest.fail), *argv)
    assert error.startswith("greeter: error: ")
    assert message in error


@pytest.mark.parametrize("word", ["--{}", "--{}=3", "--hp_{}", "{}"])
def test_long_arguments_are_refused_by_their_beginning(word):
    error = refusal(_GREETER.main(pytest.fail), word.format("a" * 3000))
    assert "a" * 80 in error
    assert "... (3000 characters)" in error
    assert len(error) < 300


def test_a_double_dash_may_end_the_flags():
    assert values("--to=you", "--")["to"] == "you"


@pytest.mark.parametrize("flag", ["--shout", "--noshout"])
def test_a_switch_of_t2t_is_refused_in_both_forms(flag, monkeypatch):
    t2t_flags = command.t2t_flags
    old = t2t_flags.T2TFlag("shout", False, t2t_flags.Treatment.REFUSED, "write --loudness")
    monkeypatch.setitem(t2t_flags._TABLE, "greeter", (old,))
    error = refusal(_GREETER.main(pytest.fail), flag)
    assert "--shout is refused: write --loudness" in error


def test_flagfile(tmp_path):
    file = tmp_path / "flags"
    file.write_text("# a comment\n--to=you and me\n\n--times=2\n")
    found = values("--times=1", f"--flagfile={file}", "--twice")
    assert (found["to"], found["times"], found["twice"]) == ("you and me", 2, True)


def test_parsing_again_forgets_what_was_given_before():
    values("--times=3")
    assert values()["times"] == 1


@pytest.mark.parametrize("flag", ["--help", "-h", "-help"])
def test_help_shows_every_flag_and_wins_over_errors(flag, capsys):
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


def test_a_finished_command_exits_with_0(capsys):
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
        (KeyboardInterrupt("stopped by Ctrl-C"), 130, "stopped by Ctrl-C"),
    ],
)
def test_failures_are_one_line(error, code, line, capsys):
    def fail(args: types.SimpleNamespace) -> None:
        raise error

    assert run(fail) == code
    assert capsys.readouterr() == ("", f"greeter: error: {line}\n")


@dataclasses.dataclass(frozen=True)
class Files(Config):
    """Two files."""

    read: str = setting("", "Where from.", reads=True, group="Files")
    write: str = setting("", "Where to.", writes=True)


_COPIER = Command("copier", "copies.", [], config_flags(Files))


def copy_(args: types.SimpleNamespace) -> None:
    from_flags(Files, args)


@pytest.mark.parametrize(
    ("flag", "path", "message"),
    [
        ("read", "none", "no such file"),
        ("read", "file/in", "no such file"),
        ("read", "", "is a folder: name a file"),
        ("write", "", "is a folder: name a file in it"),
        ("write", "file/out", "cannot be written: {folder}/file: Not a directory"),
        ("write", "file/a/b/out", "cannot be written: {folder}/file: Not a directory"),
    ],
)
def test_files_are_checked_before_anything_else(flag, path, message, tmp_path):
    (tmp_path / "file").touch()
    error = refusal(_COPIER.main(copy_), f"--{flag}={tmp_path / path}", code=1)
    assert f"--{flag}={tmp_path / path}" in error
    assert message.format(folder=tmp_path) in error


def test_pipes_and_new_folders_are_files_enough(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    argv = f"--read={tmp_path / 'pipe'}", f"--write={tmp_path / 'a' / 'b'}"
    assert exit_code(_COPIER.main(copy_), *argv) == 0
    assert exit_code(_COPIER.main(copy_), "--read=-") == 0
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refuse(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), f"{dir}/tmpx")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    error = refusal(_COPIER.main(copy_), f"--write={tmp_path / 'out'}", code=1)
    assert f"{tmp_path}/out cannot be written: {tmp_path}: Read-only file system" in error


@pytest.mark.parametrize(
    ("config_class", "reads", "writes"),
    [
        (
            DecoderConfig,
            "decode_from_file score_file prefix_file terms forbid decode_reference shortlist",
            "decode_to_file",
        ),
        (DistillConfig, "sources translations", ""),
        (ShortlistConfig, "alignments", "shortlist"),
        (InsightsConfig, "", "output_file"),
    ],
)
def test_commands_that_take_time_check_their_files(config_class, reads, writes):
    found = settings_of(config_class).values()
    assert {setting.name for setting in found if setting.reads} == set(reads.split())
    assert {setting.name for setting in found if setting.writes} == set(writes.split())


def test_output_that_the_terminal_cannot_show_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert run(lambda _: print("20 €")) == 1
    assert "characters that iso8859-1 lacks" in capsys.readouterr().err
    with pytest.raises(UnicodeEncodeError):
        _GREETER.main(lambda _: "€".encode("ascii"))([])


def test_defects_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        _GREETER.main(lambda args: 1 // 0)([])


def test_log_lines_go_to_stderr(capsys):
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
    monkeypatch.setattr(command.usr_dirs, "import_usr_dir", calls.append)
    command._import_usr_dir(str(folder))
    assert calls == ["tensorflow"] * imported + [str(folder)]


# ---- flags are made from the options of the configurations


_REGISTRY = {"t2t_usr_dir", "registry_help"}
# By configuration: its command, and the command's flags that are none of its options.
_COMMANDS = {
    TrainerConfig: (
        "t2t_trainer",
        {"generate_data", "tmp_dir", "find_batch_size", "dry_run", "help_hparams"}
        | settings_of(TuningConfig).keys()
        | _REGISTRY,
    ),
    DecoderConfig: ("t2t_decoder", _REGISTRY),
    ServerConfig: ("t2t_serve", _REGISTRY),
    InsightsConfig: ("t2t_insights", _REGISTRY),
    DatagenOptions: (
        "t2t_datagen",
        {"problem", "exclude_problems", "only_list", "inspect", "data_dir", "tmp_dir", "report"}
        | {"runner", "beam_options", "hparams_set", "hparams"}
        | _REGISTRY,
    ),
}
_ALL = [
    f"t2t_{name}"
    for name in (
        *("avg_all", "avg_checkpoints", "bleu", "datagen", "decoder", "eval", "exporter", "import"),
        *("insights", "paper", "parseval", "query_server", "report", "serve", "trainer"),
    )
]
_REQUIRED: dict[type, dict[str, str]] = {
    TrainerConfig: dict.fromkeys(required_settings(TrainerConfig), "x"),
    InsightsConfig: {"text": "x"},
}


def command_of(module: str) -> Command:
    return importlib.import_module(f"t2t_lite.bin.{module}").COMMAND


def bounded() -> list[tuple[type[Config], str, object]]:
    """Each field with a bound or choices, and a value beyond."""
    found = []
    for config in _COMMANDS:
        for o in settings_of(config).values():
            if o.minimum is not None:
                found.append((config, o.name, o.minimum - 1))
            if o.maximum is not None:
                found.append((config, o.name, o.maximum + 1))
            if o.above is not None:
                found.append((config, o.name, o.above))
            if o.choices:
                found.append((config, o.name, "nothing"))
    return found


@pytest.mark.parametrize("config", _COMMANDS)
def test_a_command_has_its_configurations_options_and_few_more(config):
    module, others = _COMMANDS[config]
    fields = {field.name for field in dataclasses.fields(config)}
    assert settings_of(config).keys() == fields
    assert command_of(module).flags.keys() == fields | others
    assert not fields & others


@pytest.mark.parametrize("config", _COMMANDS)
def test_flags_have_the_defaults_of_python(config):
    words = [f"--{name}={value}" for name, value in _REQUIRED.get(config, {}).items()]
    args = command_of(_COMMANDS[config][0]).parse(words)
    assert from_flags(config, args) == config(**_REQUIRED.get(config, {}))


@pytest.mark.parametrize(("config", "name", "value"), bounded())
def test_a_bound_holds_on_the_command_line_and_in_python(config, name, value):
    with pytest.raises(UsageError) as in_python:
        config(**_REQUIRED.get(config, {}), **{name: value})
    number = settings_of(config)[name].kind
    with pytest.raises(UsageError) as on_the_command_line:
        command_of(_COMMANDS[config][0]).parse([f"--{name}={value}"])
    shown = number(value) if number in (int, float) else value
    assert str(in_python.value).startswith(f"{name}={value}")
    assert str(on_the_command_line.value).startswith(f"--{name}={shown}")
    tails = (
        str(e.value).partition(str(v))[2]
        for e, v in ((in_python, value), (on_the_command_line, shown))
    )
    assert len(set(tails)) == 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class _More(TrainerConfig):
    coffee: int | None = setting(None, "Cups per epoch (default: none).", minimum=1)
    beans: str = setting("", "File of beans.", path=True, group="Kitchen")
    roast: str = setting("dark", "How.", choices=("dark", "light"))


def test_a_new_field_is_a_flag_with_help_and_a_python_argument():
    more = Command(
        "more", "brews.", [], config_flags(_More, {"Kitchen": [Flag("x", int, 1, "X.")]})
    )
    needed = _REQUIRED[TrainerConfig]
    words = [f"--{name}={value}" for name, value in needed.items()]
    args = more.parse([*words, "--coffee=3", "--beans=~/beans"])
    beans = str(pathlib.Path("~/beans").expanduser())
    assert from_flags(_More, args) == _More(**needed, coffee=3, beans=beans)
    assert "  --coffee=N\n        Cups per epoch (default: none).\n\nKitchen:\n" in more.help()
    assert "Kitchen:\n  --beans=PATH\n        File of beans.\n" in more.help()
    assert "  --roast=dark|light\n        How (default: dark).\n  --x=N\n" in more.help()
    with pytest.raises(UsageError, match=r"^--coffee=0: expected a whole number, at least 1 "):
        more.parse(["--coffee=0"])
    with pytest.raises(UsageError, match=r"^coffee=0: expected a whole number, at least 1 "):
        _More(**needed, coffee=0)


def test_decode_hparams_are_listed_by_the_decoder():
    lines = command_of("t2t_decoder").help().splitlines()
    for o in settings_of(DecodeHParams).values():
        (line,) = [line for line in lines if line.startswith(f"  {o.name}=")]
        assert line.endswith(o.help), "one line each"


@pytest.mark.parametrize("module", _ALL)
def test_help_is_tidy(module):
    of = command_of(module)
    assert max(map(len, of.help().splitlines())) <= 100
    for flag in of.flags.values():
        assert flag.help[0].isupper(), flag
        assert flag.help.endswith((".", "=VALUE,...", '"')), flag
        if flag.default not in (None, "", False):
            assert "(default:" not in flag.help, flag
        assert flag.bounds or flag.kind not in (int, float), flag
        assert " if not given" not in flag.help.replace("Must agree", ""), flag
