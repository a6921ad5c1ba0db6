"""A command that is killed again and again at random, then run once more, leaves what it should.

No half file and none of another name is left, and what is made equals that of an undisturbed run.
"""

import contextlib
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from support import small_runs
from support.commands import command_line, environment, run_command

pytestmark = pytest.mark.slow

KILLS = 20
PROBLEM = "--problem=text2text_tmpdir_bpe"
HPARAMS = "batch_size=256,max_length=32,num_hidden_layers=1,learning_rate_warmup_steps=10"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> pathlib.Path:
    """Text of 4,000 pairs, their data, and the run folder of another model."""
    folder = tmp_path_factory.mktemp("made")
    draw = random.Random(5)
    lines = [" ".join(f"word{draw.randrange(500)}" for _ in range(9)) for _ in range(4000)]
    for side in ("inputs", "targets"):
        folder.joinpath(f"{side}.train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_command("t2t-datagen", PROBLEM, f"--tmp_dir={folder}", f"--data_dir={folder}/data")
    sizes = {"hidden_size": 8, "filter_size": 8, "num_heads": 2, "num_hidden_layers": 1}
    small_runs.noisy_run(folder / "run", **sizes)
    return folder


COMMANDS = {
    "t2t-datagen": [PROBLEM, "--tmp_dir={made}", "--data_dir={out}", "--num_workers=2"],
    "t2t-trainer": [
        *(PROBLEM, "--data_dir={made}/data", "--output_dir={out}", "--model=transformer"),
        *("--hparams_set=transformer_test", f"--hparams={HPARAMS}", "--train_steps=120"),
        *("--local_eval_frequency=20", "--eval_steps=2", "--random_seed=3"),
        "--decode_hparams=beam_size=1,extra_length=2",
    ],
    "t2t-decoder": [
        *("--output_dir={made}/run", "--decode_from_file={made}/inputs.train.txt"),
        *("--decode_to_file={out}/out.txt", "--decode_hparams=beam_size=2,extra_length=9"),
    ],
    "t2t-exporter": [
        *("--output_dir={made}/run", "--export_dir={out}", "--format=ctranslate2"),
        "--checkpoint_path={made}/run/model.ckpt-7",
    ],
}


def files(folder: pathlib.Path) -> dict[str, str]:
    """Returns the digest of each file, by its path in the folder; TensorBoard's hold times."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("events.out")
    }


def kill_after(seconds: float, words: list[str], log: pathlib.Path) -> bool:
    """Runs a command no longer than this; returns whether it was killed."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            words, env=environment(), stdout=errors, stderr=errors, start_new_session=True
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert process.wait(seconds) == 0, log.read_text()
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random(name, made, tmp_path):
    draw = random.Random()
    words = {
        out: command_line(name, *(w.format(made=made, out=tmp_path / out) for w in COMMANDS[name]))
        for out in ("calm", "killed")
    }
    before = files(made / "run")
    began = time.monotonic()
    assert not kill_after(600, words["calm"], tmp_path / "log")
    longest = time.monotonic() - began
    kills = half = ended = 0
    while kills < KILLS:
        if kill_after(draw.uniform(0, 0.9 * longest), words["killed"], tmp_path / "log"):
            kills += 1
            half += any(".incomplete" in path for path in files(tmp_path))
        else:
            ended += 1
            assert_equal(name, tmp_path)
            shutil.rmtree(tmp_path / "killed")
    assert not kill_after(600, words["killed"], tmp_path / "log")
    assert_equal(name, tmp_path)
    assert files(made / "run") == before
    print(f"{name}: {kills} kills, {half} of which left half files, in {ended + 1} folders")


def assert_equal(name: str, folder: pathlib.Path) -> None:
    """Compares what an undisturbed run made with what a killed one did."""
    calm, killed = (files(folder / run) for run in ("calm", "killed"))
    if name == "t2t-exporter":  # what was complete before a kill stays as a version
        calm, killed = ({path.split("/", 2)[2]: d for path, d in f.items()} for f in (calm, killed))
    if name == "t2t-trainer":  # whose files hold times, too
        small_runs.assert_equal_runs(folder / "calm", folder / "killed")
        calm, killed = (dict.fromkeys(found, "") for found in (calm, killed))
    assert killed == calm
