"""A process that evaluates, or decodes, each checkpoint of another one's training."""

import json
import os
import pathlib
import random
import signal
import time

import pytest

from support.commands import printed_by, run_command
from support.small_runs import HPARAMS, records_of
from support.texts import write_lines
from t2t_lite import registry
from t2t_lite.bin import t2t_trainer
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.runs import checkpoint_files

pytestmark = pytest.mark.integration

STEPS, BETWEEN = 300, 10
DRY = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
TURNS = ("train", "continuous_eval")


@pytest.fixture(scope="module")
def data_dir(few_shards, tmp_path_factory) -> pathlib.Path:
    """Data of a copy task."""
    text, data = (tmp_path_factory.mktemp(name) for name in ("text", "data"))
    for split, count in (("train", 300), ("eval", 8)):
        lines = [f"{number % 10} and {number // 10}" for number in range(count)]
        for side in ("inputs", "targets"):
            write_lines(text / f"{side}.{split}.txt", lines)
    generate_data(registry.problem("text2text_tmpdir"), str(data), str(text))
    return data


@pytest.fixture
def flags(usr_few_shards, data_dir):
    """Returns a function that gives the flags of a process."""

    def of(output_dir, schedule: str, steps: int = STEPS, between: int = BETWEEN) -> list[str]:
        return [
            f"--t2t_usr_dir={usr_few_shards}",
            "--problem=text2text_tmpdir",
            "--model=transformer",
            "--hparams_set=transformer_test",
            f"--hparams={HPARAMS},{DRY},learning_rate_warmup_steps=20",
            f"--data_dir={data_dir}",
            f"--output_dir={output_dir}",
            f"--schedule={schedule}",
            f"--train_steps={steps}",
            f"--local_eval_frequency={between}",
            "--decode_hparams=beam_size=1,extra_length=2",
            "--random_seed=3",
            "--keep_checkpoint_max=2",
            "--keep_best_max=2",
            "--worker_job=/job:localhost",
        ]

    return of


def progress(folder: pathlib.Path, schedule: str) -> int:
    """Returns the last step of a process."""
    if schedule == "train":
        paths = checkpoint_files.whole_checkpoints(folder)
        return checkpoint_files.step_of(paths[-1]) if paths else 0
    return max((record["step"] for record in records_of(folder / "eval")), default=0)


def evaluations(folder: pathlib.Path) -> list[dict]:
    """Returns the evaluations in the order of their file, without the checkpoints' digests."""
    found = records_of(folder, "eval")
    return [{k: v for k, v in one.items() if k != "checkpoint_signature"} for one in found]


def best(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.glob("best*"))


@pytest.mark.slow
def test_killed_in_turn_they_evaluate_each_checkpoint_once(start, flags, tmp_path):
    """And choose the same best ones as one process."""
    calm, shared = tmp_path / "calm", tmp_path / "shared"
    run_command("t2t-trainer", *flags(calm, "continuous_train_and_eval"))
    running = {turn: start("t2t-trainer", *flags(shared, turn)) for turn in TURNS}
    for kill in range(10):
        turn = TURNS[kill % 2]
        before = progress(shared, turn)
        while progress(shared, turn) == before and running[turn].poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.3))
        assert running[turn].poll() is None, running[turn].communicate()[
            0
        ]  # otherwise it ended by itself
        running[turn].send_signal(signal.SIGKILL)
        running[turn].wait()
        running[turn] = start("t2t-trainer", *flags(shared, turn))
    for process in running.values():
        output, _ = process.communicate()
        assert process.returncode == 0, output
    found = evaluations(shared / "eval")
    assert [one["step"] for one in found] == list(range(BETWEEN, STEPS + 1, BETWEEN))
    assert found == evaluations(calm)
    assert best(shared) == best(calm)
    newest = [path.name for path in sorted(shared.glob("model.ckpt-*.index"))]
    assert newest == [f"model.ckpt-{step}.index" for step in (STEPS - BETWEEN, STEPS)]
    assert not list((shared / "followers").glob("*.json"))


def test_an_evaluator_that_waits_for_a_run_misses_no_checkpoint(start, flags, eagerly, tmp_path):
    """The trainer keeps two of four; a decoder beside it writes the outputs of all."""
    run = tmp_path / "run"
    own = {
        schedule: flags(run, schedule, steps=8, between=2)
        for schedule in ("train", "continuous_eval", "continuous_decode_on_eval_data")
    }
    waiting = [start("t2t-trainer", *own[schedule]) for schedule in list(own)[1:]]
    while len(list(run.glob("followers/*.json"))) < 2:
        assert [process.poll() for process in waiting] == [None, None]
        time.sleep(0.05)
    printed_by(t2t_trainer.main, *own["train"])
    for process in waiting:
        output, _ = process.communicate()
        assert process.returncode == 0, output
    by_loss = evaluations(run / "eval")
    assert [one["step"] for one in by_loss] == [2, 4, 6, 8]
    decoded = records_of(run / "decode")
    assert [(one["kind"], one["step"]) for one in decoded] == [("decode", n) for n in (2, 4, 6, 8)]
    assert [one["bleu"] for one in decoded] == [one["bleu"] for one in by_loss]
    assert {one["search_signature"] for one in decoded} == {"beam_size=1,extra_length=2"}
    outputs = [run / "decode" / f"text2text_tmpdir-{step}" for step in (2, 4, 6, 8)]
    references = (run / "decode" / "text2text_tmpdir.targets").read_text().splitlines()
    assert {len(path.read_text().splitlines()) for path in outputs} == {len(references)}
    assert len(best(run)) == 4, "two checkpoints of two files"
    assert len(list(run.glob("model.ckpt-*.index"))) == 2
    settings = json.loads((run / "flags.json").read_text())
    assert settings["schedule"] == "train", "the trainer's settings stay"
    assert os.listdir(run / "followers") == []
