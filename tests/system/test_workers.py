"""Several processes on this machine train as one does, and end together."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry, run_folder

STEPS = 20
HPARAMS = (
    "batch_size=256,batch_shuffle_size=4,max_length=32,num_hidden_layers=1,"
    "learning_rate_warmup_steps=10"
)
# Within so many seconds the workers must have noticed that one of them is lost.
NOTICED = 60


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    text, data = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("data")
    for split, count in (("train", 400), ("eval", 20)):
        for side in ("inputs", "targets"):
            lines = "".join(f"{i * i % 97} " * (1 + i % 9) + "\n" for i in range(count))
            (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
    registry.problem("text2text_tmpdir").generate_data(str(data), str(text))
    return data


@pytest.fixture
def trainer_flags(data_dir):
    """Returns a function that gives the flags of a run."""

    def flags(output_dir, *more: str, steps: int = STEPS) -> list[str]:
        return [
            "--problem=text2text_tmpdir",
            "--model=transformer",
            "--hparams_set=transformer_test",
            f"--hparams={HPARAMS}",
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
    """Returns a function that starts two workers, the chief first."""

    def launch(output_dir, *more: str, steps: int = STEPS) -> list[subprocess.Popen]:
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(2)]
            hosts = ",".join(f"localhost:{server.getsockname()[1]}" for server in servers)
        flags = trainer_flags(output_dir, f"--worker_hosts={hosts}", *more, steps=steps)
        return [start("t2t-trainer", *flags, f"--worker_id={i}") for i in range(2)]

    return launch


def finish(workers, code: int = 0) -> list[str]:
    """Waits for the workers; returns what they have printed."""
    outputs = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [code] * len(workers), outputs
    return outputs


def state(output_dir) -> dict[str, np.ndarray]:
    """Every value of the newest checkpoint (the data's position is compared by what follows)."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(output_dir)))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if not name.startswith(("batches", "_CHECKPOINTABLE"))
    }


def metrics(output_dir) -> list[dict]:
    return [record for _, record in run_folder.read_metrics(output_dir)]


def names(output_dir) -> set[str]:
    """Names of the files of a run; those for TensorBoard hold a time and a process number."""
    return {re.sub(r"tfevents.*", "tfevents", path.name) for path in output_dir.iterdir()}


@pytest.mark.slow
def test_two_workers_equal_one_with_two_devices(command, start_workers, trainer_flags, tmp_path):
    two, one = tmp_path / "two", tmp_path / "one"
    chief, other = finish(start_workers(two))
    assert "trained 20 steps" in chief
    assert "INFO" not in other
    seed = json.loads((two / "flags.json").read_text())["random_seed"]  # drawn by the chief
    command("t2t-trainer", *trainer_flags(one, f"--random_seed={seed}", "--simulate_devices=2"))
    values = state(one)
    assert len(list(two.glob("events*"))) == 1
    assert names(one) == names(two)
    for name, value in state(two).items():
        np.testing.assert_allclose(value, values[name], rtol=1e-5, atol=1e-5, err_msg=name)
    for record, expected in zip(metrics(two), metrics(one), strict=True):
        assert record.keys() == expected.keys()
        for name, value in record.items():
            close = value if isinstance(value, str) else pytest.approx(value, rel=1e-5)
            assert expected[name] == close, name


@pytest.fixture(scope="module")
def calm_run(data_dir, tmp_path_factory):
    """Where the runs of `test_a_lost_worker_ends_the_others` would end without disturbance."""
    return tmp_path_factory.mktemp("runs") / "calm"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_lost_worker_ends_the_others(number, victim, start_workers, calm_run, tmp_path):
    steps, seed = 300, "--random_seed=3"
    if not calm_run.exists():
        finish(start_workers(calm_run, seed, steps=steps))
    workers = start_workers(tmp_path, seed, steps=steps)
    while not (tmp_path / "model.ckpt-20.index").exists():
        assert workers[0].poll() is None, workers[0].communicate()[0]
        time.sleep(0.1)
    workers[victim].send_signal(number)
    survivor = workers[1 - victim]
    output, _ = survivor.communicate(timeout=NOTICED)
    assert survivor.returncode == 75, output
    last = output.strip().splitlines()[-1]
    if number == signal.SIGTERM:
        (stopped,) = finish([workers[victim]], 75)
        assert "stopped by SIGTERM" in stopped
        # In an evaluation, the signal does not wait for the others.
        assert "stopped by SIGTERM" in last or "has lost worker" in last
    else:
        workers[victim].kill()
        assert f"has lost worker {victim} at localhost:" in last
    left = run_folder.step_of(run_folder.checkpoints(tmp_path)[-1])
    assert left < steps
    chief, _ = finish(start_workers(tmp_path, seed, steps=steps))
    assert f"going on after step {left}" in chief
    values = state(calm_run)
    for name, value in state(tmp_path).items():
        np.testing.assert_array_equal(value, values[name], err_msg=name)
    assert metrics(tmp_path) == metrics(calm_run)
