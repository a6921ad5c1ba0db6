"""The last lines of t2t-datagen: a command that trains on the data, ready to paste."""

import io
import os
import random
import shlex
import subprocess
import sys

import pytest

from support.commands import printed_by
from t2t_lite import registry
from t2t_lite.bin import next_command, t2t_datagen, t2t_trainer
from t2t_lite.data.generation import choosing

WORDS = [f"w{number}" for number in range(400)]


@pytest.fixture
def text(tmp_path):
    """A folder of 400 pairs, whose name has a space."""
    folder = tmp_path / "my text"
    folder.mkdir()
    draw = random.Random(1)
    for side in ("inputs", "targets"):
        lines = (" ".join(draw.choices(WORDS, k=9)) for _ in range(400))
        (folder / f"{side}.train.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def last_lines(text, *flags: str) -> list[str]:
    """Makes data in the folder "data of mine"; returns the lines that are printed."""
    data = text.parent / "data of mine"
    return printed_by(
        t2t_datagen.main, f"--tmp_dir={text}", f"--data_dir={data}", "--num_workers=1", *flags
    ).splitlines()


def parsed(command: str):
    """Returns a command's program and the values of its flags."""
    program, *flags = shlex.split(command)
    module = {"t2t-trainer": t2t_trainer, "t2t-datagen": t2t_datagen}[program]
    return program, module.COMMAND.parse(flags)


def test_the_last_line_trains_on_the_data(text):
    remark, command = last_lines(text, "--problem=text2text_tmpdir_bpe_rev")
    assert remark.startswith("380 training examples and ")
    program, flags = parsed(command)
    assert program == "t2t-trainer"
    problem = registry.problem(flags.problem)
    assert problem.was_reversed
    assert problem.existing_filepaths(flags.data_dir, "train")
    assert (flags.hparams_set, flags.train_steps) == ("transformer_pairs5k", 4000)
    assert flags.model == "transformer"
    assert flags.output_dir == str(text.parent / "runs" / "text2text_tmpdir_bpe_rev")
    # The same where all files exist.
    assert last_lines(text, "--problem=text2text_tmpdir_bpe_rev") == [remark, command]


def test_a_better_vocabulary_is_made_first(text, monkeypatch):
    monkeypatch.setattr(choosing, "PAIRS", [choosing.Row(9e9, choosing.Choice("a", 7, 32_000))])
    monkeypatch.setattr(choosing, "_FULL", 0)  # as if the text had more subwords
    flags = ["--clean=max_length=99,duplicates", "--random_seed=5", "--skip_bad"]
    remark, line = last_lines(text, "--problem=text2text_tmpdir_unigram", *flags)
    assert "32,000 subwords are better" in remark
    making, training = line.split(" && ")
    name = "text2text_tmpdir_unigram32k"
    made = parsed(making)[1]
    assert (made.problem, made.tmp_dir) == (name, str(text))
    assert (made.clean, made.random_seed) == ("max_length=99,duplicates", 5)
    assert made.skip_bad is True
    trained = parsed(training)[1]
    assert (trained.problem, trained.data_dir) == (name, made.data_dir)


def test_a_vocabulary_that_no_problem_has_is_named(text, monkeypatch):
    monkeypatch.setattr(choosing, "PAIRS", [choosing.Row(9e9, choosing.Choice("a", 7, 900_000))])
    monkeypatch.setattr(choosing, "_FULL", 0)  # as if the text had more subwords
    remark, command = last_lines(text, "--problem=text2text_tmpdir_bpe")
    assert "900,000 subwords are better, by approx_vocab_size" in remark
    assert parsed(command)[1].problem == "text2text_tmpdir_bpe"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_names_that_standard_output_lacks_are_pasted_all_the_same(encoding, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    word = os.fsdecode(b"--tmp_dir=a b'\\\xff" + "\n7ü".encode())
    quoted = next_command._quoted(word)
    printed = f"printf %s {quoted}".encode(encoding)
    assert subprocess.check_output(["bash", "-c", printed]) == os.fsencode(word)


def test_one_command_for_each_problem(text):
    _, first, _, second = last_lines(text, "--problem=text2text_tmpdir_bpe,text2text_tmpdir")
    problems = [parsed(command)[1].problem for command in (first, second)]
    assert problems == ["text2text_tmpdir_bpe", "text2text_tmpdir"]


def test_labels_are_not_counted_as_subwords():
    remark = next_command._remark(choosing.Advice(1200, 4, choosing.LABELS))
    assert remark == "1,200 training examples. To train (docs/choosing.md):"


@pytest.mark.parametrize("problem", ["text2self_tmpdir_bpe", "text2text_tmpdir_bpe_copy"])
def test_nothing_is_printed_where_the_rule_is_silent(text, problem):
    assert last_lines(text, f"--problem={problem}") == []


def test_nothing_is_said_of_a_vocabulary_that_grows(text, tmp_path):
    last_lines(text, "--problem=text2text_tmpdir_bpe")
    (old,) = (tmp_path / "data of mine").glob("vocab.*.model")
    (tmp_path / "data of mine").rename(tmp_path / "old")
    extended = tmp_path / "old" / old.name
    assert last_lines(text, "--problem=text2text_tmpdir_bpe", f"--extend_vocab={extended}") == []


def test_own_code_is_in_the_command(text, tmp_path):
    usr = tmp_path / "usr_choosing"
    usr.mkdir()
    (usr / "__init__.py").write_text("")
    flags = [f"--t2t_usr_dir={usr}", "--problem=text2text_tmpdir_bpe"]
    assert parsed(last_lines(text, *flags)[-1])[1].t2t_usr_dir == str(usr)
