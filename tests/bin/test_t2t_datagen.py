"""t2t-datagen: which problems are chosen, and what is called for each."""

import functools
import json
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest

from support.commands import exit_code, printed_by, refusal
from support.registries import restored
from support.usr_dirs import write_usr_dir
from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.cleaning import CleaningRules
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.problem import Problem
from t2t_lite.data.records import read_examples
from t2t_lite.text.text_encoder import TextEncoder

_INSPECT = ["--problem=zoo_ape", "--inspect", "--data_dir=d"]
_REPORT = ["--problem=zoo_ape", "--report"]
_RUNNER, _TWO = "--runner=DirectRunner", "exclude each other"
_CALLS: list[tuple[str, str, str, DatagenOptions]] = []


class Recorder(Problem):
    """Notes the calls instead of making data."""

    def write_files(self, data_dir: str, tmp_dir: str, options: DatagenOptions) -> None:
        assert pathlib.Path(data_dir).is_dir()
        assert pathlib.Path(tmp_dir).is_dir()
        _CALLS.append((self.name, data_dir, tmp_dir, options))

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        return {}


@pytest.fixture(autouse=True)
def _problems() -> Iterator[None]:
    with restored():
        for name in ("zoo_ape", "zoo_bee", "zoo_cat_big"):
            registry.register_problem(name)(type(name, (Recorder,), {}))
        _CALLS.clear()
        yield


run = functools.partial(exit_code, t2t_datagen.main)


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["--problem=zoo_bee"], ["zoo_bee"]),
        (["--problem=zoo_bee,zoo_ape"], ["zoo_bee", "zoo_ape"]),
        (["--problem=zoo_*"], ["zoo_ape", "zoo_bee", "zoo_cat_big"]),
        (["--problem=zoo_*", "--exclude_problems=ape, big,"], ["zoo_bee"]),
        (["--problem=zoo_ape_rev"], ["zoo_ape"]),
        (["--problem=zoo_ape_rev,zoo_ape,zoo_ape_copy"], ["zoo_ape"]),
    ],
)
def test_only_list(argv, names):
    assert printed_by(t2t_datagen.main, "--only_list", *argv).split() == names
    assert _CALLS == []


def test_inspect_takes_the_chosen_problems_in_the_form_that_is_asked_for(monkeypatch):
    chosen: list[list[str]] = []
    monkeypatch.setattr(t2t_datagen, "inspect", lambda names, data_dir: chosen.append(names))
    for argv in (["--problem=zoo_*", "--exclude_problems=ape"], ["--problem=zoo_ape_rev,zoo_ape"]):
        assert run("--inspect", "--data_dir=d", *argv) == 0
    assert chosen == [["zoo_bee", "zoo_cat_big"], ["zoo_ape_rev", "zoo_ape"]]


def test_a_reversed_name_is_explained(capsys):
    assert run("--only_list", "--problem=zoo_ape_rev") == 0
    assert "zoo_ape_rev uses the files of zoo_ape" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--problem is missing"),
        (["--problem=zoo_ape"], "--data_dir is missing"),
        (["--problem=zoo_ape", "--inspect"], "--data_dir is missing"),
        (["--problem=zoo_aep"], "unknown problem 'zoo_aep'; did you mean 'zoo_ape'"),
        (["--problem=zoo_ape,zoo_dog"], "unknown problem 'zoo_dog'"),
        (["--problem=no_such_*"], "selects no problem"),
        (["--problem=zoo_ape", "--exclude_problems=ape"], "selects no problem"),
        (["--problem=zoo_ape", "--clean=identicl"], "unknown cleaning rule 'identicl'"),
        ([*_REPORT, "--hparams=max_length=9"], "--hparams_set is missing"),
        ([*_REPORT, "--hparams_set=bas"], "unknown hparams set 'bas'"),
        (["--problem=zoo_ape", "--hparams_set=transformer_base"], "belong to --report"),
        ([*_REPORT, "--inspect"], "--inspect and --report exclude each"),
        ([*_INSPECT, "--clean=empty", "--skip_bad"], f"--inspect and --clean, --skip_bad {_TWO}"),
        ([*_INSPECT, "--hparams_set=transformer_base"], f"--inspect and --hparams_set {_TWO}"),
        ([*_INSPECT, _RUNNER], f"--inspect and --runner {_TWO}"),
        ([*_REPORT, "--extend_vocab=v"], f"--report and --extend_vocab {_TWO}"),
        ([*_REPORT, "--alignments=a"], f"--report and --alignments {_TWO}"),
        ([*_INSPECT, "--alignments=a"], f"--inspect and --alignments {_TWO}"),
        ([*_REPORT, _RUNNER, "--num_workers=2"], f"--report and --num_workers, --runner {_TWO}"),
        (["--problem=zoo_ape,zoo_dog", "--inspect", "--data_dir=d"], "unknown problem 'zoo_dog'"),
    ],
)
def test_bad_choices(argv, message):
    assert message in refusal(t2t_datagen.main, *argv)
    assert _CALLS == []


def test_each_problem_is_generated_as_the_flags_say(tmp_path):
    data, raw = str(tmp_path / "data"), str(tmp_path / "raw" / "deep")
    flags = [f"--data_dir={data}", f"--tmp_dir={raw}", "--random_seed=7", "--num_workers=3"]
    assert run("--problem=zoo_*", *flags) == 0
    options = DatagenOptions(random_seed=7, num_workers=3)
    called = list(_CALLS)
    assert called == [(name, data, raw, options) for name in ("zoo_ape", "zoo_bee", "zoo_cat_big")]


def test_cleaning_is_off_unless_asked_for(tmp_path):
    where = [f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]
    assert run("--problem=zoo_ape", *where) == 0
    assert run("--problem=zoo_ape", *where, "--clean=max_ratio=3,identical") == 0
    without, cleaning = [options.cleaning for *_, options in _CALLS]
    assert without == CleaningRules()
    assert cleaning == CleaningRules(max_ratio=3, identical=True)


def report_on(folder: pathlib.Path, inputs: str, targets: str, *flags: str) -> str:
    """Writes pairs for both splits; returns what is printed about them."""
    for split in ("train", "eval"):
        (folder / f"inputs.{split}.txt").write_text(inputs)
        (folder / f"targets.{split}.txt").write_text(targets)
    before = set(folder.iterdir())
    where = f"--data_dir={folder}", f"--tmp_dir={folder}"
    out = printed_by(t2t_datagen.main, "--report", *flags, *where)
    assert set(folder.iterdir()) == before, "nothing is generated"
    return out


def test_report_on_cleaning(tmp_path):
    flags = "--clean=duplicates", "--problem=text2text_tmpdir"
    out = report_on(tmp_path, "a b\na b\nc\n", "d e\nd e\nc\n", *flags)
    assert "vocab.text2text_tmpdir.32768.subwords is missing: tokens, " in out
    assert ["text2text_tmpdir", "3", "1", "2"] in [line.split() for line in out.splitlines()]


def test_report_on_batches(tmp_path):
    (tmp_path / "vocab.text2text_tmpdir_tokens.tokens").write_text("<UNK>\na\n")
    flags = "--hparams_set=transformer_base", "--hparams=max_length=3"
    out = report_on(tmp_path, "a b c\na\n", "d\ne\n", "--problem=text2text_tmpdir_tokens", *flags)
    rows = [line.split() for line in out.splitlines()]
    assert ["dropped:", "longer", "than", "max_length=3", "1"] in rows


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    flags = "--problem=zoo_ape", f"--data_dir={tmp_path}/file/data"
    error = refusal(t2t_datagen.main, *flags, code=1)
    assert f"{tmp_path}/file/data: Not a directory" in error


IMPORTS = """
import argparse
from t2t_lite import registry
from t2t_lite.data import text_problems
from t2t_lite.text import text_encoder

"""


def test_workers_know_the_encoders_of_a_usr_dir(tmp_path, monkeypatch):
    problem = """
from usr_datagen_encoder import encoders

@registry.register_problem
class UsrShouting(text_problems.Text2TextProblem):
    vocab_type = text_problems.VocabType.CHARACTER
    dataset_splits = [{"split": "train", "shards": 1}]

    def feature_encoders(self, data_dir):
        return {"inputs": encoders.Shouting(), "targets": encoders.Shouting()}

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return ({"inputs": "a", "targets": "b"} for _ in range(100))
"""
    encoders = """
class Shouting(text_encoder.ByteTextEncoder):
    def encode(self, text):
        return super().encode(text.upper())
"""
    folder = tmp_path / "usr_datagen_encoder"
    write_usr_dir(folder, IMPORTS + problem, encoders=IMPORTS + encoders)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(generator, "_CHUNK", 40)
    data = tmp_path / "data"
    flags = [f"--t2t_usr_dir={folder}", f"--data_dir={data}", "--num_workers=2"]
    assert run("--problem=usr_shouting", *flags) == 0
    examples = list(read_examples([data / "usr_shouting-train-00000-of-00001"]))
    assert examples == [{"inputs": [ord("A") + 2, 1], "targets": [ord("B") + 2, 1]}] * 100


PAIRS = """
@registry.register_problem
class UsrPairs(text_problems.Text2TextProblem):
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        argparse.ArgumentParser().parse_args(["--unknown"])
"""


def test_code_of_a_usr_dir_that_ends_the_program_is_named(tmp_path, capsys):
    folder = write_usr_dir(tmp_path / "usr_datagen_exit", IMPORTS + PAIRS)
    flags = f"--t2t_usr_dir={folder}", f"--data_dir={tmp_path}"
    assert run("--problem=usr_pairs", *flags) == 1
    *_, line = capsys.readouterr().err.splitlines()  # below what argparse prints
    place = f"{folder}/__init__.py, line 11"
    assert line.startswith(f"t2t-datagen: error: {place}: the code ended the program with code 2: ")


def test_a_usr_dir_problem_is_found(tmp_path):
    folder = write_usr_dir(tmp_path / "usr_datagen_problem", IMPORTS + PAIRS)
    flags = f"--t2t_usr_dir={folder}", "--only_list", "--problem=usr_pairs_rev"
    assert printed_by(t2t_datagen.main, *flags) == "usr_pairs\n"


class TestInspect:
    """The golden copy of what T2T generated, looked at through the command."""

    @pytest.fixture
    def data(self, golden, tmp_path: pathlib.Path) -> pathlib.Path:
        made = json.loads((golden / "datagen_text2text_tmpdir.json").read_text("utf-8"))
        vocabulary = "".join(f"{line}\n" for line in made["vocab"])
        (tmp_path / "vocab.text2text_tmpdir.32768.subwords").write_text(vocabulary, "utf-8")
        shutil.copy(golden / "tfrecord" / "text2text_tmpdir-dev-00000-of-00001", tmp_path)
        return tmp_path

    def test_prints_text(self, data, capsys):
        assert run("--inspect", "--problem=text2text_tmpdir_rev", f"--data_dir={data}") == 0
        printed = capsys.readouterr().out
        assert "text2text_tmpdir_rev in" in printed
        assert "ids: inputs 504, targets 504" in printed
        assert "dev: 1 files, 30 examples" in printed
        assert "train" not in printed

    def test_faults_are_an_error(self, data, capsys):
        path = data / "text2text_tmpdir-dev-00000-of-00001"
        path.write_bytes(path.read_bytes()[:-1])
        assert run("--inspect", "--problem=text2text_tmpdir", f"--data_dir={data}") == 1
        captured = capsys.readouterr()
        assert (
            f"FAULT: files damaged, counted only in part: 1, first {path}, record 30"
            in captured.out
        )
        assert "the data has the faults listed above" in captured.err


@pytest.mark.integration
def test_the_members_of_a_mixture_skip_what_they_cannot_read(tmp_path):
    """In the report, and where a vocabulary is extended."""
    for split in ("train", "eval"):
        for side in ("inputs", "targets"):
            lines = [f"{side} {number} of the lines".encode() for number in range(40)]
            lines[7] = b"\xff"
            (tmp_path / f"{side}.{split}.txt").write_bytes(b"\n".join([*lines, b""]))
    pairs = "text2text_tmpdir_bpe2k"
    files = f"--tmp_dir={tmp_path}", "--skip_bad"
    printed_by(t2t_datagen.main, f"--problem={pairs}", f"--data_dir={tmp_path}/old", *files)
    mixture = f"--problem={pairs}+{pairs}_rev", f"--data_dir={tmp_path}/data", *files
    assert "39" in printed_by(t2t_datagen.main, *mixture, "--report")
    printed_by(t2t_datagen.main, *mixture, f"--extend_vocab={tmp_path}/old")
    assert [*(tmp_path / "data").glob("vocab.*")]
