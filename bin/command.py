"""The frame of all commands: flags in groups, `--help`, log lines, one-line errors.

absl parses the values (including `--flagfile` and `--noswitch`) into each command's own set of
flags. There is no global state, so commands can also be called from Python.
"""

import codecs
import functools
import gc
import importlib
import itertools
import logging
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from absl import flags

from t2t_lite import files, t2t_flags, usr_dirs
from t2t_lite.bin import console, usr_dir_flags
from t2t_lite.bin.flag import COMMON_FLAGS, Flag, describe_setting, format_default
from t2t_lite.bin.registry_help import registry_help
from t2t_lite.errors import (
    ExitError,
    UsageError,
    UserError,
    describe_os_error,
    did_you_mean,
    quoted,
    shortened,
)
from t2t_lite.progress import log_lines
from t2t_lite.runs import checkpoint_files
from t2t_lite.settings import HParams, require_needed, settings_of

log = logging.getLogger("t2t_lite.bin")

_HELP = {"-h", "-help", "--help"}
_INTERRUPTED = 130  # the shell's 128 + SIGINT
_PACKAGE = os.path.dirname(files.__file__) + os.sep
# Flags with paths that TensorFlow reads or writes; it accepts only UTF-8.
_TENSORFLOW_PATHS = {
    *("checkpoint_path", "data_dir", "export_dir", "model_dir", "output_dir", "output_path"),
    "warm_start_from",
}


class _Flags(flags.FlagValues):
    """absl's set of flags, whose validators wait until unknown flags are refused."""

    def validate_all_flags(self) -> None:
        """Does nothing: absl calls it as soon as the known flags are parsed."""

    def validate(self) -> None:
        """Raises absl's error unless all flags pass validation."""
        super().validate_all_flags()


class Command:
    """A console command: its flags, help and error handling.

    Args:
        name: as typed in the shell.
        description: what it does, about two lines, for `--help`.
        examples: complete command lines.
        groups: flags by their title in `--help`.
        settings: hyperparameters that `--help` lists, by title.
        reads_with_tensorflow: whether paths of runs and data must be UTF-8.
    """

    def __init__(
        self,
        name: str,
        description: str,
        examples: Sequence[str],
        groups: Mapping[str, Sequence[Flag]],
        settings: Mapping[str, type[HParams]] | None = None,
        reads_with_tensorflow: bool = True,
    ) -> None:
        self.name = name
        self.description = description
        self.examples = examples
        self.groups = groups
        self.settings = settings or {}
        self._unicode_paths = _TENSORFLOW_PATHS if reads_with_tensorflow else set()
        self.flags = {
            flag.name: flag for group in (*groups.values(), COMMON_FLAGS) for flag in group
        }

    def main(self, body: Callable[[types.SimpleNamespace], None]) -> Callable[..., NoReturn]:
        """Makes a function of the flags' values the console script: a decorator.

        The script takes the arguments after the command's name (default: from `sys.argv`), and
        exits. Codes: 0 success, 2 wrong command line, 1 another error that the user can fix, 130
        interrupted, 75 stopped by SIGTERM after saving. Each failure prints one line. Other
        exceptions are defects and propagate.
        """

        @functools.wraps(body)
        def script(argv: Sequence[str] | None = None) -> NoReturn:
            self._run(body, argv)

        return script

    def _run(
        self, body: Callable[[types.SimpleNamespace], None], argv: Sequence[str] | None
    ) -> NoReturn:
        arguments = list(sys.argv[1:] if argv is None else argv)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", console.SILENT)
        code = 0
        try:
            with log_lines(), console.quiet_tensorflow():
                self._dispatch(body, arguments)
            sys.stdout.flush()
        except UserError as error:
            code = self._fail(str(error), error.exit_code)
        except BrokenPipeError:  # the reader has closed: `t2t-trainer --help | head -1`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            code = self._fail(describe_os_error(error), UserError.exit_code)
        except UnicodeEncodeError as error:
            encoding = codecs.lookup(sys.stdout.encoding).name
            if encoding == "utf-8" or codecs.lookup(error.encoding).name != encoding:
                raise  # not from printing
            code = self._fail(
                f"the output has characters that {encoding} lacks, the encoding of standard "
                "output: set PYTHONIOENCODING=utf-8",
                UserError.exit_code,
            )
        except KeyboardInterrupt as error:
            code = self._fail(str(error) or "interrupted", _INTERRUPTED)
        if argv is None:
            gc.freeze()  # the process ends: no last search for garbage, which takes 0.2 seconds
        sys.exit(code)

    def parse(self, arguments: Sequence[str], usr_dir: str = "") -> types.SimpleNamespace:
        """Returns the value of every flag by name.

        Args:
            arguments: those after the command's name.
            usr_dir: the user directory, which has been imported; its flags are parsed, too, into
                absl's global set. Unknown flags that its code names are left to it, such as those
                of an `argparse` of its own.
        """
        values = self._defined()
        theirs = t2t_flags.own() if usr_dir else {}
        own = {name: flag for name, flag in theirs.items() if name not in self.flags}
        for name, flag in own.items():
            flag.unparse()
            values[name] = flag
        accepted = [old for old in t2t_flags.accepted(self.name) if old.name not in own]
        taken = [old for old in t2t_flags.taken(self.name) if old.name not in own]
        for old in (*accepted, *taken):
            _define_old(old, values)
        try:
            _, *words = values([self.name, *arguments], known_only=True)
            _refuse_unknown(words)
            values.validate()
        except flags.UnrecognizedFlagError as error:
            rest = usr_dir_flags.without(arguments, error.flagname)
            if (
                usr_dir
                and len(rest) < len(arguments)
                and usr_dir_flags.names(usr_dir, error.flagname)
            ):
                log.info("--%s is left to --t2t_usr_dir, whose code names it", error.flagname)
                return self.parse(rest, usr_dir)
            raise self._unknown_flag(error.flagname, own) from None
        except (flags.Error, ValueError) as error:
            raise UsageError(str(error)) from None
        if "--" in words:
            words.remove("--")
        if words:
            raise UsageError(
                f"unexpected argument {quoted(words[0])}: write --name=value, and --name or "
                "--noname for a switch"
            )
        for old in accepted:
            if values[old.name].present:
                log.warning("--%s has no effect: %s", old.name, old.note)
        found = {name: self._checked(flag, values[name].value) for name, flag in self.flags.items()}
        found |= self._taken(taken, values)
        require_needed(self.flags.values(), found)
        return types.SimpleNamespace(**found)

    def _taken(
        self, taken: Iterable[t2t_flags.T2TFlag], values: flags.FlagValues
    ) -> dict[str, Any]:
        """Returns the flags that others of T2T's stand for, if these are given.

        Variables of the environment are set.
        """
        found: dict[str, Any] = {}
        for old in taken:
            value = values[old.name].value
            if not values[old.name].present or (not value and "VALUE" not in old.note):
                continue
            text = old.note.replace("VALUE", format_default(value))
            name, _, meaning = text.removeprefix("--").partition("=")
            if name not in self.flags:
                if meaning != "0":  # which is for as many threads as there are cores
                    os.environ[name] = meaning
                continue
            flag = self.flags[name]
            new: Any = True if flag.kind is bool else meaning
            before = found.get(name, values[name].value if values[name].present else None)
            if before and flag.listed:
                new = f"{before},{new}"
            elif before not in (None, "", new):
                raise UsageError(
                    f"--{name}={before} and --{old.name}={value} contradict each other"
                )
            found[name] = self._checked(flag, new)
        return found

    def _publish(self, arguments: Sequence[str]) -> str:
        """Gives the flags to the code of a user directory, before it is imported.

        Returns:
            --t2t_usr_dir; "": without one, nothing is done.
        """
        values, taken = self._defined(), t2t_flags.taken(self.name)
        for old in taken:
            _define_old(old, values)
        try:
            values([self.name, *arguments], known_only=True)
        except (flags.Error, ValueError) as error:
            raise UsageError(str(error)) from None
        given = {
            name: self._checked(flag, values[name].value)
            for name, flag in self.flags.items()
            if values[name].present
        } | self._taken(taken, values)
        if usr_dir := given.get("t2t_usr_dir", ""):
            defaults = {flag.name: flag.default for flag in self.flags.values()}
            t2t_flags.publish(given, usr_dir_flags.defaults(self.name, defaults))
        return usr_dir

    def _checked(self, flag: Flag, value: Any) -> Any:
        """Returns a flag's value, with `~` in paths expanded."""
        checked = flag.checked(value, f"--{flag.name}")
        if flag.name in self._unicode_paths and not is_utf8(value):
            raise UsageError(
                f"--{flag.name}={value!a} is not UTF-8, which TensorFlow cannot read: rename the "
                "folder"
            )
        return checked

    def _defined(self) -> _Flags:
        """Returns absl's set of the command's flags."""
        values = _Flags()
        values.set_gnu_getopt(True)
        for flag in self.flags.values():
            flag.define(values)
        return values

    def help(self) -> str:
        """Returns the text of `--help`."""
        parts = [
            f"{self.name}: {self.description}",
            f"Usage: {self.name} --flag=value ...",
            "\n".join(["Examples:", *(f"  {example}" for example in self.examples)]),
        ]
        for title, group in self.groups.items():
            parts.append("\n".join([f"{title}:", *(flag.describe() for flag in group)]))
        for title, hparams in self.settings.items():
            lines = map(describe_setting, settings_of(hparams).values())
            parts.append("\n".join([f"{title}:", *lines]))
        parts.append(
            "Any command:\n"
            + "".join(f"{flag.describe()}\n" for flag in COMMON_FLAGS)
            + "  --flagfile=PATH\n        Read flags from a file, one --name=value per line.\n"
            "  --help\n        Show this text."
        )
        if t2t_flags.flags_of(self.name):
            parts.append(
                "Other flags of tensor2tensor are either refused, with what to write instead, or "
                "accepted with a\nwarning that they have no effect."
            )
        return "\n\n".join(parts)

    def require(self, values: types.SimpleNamespace, *names: str) -> None:
        """Raises UsageError unless all of these flags are given."""
        for name in names:
            if not getattr(values, name):
                raise UsageError(f"--{name} is missing: {self.flags[name].help.split('. ')[0]}")

    def require_run(self, values: types.SimpleNamespace) -> None:
        """Raises UsageError if --output_dir is missing and a name in --checkpoint_path needs it."""
        names = checkpoint_names(values)
        if not names or not all("/" in name or checkpoint_files.is_whole(name) for name in names):
            self.require(values, "output_dir")

    def _dispatch(
        self, body: Callable[[types.SimpleNamespace], None], arguments: list[str]
    ) -> None:
        if _HELP & set(arguments):
            print(self.help())
            return
        if usr_dir := self._publish(arguments):
            _import_usr_dir(usr_dir)
        values = self.parse(arguments, usr_dir)
        if values.registry_help:
            print(registry_help())
            return
        try:
            body(values)
        except SystemExit as end:
            if (error := ExitError(end)).path.startswith(_PACKAGE):
                raise  # as t2t-serve does at SIGTERM
            raise error from end

    def _unknown_flag(self, name: str, own: Iterable[str]) -> UsageError:
        if name.startswith("hp_"):
            hparam = shortened(name.removeprefix("hp_"))
            return UsageError(f"--hp_{hparam} is refused: write --hparams={hparam}=VALUE")
        for candidate in (name, name.removeprefix("no")):
            note = t2t_flags.refused(self.name).get(candidate)
            if note is not None:
                return UsageError(f"--{candidate} is refused: {note}")
        known = [*self.flags, *own]
        return UsageError(f"unknown flag --{shortened(name)}{did_you_mean(name, known)}")

    def _fail(self, message: str, code: int) -> int:
        print(f"{self.name}: error: {' '.join(message.split())}", file=sys.stderr)
        return code


def _refuse_unknown(words: Iterable[str]) -> None:
    """Raises absl's error if there is a flag among the arguments that it leaves.

    absl would first seek similar names, which takes long, fails for a name of 1,000 characters, and
    is shown nowhere.
    """
    for word in itertools.takewhile("--".__ne__, words):
        if flag := re.match("--?+([^=]+)", word):
            raise flags.UnrecognizedFlagError(flag[1])


def _define_old(old: t2t_flags.T2TFlag, values: flags.FlagValues) -> None:
    """Adds a flag of T2T's that this command does not have to absl's set."""
    kind = bool if isinstance(old.default, bool) else str
    Flag(old.name, kind, None, old.note).define(values)


def checkpoint_names(values: types.SimpleNamespace) -> list[str]:
    """Returns the names in --checkpoint_path; empty if it is not given."""
    return checkpoint_files.split_checkpoints(values.checkpoint_path, values.output_dir)


def checkpoint_name(values: types.SimpleNamespace) -> str:
    """Returns the only name in --checkpoint_path; "" if it is not given."""
    names = checkpoint_names(values)
    if len(names) > 1:
        raise UsageError(f"--checkpoint_path={values.checkpoint_path}: name only one checkpoint")
    return names[0] if names else ""


def is_utf8(text: str) -> bool:
    """Whether the bytes of an argument were UTF-8; Python turns other bytes into surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _import_usr_dir(folder: str) -> None:
    """Imports a user's folder; TensorFlow first, without its messages, if its code names it."""
    if usr_dir_flags.contains(folder, "tensorflow"):
        with console.quiet_import():
            importlib.import_module("tensorflow")
    usr_dirs.import_usr_dir(folder)
