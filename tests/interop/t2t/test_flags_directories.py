"""T2T's flags that user directories of 2017 to 2020 read, and flags of their own."""

import logging
import pathlib
import sys
import types
from collections.abc import Callable

import pytest
from absl import flags

from support.usr_dirs import write_usr_dir
from t2t_lite import t2t_flags, usr_dirs
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_exporter, t2t_trainer, usr_dir_flags
from t2t_lite.data.generation import workers

pytestmark = pytest.mark.usefixtures("upstream")

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path) -> Write:
    """Returns a function that writes a user directory, and beside it; returns its path."""
    return lambda name, init, **modules: (
        f"--t2t_usr_dir={write_usr_dir(tmp_path / name, init, **modules)}"
    )


def run(command: types.ModuleType, *argv: str, code: int = 0) -> types.SimpleNamespace:
    """Parses the command line as the command does, and returns what its body gets."""
    found = []
    with pytest.raises(SystemExit) as ended:
        command.COMMAND.main(found.append)(argv)
    assert ended.value.code == code
    return found[0] if found else types.SimpleNamespace()


def usr(name: str) -> types.ModuleType:
    return sys.modules[name]


# ---- T2T's flags


def test_a_directory_reads_the_commands_flags_at_import(write):
    """As for a list of files that depends on --problem."""
    usr_dir = write(
        "usr_at_import",
        """
        from absl import flags
        from tensor2tensor.utils import flags as t2t_flags
        FLAGS = t2t_flags.FLAGS
        assert t2t_flags.flags is flags
        READ = FLAGS.problem, FLAGS.data_dir, FLAGS.train_steps, FLAGS.hparams_set, FLAGS.schedule
        REST = FLAGS.model, FLAGS.worker_gpu, FLAGS.warm_start_from, FLAGS.cloud_mlengine
        """,
    )
    run(t2t_trainer, usr_dir, "--problem=one", "--data_dir=~/d", "--train_steps=7")
    problem, data_dir, *others = usr("usr_at_import").READ
    assert (problem, others) == ("one", [7, None, "continuous_train_and_eval"])
    assert data_dir == str(pathlib.Path.home() / "d")
    assert usr("usr_at_import").REST == (None, 1, None, False)


def test_flags_that_the_command_lacks_have_t2ts_default(write):
    usr_dir = write("usr_lacking", "from absl import flags\nread = flags.FLAGS.__getattr__")
    run(t2t_datagen, usr_dir, "--problem=x", "--tmp_dir=raw")
    read = usr("usr_lacking").read
    assert [read(name) for name in ("problem", "tmp_dir")] == ["x", "raw"]
    assert (read("output_dir"), read("model")) == ("", None)
    assert (read("train_steps"), read("max_cases"), read("only_list")) == (250_000, 0, False)
    with pytest.raises(AttributeError, match="no_such_flag"):
        read("no_such_flag")


def test_flags_of_earlier_t2t(write):
    usr_dir = write("usr_1_2", "from absl import flags\nREAD = flags.FLAGS.problems")
    run(t2t_trainer, usr_dir, "--problem=one")
    assert usr("usr_1_2").READ == "one"
    found = run(t2t_decoder, "--problems=one", "--decode_beam_size=4")
    assert (found.problem, found.decode_hparams) == ("one", "beam_size=4")


def test_code_of_a_user_directory_sees_what_flags_are_taken_as(write):
    code = "from absl import flags\nREAD = flags.FLAGS.problem, flags.FLAGS.output_dir"
    run(t2t_trainer, write("usr_reader", code), "--problems=one", "--job-dir=x")
    assert usr("usr_reader").READ == ("one", "x")


def test_every_command_starts_from_the_defaults(write):
    usr_dir = write("usr_twice", "from absl import flags\nFLAGS = flags.FLAGS")
    run(t2t_trainer, usr_dir, "--problem=one", "--model=transformer", "--eval_steps=3")
    run(t2t_decoder, usr_dir, "--decode_hparams=beam_size=2")
    found = usr("usr_twice").FLAGS
    assert (found.problem, found.model, found.eval_steps) == (None, None, 100)
    assert found.decode_hparams == "beam_size=2"


def test_a_directory_may_parse_the_command_line_itself(write, monkeypatch):
    """`FLAGS(sys.argv)`, which absl asks for before the first flag is read."""
    usr_dir = write(
        "usr_parsing",
        """
        import sys
        from absl import flags
        flags.DEFINE_integer("lines", 3, "Lines.")
        flags.FLAGS(sys.argv)
        LINES = flags.FLAGS.lines
        """,
    )
    argv = [usr_dir, "--lines=5", "--data_dir=d", "--clean=identical", "--noreport"]
    monkeypatch.setattr(sys, "argv", ["t2t-datagen", *argv])
    run(t2t_datagen, *argv)
    assert usr("usr_parsing").LINES == 5


def test_without_a_command_flags_have_their_defaults(write, tmp_path):
    write(
        "usr_in_python",
        """
        from absl import flags
        flags.DEFINE_string("corpus", "small", "Name.")
        READ = flags.FLAGS.tmp_dir, flags.FLAGS.data_dir, flags.FLAGS.corpus
        """,
    )
    usr_dirs.import_usr_dir(str(tmp_path / "usr_in_python"))
    assert usr("usr_in_python").READ == ("/tmp/t2t_datagen", "", "small")


def test_flags_that_a_script_has_defined_stay_its_own(write, tmp_path):
    flags.DEFINE_string("data_dir", "theirs", "Of a script that uses absl itself.")
    write("usr_of_script", "from absl import flags\nREAD = flags.FLAGS.data_dir")
    usr_dirs.import_usr_dir(str(tmp_path / "usr_of_script"))
    assert usr("usr_of_script").READ == "theirs"


# ---- flags of a directory's own


def test_own_flags_are_parsed(write):
    usr_dir = write(
        "usr_own",
        "from . import corpus",
        corpus="""
        from absl import flags
        NAME = flags.DEFINE_string("corpus_name", "news", "Which.")
        flags.DEFINE_integer("corpus_lines", 10, "How many.", lower_bound=1)
        flags.DEFINE_bool("corpus_lower", False, "Whether to lowercase.")
        flags.DEFINE_list("corpus_parts", ["a"], "Parts.")
        def read():
          found = flags.FLAGS
          return NAME.value, found.corpus_lines, found.corpus_lower, found.corpus_parts
        """,
    )
    given = ["--corpus_name", "talks", "--corpus_lines=3", "--corpus_lower", "--corpus_parts=x,y"]
    args = run(t2t_trainer, usr_dir, *given, "--problem=one", "--model=transformer")
    assert (args.problem, args.model) == ("one", "transformer")
    assert usr("usr_own.corpus").read() == ("talks", 3, True, ["x", "y"])
    run(t2t_decoder, usr_dir)  # which forgets them
    assert usr("usr_own.corpus").read() == ("news", 10, False, ["a"])


@pytest.mark.parametrize("flag", ["--corpus_part=b", "-p=b"])
def test_own_flags_may_have_a_short_name(write, flag):
    usr_dir = write(
        "usr_short",
        """
        from absl import flags
        flags.DEFINE_string("corpus_part", "a", "Part.", short_name="p")
        read = lambda: (flags.FLAGS.corpus_part, flags.FLAGS.p)
        """,
    )
    run(t2t_datagen, usr_dir, flag)
    assert usr("usr_short").read() == ("b", "b")
    assert t2t_flags.given()["corpus_part"] == "b"
    run(t2t_trainer, usr_dir)
    assert usr("usr_short").read() == ("a", "a")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--corpus_siz=3", "unknown flag --corpus_siz; did you mean 'corpus_size'"),
        ("--corpus_size=x", "--corpus_size=x"),
        ("--train_step=3", "unknown flag --train_step; did you mean 'train_steps'"),
        ("--tfdbg", "--tfdbg is refused"),
    ],
)
def test_errors_know_own_flags(write, capsys, flag, message):
    usr_dir = write(
        "usr_mistyped",
        'from absl import flags\nflags.DEFINE_integer("corpus_size", 1, "Size.")',
    )
    run(t2t_trainer, usr_dir, flag, code=2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--corpus_siz=3", "unknown flag --corpus_siz; did you mean 'corpus_size'"),
        ("--corpus_size=0", "--corpus_size=0: Flag is too small"),
        ("--data_dir=here", "--corpus_size=None: Flag --corpus_size must have a value"),
    ],
)
def test_validators_of_own_flags_are_asked_after_unknown_flags(write, capsys, flag, message):
    usr_dir = write(
        "usr_required",
        """
        from absl import flags
        flags.DEFINE_integer("corpus_size", None, "Size.", required=True)
        flags.register_validator("corpus_size", lambda size: size != 0, "Flag is too small.")
        """,
    )
    run(t2t_trainer, usr_dir, flag, code=2)
    assert message in capsys.readouterr().err


def test_own_flags_are_unknown_without_the_directory(capsys):
    run(t2t_trainer, "--corpus_other=3", code=2)
    assert "unknown flag --corpus_other" in capsys.readouterr().err


def test_a_flag_of_t2ts_name_may_be_defined_again(write):
    """By a directory that was written for another of T2T's commands, or for an earlier T2T."""
    usr_dir = write(
        "usr_again",
        """
        from absl import flags
        flags.DEFINE_string("data_dir", "elsewhere", "Again.")
        flags.DEFINE_string("tmp_dir", "raw", "Again.")
        flags.DEFINE_integer("task_id", 5, "Refused by t2t-datagen itself.")
        flags.DEFINE_integer("num_workers", 4, "A flag of ours alone.")
        def read():
          found = flags.FLAGS
          return found.data_dir, found.tmp_dir, found.task_id, found.num_workers
        """,
    )
    args = run(t2t_datagen, usr_dir, "--data_dir=here", "--task_id=9")
    assert (args.data_dir, args.tmp_dir, args.num_workers) == ("here", "/tmp/t2t_datagen", 0)
    assert usr("usr_again").read() == ("here", "raw", 9, 4)
    run(t2t_datagen, usr_dir, "--data_dir=here", "--tmp_dir=there", "--num_workers=2")
    assert usr("usr_again").read() == ("here", "there", 5, 2)


def test_flags_through_tensorflow(write):
    usr_dir = write(
        "usr_tf_flags",
        """
        import tensorflow.compat.v1 as tf
        tf.flags.DEFINE_float("keep", 0.5, "Share.")
        tf.app.flags.DEFINE_string("side", "en", "Side.")
        FLAGS = tf.flags.FLAGS
        def read():
          return FLAGS.keep, FLAGS.side, FLAGS.tmp_dir, tf.app.flags.FLAGS.data_dir
        """,
    )
    run(t2t_exporter, usr_dir, "--keep=0.25", "--tmp_dir=raw")
    assert usr("usr_tf_flags").read() == (0.25, "en", "/tmp/t2t_datagen", None)


# ---- flags that the code reads from the command line itself


def test_flags_of_an_own_argparse_are_left_to_it(write, monkeypatch, caplog):
    usr_dir = write(
        "usr_argparse",
        """
        import argparse
        def read():
          parser = argparse.ArgumentParser()
          parser.add_argument("-l", "--lang", default="en")
          parser.add_argument('--domains', nargs="+")
          parser.add_argument("--verbose", action="store_true")
          found, _ = parser.parse_known_args()
          return found.lang, found.domains, found.verbose
        """,
    )
    caplog.set_level(logging.INFO)
    argv = [usr_dir, "--lang=de", "--verbose", "--domains", "a", "b", "--problem=one"]
    monkeypatch.setattr(sys, "argv", ["t2t-datagen", *argv])
    args = run(t2t_datagen, *argv)
    assert args.problem == "one"
    assert usr("usr_argparse").read() == ("de", ["a", "b"], True)


def test_only_flags_that_the_code_names_are_left_to_it(write, tmp_path, capsys):
    usr_dir = write("usr_naming", 'import sys\nVERBOSE = "--verbose" in sys.argv')
    (tmp_path / "usr_naming" / ".#problems.py").symlink_to("an editor's lock")
    run(t2t_datagen, usr_dir, "--verbose")
    run(t2t_datagen, usr_dir, "--verbos", code=2)
    assert "unknown flag --verbos" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        (["--a=1", "--x=2", "--b"], ["--a=1", "--b"]),
        (["--x", "2", "3", "--b", "4"], ["--b", "4"]),
        (["-x=2", "word"], ["word"]),
        (["--b=x", "--xx=2"], ["--b=x", "--xx=2"]),
    ],
)
def test_a_flag_and_its_values_are_left_out(arguments, rest):
    assert usr_dir_flags.without(arguments, "x") == rest


# ---- other processes


def test_other_processes_get_the_values_before_the_definitions(write, tmp_path):
    write(
        "usr_elsewhere",
        """
        from absl import flags
        flags.DEFINE_integer("factor", 2, "Factor.")
        def read():
          return flags.FLAGS.factor, flags.FLAGS.problem, flags.FLAGS.tmp_dir
        """,
    )
    t2t_flags.publish({"factor": 5, "problem": "one"})
    assert t2t_flags.given() == {"factor": 5, "problem": "one", "problems": "one"}
    usr_dirs.import_usr_dir(str(tmp_path / "usr_elsewhere"))
    assert usr("usr_elsewhere").read() == (5, "one", "/tmp/t2t_datagen")


class _Reader:
    """A job that reads flags."""

    def read(self, name: str) -> object:
        return flags.FLAGS[name].value if name in flags.FLAGS else "none"


def test_workers_get_the_values(tmp_path, monkeypatch):
    """Of the file that passes them the job."""
    t2t_flags.publish({"problem": "one"})
    with workers.Workers(_Reader(), tmp_path, 2) as some:
        monkeypatch.setattr(workers, "ProcessPoolExecutor", lambda *args, **kwargs: None)
        monkeypatch.setattr(workers.user_imports, "packages", lambda: ["usr_any"])
        assert some._start_pool()
        monkeypatch.setattr(workers, "_job_path", some._path)
        t2t_flags.publish({})
        job = workers._job.__wrapped__()
        assert [job.read(name) for name in ("problem", "data_dir")] == ["one", ""]


def test_defaults_are_of_t2ts_own_command_first():
    assert t2t_flags.defaults_of("t2t-datagen")["random_seed"] == 429459
    assert t2t_flags.defaults_of("t2t-trainer")["random_seed"] is None
    assert t2t_flags.defaults_of()["n"] == 8
