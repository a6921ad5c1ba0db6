"""A run that is killed and started again ends bit for bit where an undisturbed one does."""

import random
import signal
import time

import pytest
import tensorflow as tf

from support import small_runs
from support.commands import printed_by
from support.parts import optimize_graphs
from t2t_lite.bin import t2t_trainer

pytestmark = pytest.mark.integration

PAIRS = 400
KILL, TERM, SLOW = signal.SIGKILL, signal.SIGTERM, pytest.mark.slow
EXIT_CODES = {KILL: -KILL, TERM: 75}
WITH_EVALUATION = "continuous_train_and_eval"
UNFINISHED = "model.ckpt-*.incomplete"  # folder of a checkpoint's files, before they are renamed
HPARAMS = (
    "batch_size=256,batch_shuffle_size=4,max_length=32,num_hidden_layers=1,"
    "learning_rate_warmup_steps=10"
)
EVERY_FEATURE = (
    "optimizer_multistep_accumulate_steps=2,ema_decay=0.9,dtype=bfloat16,loss_chunk_tokens=32,"
    "recompute_activations=true,decoder_self=ssru"
)
AS_IMPORTED = (
    "attention_bias=true,ffn_activation=swish,pos=timing_paper,position_offset=2,start_id=1,"
    "layer_final_sequence=none,softmax_bias=true,softmax_padding=false,suppressed_ids=2"
)
# That between the layers: each step draws its masks.
ONE_DROPOUT = "attention_dropout=0,relu_dropout=0"
# Segmentations of every epoch; masks and dropped symbols of every pass, of which there are two.
DRAWN_ANEW = "bpe_dropout=0.2,rdrop_alpha=5,symbol_dropout=0.1"
CUT = "simcut_alpha=3,symbol_dropout=0.1,optimizer_multistep_accumulate_steps=2,decoder_self=ssru"
MIXED = "bpe_dropout=0.2,mixture_annealing_steps=200"
# The pairs' targets are plain text as well.
MIXTURE = (
    "text2text_tmpdir_bpe:0.5..0.7+text2text_tmpdir_bpe_rev:0.3..0.1+"
    "text2self_tmpdir_bpe:0.1..0.1+text2self_tmpdir_bpe_denoise:0.1..0.1"
)


@pytest.fixture(scope="module")
def data_dir(few_shards, tmp_path_factory):
    """Data of a copy task, made by t2t-datagen's own code."""
    from t2t_lite import registry
    from t2t_lite.data.generation.generator import generate_data

    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(5)
    for split, count in (("train", PAIRS), ("eval", 20)):
        lines = [
            " ".join(draw.choices(["red", "green", "blue", "two", "cats"], k=draw.randint(1, 9)))
            for _ in range(count)
        ]
        for side in ("inputs", "targets"):
            (folder / f"{side}.{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = tmp_path_factory.mktemp("data")
    for problem in ("text2text_tmpdir", "text2text_tmpdir_bpe", MIXTURE):
        generate_data(registry.problem(problem), str(data), str(folder))
    return data


@pytest.fixture
def train(request, monkeypatch):
    """Returns a function that trains to the end in this process, with graphs as in others."""
    # The CPU is split already.
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", lambda *_: None)
    optimize_graphs(True)
    yield lambda flags: printed_by(t2t_trainer.main, *flags)
    optimize_graphs(not request.config.getoption("as_traced"))


def trainer_flags(
    data_dir, output_dir, devices: int, steps: int, schedule: str, features: str = ""
) -> list[str]:
    problem = f"text2text_tmpdir{'_bpe' if 'bpe' in features else ''}"
    return [
        f"--problem={MIXTURE if features == MIXED else problem}",
        "--model=transformer",
        "--hparams_set=transformer_test",
        f"--hparams={HPARAMS},{features}",
        f"--data_dir={data_dir}",
        f"--output_dir={output_dir}",
        f"--train_steps={steps}",
        f"--schedule={schedule}",
        "--local_eval_frequency=5",
        "--eval_steps=2",
        "--decode_hparams=beam_size=1,extra_length=2",
        "--log_step_count_steps=4",
        "--random_seed=17",
        f"--simulate_devices={devices}",
    ]


def run_with_kills(
    start, flags, output_dir, kills: int, number: signal.Signals, draw: random.Random
) -> int:
    """Starts the trainer again and again, sending it a signal `kills` times while it trains.

    Every second time, it waits for a checkpoint that is being written.

    Returns:
        How many of the kills left a half-written checkpoint.
    """
    torn = 0
    for kill in range(kills):
        began = time.time()
        process = start("t2t-trainer", *flags)
        wait_for_progress(process, output_dir)
        time.sleep(draw.uniform(0.0, 2.0 if kills > 1 else 0.2))  # one kill: in few steps
        if kill % 2:
            wait_for_checkpoint(process, output_dir)
        while kills == 1 and process.poll() is None and not list(output_dir.glob("*.index")):
            time.sleep(0.01)  # without a checkpoint, it would begin anew
        assert process.poll() is None, process.communicate()[0]  # otherwise it ended by itself
        process.send_signal(number)
        output, _ = process.communicate()
        assert process.returncode == EXIT_CODES[number], output
        torn += any(path.stat().st_mtime > began for path in output_dir.glob(UNFINISHED))
    return torn


def wait_for_checkpoint(process, output_dir) -> None:
    """Waits until a checkpoint is being written."""
    there = set(output_dir.glob(UNFINISHED))
    while process.poll() is None and not set(output_dir.glob(UNFINISHED)) - there:
        pass


def wait_for_progress(process, output_dir) -> None:
    """Waits until the run has written something new."""
    metrics = output_dir / "metrics.jsonl"

    def written() -> tuple[float, int]:
        return (metrics.stat().st_mtime, metrics.stat().st_size) if metrics.exists() else (0, 0)

    before = written()
    while process.poll() is None:
        now = written()
        # The file is rewritten at the start, without growing.
        if now[1] > before[1]:
            break
        before = min(before, now, key=lambda state: state[1])
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("devices", "steps", "kills", "schedule", "number", "features"),
    [
        pytest.param(2, 40, 1, "train", KILL, ONE_DROPOUT, id="once"),
        pytest.param(1, 600, 20, WITH_EVALUATION, KILL, "", id="20-times-1-device", marks=SLOW),
        pytest.param(4, 1500, 20, "train", KILL, "", id="20-times-4-devices", marks=SLOW),
        pytest.param(1, 4000, 20, "train", KILL, DRAWN_ANEW, id="20-times-drawn-anew", marks=SLOW),
        pytest.param(2, 40, 1, "train", KILL, CUT, id="cut", marks=SLOW),
        pytest.param(2, 40, 1, "train", KILL, AS_IMPORTED, id="as-imported", marks=SLOW),
        pytest.param(2, 300, 5, WITH_EVALUATION, KILL, MIXED, id="mixture", marks=SLOW),
        pytest.param(1, 600, 10, WITH_EVALUATION, TERM, "", id="pre-empted-10-times", marks=SLOW),
        pytest.param(
            *(2, 300, 5, WITH_EVALUATION, KILL, EVERY_FEATURE),
            id="every-feature",
            marks=[SLOW, pytest.mark.bfloat16],
        ),
    ],
)
def test_killed_run_equals_an_undisturbed_one(
    devices,
    steps,
    kills,
    schedule,
    number,
    features,
    start,
    train,
    data_dir,
    usr_few_shards,
    tmp_path,
):
    draw = random.Random()
    few, settings = f"--t2t_usr_dir={usr_few_shards}", (devices, steps, schedule, features)
    flags = {
        name: [few, *trainer_flags(data_dir, tmp_path / name, *settings)]
        for name in ("calm", "killed")
    }
    train(flags["calm"])
    torn = run_with_kills(start, flags["killed"], tmp_path / "killed", kills, number, draw)
    train(flags["killed"])
    assert torn >= 3 or kills < 20, f"only {torn} kills met a checkpoint being written"
    small_runs.assert_equal_runs(tmp_path / "calm", tmp_path / "killed")
