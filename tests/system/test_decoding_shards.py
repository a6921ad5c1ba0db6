"""Workers that decode parts of a large text, one of them killed: joined, they are one process."""

import random
import signal
import time

import pytest

from support.commands import run_command
from support.small_runs import noisy_run
from support.texts import write_lines

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LINES, SHARDS, KILLED = 10_000, 4, 2


@pytest.mark.parametrize("engine", ["tensorflow", "ctranslate2"])
def test_four_workers_write_what_one_does(engine, start, tmp_path):
    noisy_run(tmp_path / "run")
    draw = random.Random(3)
    words = ["red", "green", "blue", "two", "cats"]
    text = [" ".join(draw.choices(words, k=draw.randint(0, 4))) for _ in range(LINES)]
    source = write_lines(tmp_path / "in", text)
    flags = [
        f"--output_dir={tmp_path}/run",
        f"--decode_from_file={source}",
        f"--engine={engine}",
        "--decode_hparams=beam_size=2,extra_length=0",
        "--worker_gpu=0",
    ]
    run_command("t2t-decoder", *flags, f"--decode_to_file={tmp_path}/one")

    def shared(worker: int) -> list[str]:
        own = f"--decode_to_file={tmp_path}/out", f"--decode_shards={SHARDS}"
        return [*flags, *own, f"--worker_id={worker}"]

    killed = start("t2t-decoder", *shared(KILLED))
    journal = tmp_path / f"out00{KILLED}.part"
    while killed.poll() is None and not (journal.exists() and journal.stat().st_size > 50_000):
        time.sleep(0.005)
    assert killed.poll() is None, "the kill came too late"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / f"out00{KILLED}").exists()
    for worker in range(SHARDS):
        run_command("t2t-decoder", *shared(worker))
    parts = sorted(tmp_path.glob("out???"))
    assert len(parts) == SHARDS
    assert b"".join(path.read_bytes() for path in parts) == (tmp_path / "one").read_bytes()
