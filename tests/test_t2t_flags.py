"""The table of T2T's flags, the parser and docs/flags.md say the same."""

import importlib
import os
import pathlib

import pytest

from t2t_lite import t2t_flags
from t2t_lite.bin import flags_page
from t2t_lite.bin.command import Command
from t2t_lite.errors import UsageError
from t2t_lite.t2t_flags import Treatment

_COMMANDS = (
    "t2t-datagen",
    "t2t-trainer",
    "t2t-decoder",
    "t2t-exporter",
    "t2t-query-server",
    "t2t-bleu",
    "t2t-avg-checkpoints",
    "t2t-avg-all",
    "t2t-translate-all",
)
_THREADS = ("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS")
# Honoured, with another default; the table says which.
_OTHER_DEFAULTS = {
    ("t2t-trainer", "worker_gpu"),
    ("t2t-trainer", "worker_id"),
    ("t2t-trainer", "eval_early_stopping_metric_minimize"),
    ("t2t-trainer", "autotune_maximize"),
    ("t2t-decoder", "worker_gpu"),
    ("t2t-avg-checkpoints", "output_path"),
    ("t2t-translate-all", "beam_size"),
    ("t2t-translate-all", "alpha"),
}


def command(name: str) -> Command:
    return importlib.import_module(f"t2t_lite.bin.{name.replace('-', '_')}").COMMAND


def each(treatment: Treatment) -> pytest.MarkDecorator:
    """Runs a test for every flag that is treated so."""
    every = [(c, f) for c in _COMMANDS for f in t2t_flags.flags_of(c) if f.treatment is treatment]
    return pytest.mark.parametrize(("name", "flag"), every, ids=[f"{c} {f.name}" for c, f in every])


def test_the_page_is_the_table():
    page = pathlib.Path(__file__).parents[1] / "docs" / "flags.md"
    assert page.read_text(encoding="utf-8") == flags_page.markdown()


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_flag_stands_there_once(name):
    names = [flag.name for flag in t2t_flags.flags_of(name)]
    assert len(names) == len(set(names))


def test_t2t_decoder_defines_all_of_t2t_trainers_flags():
    trainer, decoder = (
        {(flag.name, flag.default) for flag in t2t_flags.flags_of(name)}
        for name in ("t2t-trainer", "t2t-decoder")
    )
    assert trainer < decoder
    # 40 in T2T's utils/flags.py, 33 in bin/t2t_trainer.py, 7 more in bin/t2t_decoder.py;
    # and 7 of earlier releases.
    assert (len(trainer), len(decoder)) == (40 + 33 + 7, 40 + 33 + 7 + 7)


@each(Treatment.HONOURED)
def test_honoured_flags_exist_with_t2ts_default(name, flag):
    ours = command(name).flags[flag.name]
    same = (ours.default if ours.default != "" else None) == (
        flag.default if flag.default != "" else None
    )
    assert same == ((name, flag.name) not in _OTHER_DEFAULTS)
    assert same or "default" in flag.note or "--worker_hosts" in flag.note


@each(Treatment.ACCEPTED)
def test_accepted_flags_warn_when_given(name, flag, caplog):
    assert flag.name not in command(name).flags
    command(name).parse([])
    assert not caplog.messages
    value = [] if isinstance(flag.default, bool) else ["5"]
    command(name).parse([f"--{flag.name}", *value])
    assert caplog.messages == [f"--{flag.name} has no effect: {flag.note}"]
    assert flag.note


@each(Treatment.TAKEN)
def test_flags_taken_as_something_else_mean_that(name, flag, monkeypatch):
    assert flag.name not in command(name).flags
    for variable in _THREADS:
        monkeypatch.setenv(variable, "")
    value = "true" if isinstance(flag.default, bool) else "7"
    parsed = command(name).parse([f"--{flag.name}={value}"])
    meaning = flag.note.replace("VALUE", value)
    if meaning.partition("=")[0] in _THREADS:
        assert os.environ[meaning.partition("=")[0]] == "7"
        meaning = "--nothing"
    assert vars(parsed) == vars(command(name).parse([meaning] * (meaning != "--nothing")))
    if isinstance(flag.default, bool):
        off = command(name).parse([f"--no{flag.name}"])
        meaning = flag.note.replace("VALUE", "false")
        assert vars(off) == vars(command(name).parse([meaning] * ("VALUE" in flag.note)))


def test_a_flag_taken_as_an_hparam_is_added_to_the_others():
    given = ["--decode_hparams=beam_size=2", "--decode_alpha=0.5", "--decode_return_beams"]
    found = command("t2t-decoder").parse([*given, "--hparams=", "--xla_compile"])
    assert found.decode_hparams == "beam_size=2,xla_compile=true,alpha=0.5,return_beams=true"
    assert not found.hparams


def test_two_names_of_one_flag_may_not_contradict_each_other():
    parse = command("t2t-trainer").parse
    assert parse(["--profile", "--dbgprofile"]).profile is True
    assert parse(["--problem=a", "--problems=a", "--job-dir=x"]).output_dir == "x"
    with pytest.raises(UsageError, match="--problem=a and --problems=b contradict each other"):
        parse(["--problem=a", "--problems=b"])


@pytest.mark.integration
@each(Treatment.REFUSED)
def test_refused_flags_say_what_to_do(name, flag):
    assert flag.name not in command(name).flags
    assert flag.note
    for word in (f"--{flag.name}", f"--{flag.name}=1", f"--no{flag.name}"):
        with pytest.raises(UsageError) as error:
            command(name).parse([word])
        assert str(error.value) == f"--{flag.name} is refused: {flag.note}"


def test_flags_that_notes_mention_exist():
    for name in _COMMANDS:
        for flag in t2t_flags.flags_of(name):
            mentioned = {word.strip(",.;").partition("=")[0] for word in flag.note.split()}
            mentioned = {word.removeprefix("--") for word in mentioned if word.startswith("--")}
            if flag.note != "only training reads it":
                known = command(name).flags.keys() | {"checkpoint_path"}  # t2t-decoder's
                assert mentioned <= known, flag.name
