"""Several processes on this machine train as one does, and end together."""

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

from support.commands import refusal, run_command
from support.rounding import assert_close
from support.small_runs import newest_state
from support.terms import forward_terms, step_terms
from support.usr_dirs import FEW_SHARDS
from t2t_lite import registry
from t2t_lite.bin import t2t_trainer
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.runs import checkpoint_files, metrics_jsonl, run_folder

STEPS = 20
HPARAMS = (
    "batch_size=256,batch_shuffle_size=4,max_length=32,num_hidden_layers=1,"
    "learning_rate_warmup_steps=10"
)
# Not Adam, which makes as large a step of a gradient's rounding as of a gradient.
SGD = f"{HPARAMS},optimizer=sgd,learning_rate_schedule=constant,learning_rate_constant=0.1"
DRY = f"{HPARAMS},layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
# Within so many seconds the workers must have noticed that one of them is lost.
NOTICED = 60


@pytest.fixture(scope="module")
def data_dir(few_shards, tmp_path_factory):
    text, data = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("data")
    for split, count in (("train", 400), ("eval", 20)):
        for side in ("inputs", "targets"):
            lines = "".join(f"{i * i % 97} " * (1 + i % 9) + "\n" for i in range(count))
            (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
    generate_data(registry.problem("text2text_tmpdir"), str(data), str(text))
    return data


@pytest.fixture
def trainer_flags(usr_few_shards, data_dir):
    """Returns a function that gives the flags of a run."""

    def flags(output_dir, *more: str, steps: int = STEPS, hparams: str = HPARAMS) -> list[str]:
        return [
            f"--t2t_usr_dir={usr_few_shards}",
            "--problem=text2text_tmpdir",
            "--model=transformer",
            "--hparams_set=transformer_test",
            f"--hparams={hparams}",
            f"--data_dir={data_dir}",
            f"--output_dir={output_dir}",
            f"--train_steps={steps}",
            "--local_eval_frequency=10",
            "--eval_steps=2",
            "--decode_hparams=beam_size=1,extra_length=2",
            "--log_step_count_steps=4",
            *more,
        ]

    return flags


@pytest.fixture
def start_workers(start, trainer_flags):
    """Returns a function that starts workers at `hosts`, the chief first."""

    def launch(output_dir, *more: str, hosts, **settings) -> list[subprocess.Popen]:
        more = f"--worker_hosts={','.join(hosts)}", *more
        flags = trainer_flags(output_dir, *more, **settings)
        return [start("t2t-trainer", *flags, f"--worker_id={i}") for i in range(len(hosts))]

    return launch


def free_hosts(count: int) -> list[str]:
    """Where so many workers may listen; nothing did a moment ago."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [f"localhost:{server.getsockname()[1]}" for server in servers]


def finish(workers, code: int = 0) -> list[str]:
    """Waits for the workers; returns what they have printed."""
    outputs = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [code] * len(workers), outputs
    return outputs


def await_checkpoint(output_dir, chief) -> None:
    """Waits for the checkpoint of step 20, after which training is under way."""
    while not (output_dir / "model.ckpt-20.index").exists():
        assert chief.poll() is None, chief.communicate()[0]
        time.sleep(0.1)


def terms_of(output_dir) -> int:
    """Roundings of one update of a run on two devices, each with 256 tokens at most."""
    run = run_folder.RunFolder.open(str(output_dir))
    forward = forward_terms(run.hparams, 32, run.encoders["targets"].vocab_size)
    return step_terms(forward, tokens=2 * 256)


def metrics(output_dir) -> list[dict]:
    return [record for _, record in metrics_jsonl.read_records(output_dir)]


def names(output_dir) -> set[str]:
    """Names of the files of a run; those for TensorBoard hold a time and a process number."""
    return {re.sub(r"tfevents.*", "tfevents", path.name) for path in output_dir.iterdir()}


NOTES = """
import os
import pathlib
import t2t_lite

@t2t_lite.register_callback
class Notes(t2t_lite.Callback):
    def evaluation(self, step, values):
        with pathlib.Path(__file__).with_name("notes").open("a") as notes:
            notes.write(f"{os.getpid()} {step} ")
"""


@pytest.mark.slow
def test_two_workers_equal_one_with_two_devices(start_workers, trainer_flags, tmp_path):
    """Although the chief, and no other, calls a callback."""
    two, one = tmp_path / "two", tmp_path / "one"
    usr = tmp_path / "notes_usr"
    usr.mkdir()
    (usr / "__init__.py").write_text(FEW_SHARDS + NOTES)
    seed, called = "--random_seed=3", (f"--t2t_usr_dir={usr}", "--callbacks=notes")
    workers = start_workers(two, seed, *called, hosts=free_hosts(2), hparams=SGD)
    chief, other = finish(workers)
    pid = workers[0].pid
    assert (usr / "notes").read_text() == f"{pid} 10 {pid} 20 "
    assert "trained 20 steps" in chief
    assert "INFO" not in other
    run_command("t2t-trainer", *trainer_flags(one, seed, "--simulate_devices=2", hparams=SGD))
    values = newest_state(one)
    assert len(list(two.glob("events*"))) == 1
    assert names(one) == names(two)
    for name, value in newest_state(two).items():
        if isinstance(value, bytes):  # which training files
            assert value == values[name]
            continue
        # Weights that were 0 at first are sums of what weights of a size of 1 have made.
        scale = max(1.0, np.abs(values[name]).max())
        assert_close(value, values[name], STEPS * terms_of(one), scale=scale, err_msg=name)
    for record, expected in zip(metrics(two), metrics(one), strict=True):
        assert record.keys() == expected.keys()
        for name, value in record.items():
            if isinstance(value, str):
                assert expected[name] == value, name
            else:
                assert_close(expected[name], value, STEPS * terms_of(one), err_msg=name)


def last_line(worker, code: int) -> str:
    """Waits for a worker; returns the last line it has printed, its only word about an error."""
    output, _ = worker.communicate(timeout=NOTICED)
    assert worker.returncode == code, output
    assert "Traceback" not in output
    (line,) = (line for line in output.splitlines() if "error" in line.lower())
    assert output.rstrip().endswith(line)
    return line


@pytest.mark.slow
def test_a_seed_drawn_by_the_chief_is_that_of_all(start_workers, trainer_flags, tmp_path):
    two, one = tmp_path / "two", tmp_path / "one"
    finish(start_workers(two, hosts=free_hosts(2), steps=1))
    seed = json.loads((two / "flags.json").read_text())["random_seed"]
    flags = trainer_flags(one, f"--random_seed={seed}", "--simulate_devices=2", steps=1)
    run_command("t2t-trainer", *flags)
    (loss,), (expected,) = ([r["loss"] for r in metrics(run)] for run in (two, one))
    assert_close(loss, expected, terms_of(one))


@pytest.mark.integration
def test_unequal_data_is_named_by_both(start, trainer_flags, data_dir, tmp_path):
    """All other reasons not to begin are in tests/training/cluster/test_rendezvous.py."""
    copy = tmp_path / "copy"
    shutil.copytree(data_dir, copy)
    name = "text2text_tmpdir-train-00001-of-00002"
    with (copy / name).open("ab") as shard:
        shard.write(b"more")
    size, hosts = (data_dir / name).stat().st_size, free_hosts(2)
    flags = trainer_flags(tmp_path / "run", f"--worker_hosts={','.join(hosts)}")
    chief = start("t2t-trainer", *flags, "--worker_id=0")
    odd = refusal(t2t_trainer.main, *flags, "--worker_id=1", f"--data_dir={copy}", code=1)
    assert {last_line(chief, 1), odd} == {
        f"t2t-trainer: error: worker 1 at {hosts[1]} has bytes of {name}={size + 4}, but worker 0 "
        f"has bytes of {name}={size}: all workers need the same flags, data and releases"
    }
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def calm_runs(data_dir, tmp_path_factory):
    """Where runs of so many workers and steps end without disturbance."""
    folder = tmp_path_factory.mktemp("runs")
    return lambda count, steps: folder / f"calm-{count}-{steps}"


@pytest.fixture
def check_loss(start_workers, calm_runs, tmp_path):
    """Returns a function that loses a worker of a run, and compares the end with a calm one."""
    seed = "--random_seed=3"

    def check(hurt, victim: int, count: int, steps: int) -> str:
        """Lets `hurt(victim's process)` happen when training has begun.

        Returns:
            The last line of a worker that is not the victim.
        """
        hosts, calm = free_hosts(count), calm_runs(count, steps)
        if not calm.exists():
            finish(start_workers(calm, seed, hosts=hosts, steps=steps))
        workers = start_workers(tmp_path, seed, hosts=hosts, steps=steps)
        await_checkpoint(tmp_path, workers[0])
        hurt(workers[victim])
        lines = [last_line(worker, 75) for i, worker in enumerate(workers) if i != victim]
        for line in lines:
            assert f"has lost worker {victim} at {hosts[victim]}: " in line
        assert workers[victim].wait(NOTICED) in (75, -signal.SIGKILL)
        left = checkpoint_files.step_of(checkpoint_files.checkpoints(tmp_path)[-1])
        assert left < steps
        chief, *_ = finish(start_workers(tmp_path, seed, hosts=hosts, steps=steps))
        assert f"resuming after step {left}" in chief
        values = newest_state(calm)
        for name, value in newest_state(tmp_path).items():
            np.testing.assert_array_equal(value, values[name], err_msg=name)
        assert metrics(tmp_path) == metrics(calm)
        return lines[0]

    return check


@pytest.mark.integration
def test_a_killed_worker_ends_the_other(start_workers, tmp_path):
    """The slow tests below let them go on."""
    hosts = free_hosts(2)
    settings = {"hosts": hosts, "steps": 200, "hparams": DRY}
    chief, other = start_workers(tmp_path, "--schedule=train", **settings)
    await_checkpoint(tmp_path, chief)
    other.kill()
    lost = f"has lost worker 1 at {hosts[1]}: its process was killed or has crashed"
    assert lost in last_line(chief, 75)
    assert 20 <= checkpoint_files.step_of(checkpoint_files.checkpoints(tmp_path)[-1]) < 200


@pytest.mark.slow
@pytest.mark.parametrize(("count", "victim"), [(2, 0), (2, 1), (3, 0), (3, 2)])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_ends_the_others(number, count, victim, check_loss):
    line = check_loss(lambda worker: worker.send_signal(number), victim, count, steps=150)
    stopped = "it has not responded for" in line
    assert stopped == (number == signal.SIGSTOP)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_a_chief_killed_in_the_middle_of_a_checkpoint(count, check_loss, tmp_path):
    def hurt(chief):
        while not list(tmp_path.glob("model.ckpt-*.incomplete")):
            assert chief.poll() is None, chief.communicate()[0]
            time.sleep(0.0005)
        chief.kill()
        chief.wait()
        assert list(tmp_path.glob("model.ckpt-*.incomplete"))

    check_loss(hurt, 0, count, steps=150)
    assert not list(tmp_path.glob("*.incomplete"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_sigterm_to_one_stops_all(victim, start_workers, tmp_path):
    """In an evaluation, the signal does not wait for the others."""
    hosts, seed = free_hosts(3), "--random_seed=3"
    workers = start_workers(tmp_path, seed, hosts=hosts, steps=300)
    await_checkpoint(tmp_path, workers[0])
    workers[victim].terminate()
    lines = [last_line(worker, 75) for worker in workers]
    assert all("stopped by SIGTERM" in line for line in lines), lines
    left = checkpoint_files.step_of(checkpoint_files.checkpoints(tmp_path)[-1])
    chief, *_ = finish(start_workers(tmp_path, seed, hosts=hosts, steps=left + 10))
    assert f"resuming after step {left}" in chief
