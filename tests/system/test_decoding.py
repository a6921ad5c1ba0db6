"""t2t-decoder on what comes its way: hostile lines, and kills."""

import random
import subprocess
import sys
import time

import pytest

from support.commands import run_command

pytestmark = pytest.mark.slow

_MAKE_RUN = """
import sys, tensorflow as tf
from t2t_lite import registry
from t2t_lite.runs import run_creation
from t2t_lite.runs.run_settings import RunSettings
folder = sys.argv[1]
flags = {"output_dir": folder, "data_dir": folder, "problem": "translate_ende_wmt_characters"}
flags |= {"model": "transformer", "hparams_set": "transformer_test"}
hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1, max_length=60)
run = run_creation.create_run(RunSettings.of(flags), hparams, folder)
step = tf.Variable(1, dtype=tf.int64)
tf.train.Checkpoint(model=run.build_model(), step=step).write(f"{folder}/model.ckpt-1")
"""


@pytest.fixture
def search(tmp_path) -> list[str]:
    """The flags for an untrained model of bytes."""
    folder = str(tmp_path / "run")
    subprocess.run([sys.executable, "-c", _MAKE_RUN, folder], check=True)
    return [f"--output_dir={folder}", "--decode_hparams=beam_size=2,extra_length=3"]


def hostile_lines(count: int) -> list[str]:
    draw = random.Random(0)
    alphabets = [
        "ab. ",
        "\x00\r\t \x1c\x85",
        "\u2028\u2029\ufeff\xa0",
        "日本語。",
        "e\u0301\u200d😀",
    ]
    lines = ["", " ", "x" * 50_000, "\u2028", "\r"]
    while len(lines) < count:
        size = draw.choice([0, 1, 5, 20, 50, 100])
        alphabet = draw.choice([*alphabets, ""])
        codes = (
            draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])
            for _ in range(size)
        )
        text = "".join(draw.choices(alphabet, k=size)) if alphabet else "".join(map(chr, codes))
        lines.append(text.replace("\n", ""))
    return lines


def test_10_000_hostile_lines(search, tmp_path):
    lines = hostile_lines(10_000)
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in lines).encode())
    out = tmp_path / "out"
    run_command(
        "t2t-decoder", *search, f"--decode_from_file={tmp_path}/in", f"--decode_to_file={out}"
    )
    outputs = out.read_bytes().decode().split("\n")
    assert len(outputs) == 10_000 + 1
    for line, output in zip(lines, outputs, strict=False):
        assert output == "" or line.strip()


def test_killed_and_resumed_the_file_is_the_same(start, search, tmp_path):
    lines = hostile_lines(2_000)
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in lines).encode())
    flags = [*search, f"--decode_from_file={tmp_path}/in"]
    run_command("t2t-decoder", *flags, f"--decode_to_file={tmp_path}/undisturbed")
    out, part = tmp_path / "out", tmp_path / "out.part"
    killed = start("t2t-decoder", *flags, f"--decode_to_file={out}")
    while not part.exists() or part.read_bytes().count(b"\n") < 10:  # batches
        assert killed.poll() is None
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    assert not out.exists()
    run_command("t2t-decoder", *flags, f"--decode_to_file={out}")
    assert out.read_bytes() == (tmp_path / "undisturbed").read_bytes()
    assert not part.exists()
