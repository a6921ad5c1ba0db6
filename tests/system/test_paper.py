"""t2t-paper trains rows of Tables 2 and 3, and searches a parser's settings."""

import json
import os
import pathlib
import signal
import time

import pytest

from support.commands import run_command
from t2t_lite import registry
from t2t_lite.data.generation.generator import generate_data

_MINE = """
from t2t_lite import registry
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir


@registry.register_problem
class MyLines(Text2textTmpdir):
    pass
"""


def _make_problem(tmp_path: pathlib.Path) -> list[str]:
    """Generates the data of a user's problem; returns the flags that name it."""
    text, data, mine = (tmp_path / name for name in ("text", "data", "mine"))
    text.mkdir()
    mine.mkdir()
    (mine / "__init__.py").write_text(_MINE, "utf-8")
    lines = [f"line {i} of some words {i * i}" for i in range(200)]
    for split in ("train", "eval"):
        for side in ("inputs", "targets"):
            path = text / f"{side}.{split}.txt"
            path.write_text("\n".join(lines[:: 1 if split == "train" else 50]) + "\n", "utf-8")
    own = ["--problem=my_lines", f"--t2t_usr_dir={mine}", f"--data_dir={data}"]
    run_command("t2t-datagen", f"--tmp_dir={text}", *own)
    return own


@pytest.mark.slow
def test_a_miniature_table_2_resumes_after_a_kill(start, tmp_path):
    own, out = _make_problem(tmp_path), tmp_path / "out"
    flags = [
        "--table=2",
        *own,
        "--scale=tiny",
        "--train_steps=40",
        "--hparams=batch_size=256,max_length=32",
        f"--output_dir={out}",
        "--rows=transformer,transformer_prenorm",
        "--output_format=json",
    ]
    queue = start("t2t-paper", *flags)
    path, second = out / "table2.json", out / "transformer_prenorm-seed1"
    while not list(second.glob("model.ckpt-*.index")):
        assert queue.poll() is None
        time.sleep(0.1)
    (trainer,) = pathlib.Path(f"/proc/{queue.pid}/task/{queue.pid}/children").read_text().split()
    os.kill(int(trainer), signal.SIGKILL)
    assert "transformer_prenorm-seed1: t2t-trainer ended with code -9" in queue.communicate()[0]
    summary = out / "transformer-seed1" / "summary.json"
    trained = summary.stat()
    post, pre = json.loads(run_command("t2t-paper", *flags))["rows"]
    assert summary.stat() == trained
    assert (post["BLEU EN-DE"], pre["BLEU EN-DE"]) == (27.3, None)
    assert post["updates"] == pre["updates"] == 40
    assert post["FLOPs"] / 40 == post["FLOPs an update"] > 0
    # The same data and matrix products: the batches differ only by chance.
    assert 0.9 < post["FLOPs there"] / pre["FLOPs there"] < 1.1
    cell = json.loads(path.read_text("utf-8"))["cells"]["transformer-seed1"]
    assert list(cell["checkpoints"]) == [str(step) for step in range(2, 41, 2)]
    assert cell["checkpoints"]["40"] == cell["operations"]
    assert (out / "table2.svg").read_text("utf-8").startswith("<svg")


@pytest.mark.slow
def test_a_miniature_row_of_table_3_on_a_problem_of_the_users(tmp_path):
    own, out = _make_problem(tmp_path), tmp_path / "out"
    flags = [
        "--table=3",
        *own,
        "--scale=tiny",
        "--train_steps=2",
        "--hparams=batch_size=256,max_length=32,num_hidden_layers=1",
        f"--output_dir={out}",
        "--rows=a1",
        "--output_format=json",
    ]
    table = json.loads(run_command("t2t-paper", *flags))
    (row,) = table["rows"]
    assert (row["PPL"], row["BLEU"], row["seeds"]) == (5.29, 24.9, 1)
    assert row["PPL here"] > 1
    recorded = json.loads((out / "table3.json").read_text("utf-8"))["cells"]["a1-seed1"]
    assert recorded["parameters"] == row["parameters"] > 100_000
    assert "num_heads=1" in recorded["command"]
    assert (out / "table3.svg").read_text("utf-8").startswith("<svg")
    # Done is done: the table again, without training.
    (out / "a1-seed1" / "hparams.json").unlink()
    assert json.loads(run_command("t2t-paper", *flags)) == table


@pytest.mark.slow
def test_a_miniature_search_resumes_after_a_kill(start, tmp_path):
    text, data, out = tmp_path / "text", tmp_path / "data", tmp_path / "out"
    text.mkdir()
    subjects = ["(NP-SBJ (DT the) (NN dog))", "(NP-SBJ (PRP she))", "(NP (DT a) (JJ big) (NN cat))"]
    verbs = ["(VP (VBZ runs))", "(VP (VBZ sees) (NP (PRP him) (NN tree)))", "(VP (VBZ eats))"]
    trees = [f"( (S {subject} {verb} (. .)))\n" for subject in subjects for verb in verbs]
    for split, count in {"train": 9, "eval": 5, "test": 6}.items():
        (text / f"{split}.trees").write_text("".join(trees[:count]), "utf-8")
    generate_data(registry.problem("parsing_tmpdir_16k"), str(data), str(text))
    flags = [
        "--table=parsing-search",
        "--problem=parsing_tmpdir_16k",
        "--hparams_set=transformer_test",
        "--train_steps=2",
        "--hparams=batch_size=256,max_length=64",
        f"--data_dir={data}",
        f"--output_dir={out}",
        "--dropouts=0.0",
        "--learning_rates=2.0",
        "--beam_sizes=2",
        "--output_format=json",
    ]
    killed = start("t2t-paper", *flags)
    path = out / "parsing_search.json"
    while not path.is_file():
        assert killed.poll() is None
        time.sleep(0.1)
    killed.kill()
    summary = out / "dropout0.0-rate2.0" / "summary.json"
    trained = summary.stat()
    dev, test = json.loads(run_command("t2t-paper", *flags))["rows"]
    assert summary.stat() == trained
    assert (dev["split"], dev["beam"], dev["F1"]) == ("dev, chosen", "2", None)
    assert (test["split"], test["beam"], test["F1"]) == ("test", "2", 91.3)
    # What t2t-decoder says of the same search.
    printed = run_command(
        "t2t-decoder",
        f"--output_dir={summary.parent}",
        "--eval_use_test_set",
        "--decode_hparams=beam_size=2,alpha=0.3,extra_length=300",
    )
    assert f"Bracketing F1 = {test['F1 here']:6.2f}" in printed
