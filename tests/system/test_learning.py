"""Models that learn must copy and reverse; with a fresh seed each run, through the commands."""

import pathlib
import random
import textwrap
from collections.abc import Iterator

import pytest

from support.commands import printed_by
from support.usr_dirs import forgotten
from t2t_lite.bin import t2t_decoder, t2t_trainer

pytestmark = pytest.mark.integration

SYMBOLS, LONGEST = 12, 8

PROBLEMS = f'''
"""A user's folder: T2T's algorithmic tasks, short enough to be learned in a minute."""

import random

from t2t_lite import registry
from t2t_lite.problems import algorithmic


class Short:
    num_symbols = {SYMBOLS}
    train_length = dev_length = {LONGEST}
    train_size = 20_000
    dev_size = 50


@registry.register_problem
class CopyShort(Short, algorithmic.AlgorithmicIdentityDecimal40):
    pass


@registry.register_problem
class ReverseShort(Short, algorithmic.AlgorithmicReverseDecimal40):
    pass
'''

HPARAMS = (
    "hidden_size=64,batch_shuffle_size=8,max_length=16,"
    "learning_rate_schedule=constant*linear_warmup*rsqrt_normalized_decay,"
    "learning_rate_constant=0.004,learning_rate_warmup_steps=100,"
)
TRANSFORMER = (
    "num_hidden_layers=1,filter_size=128,num_heads=4,"
    "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
)
ADAPTIVE = f"{TRANSFORMER},act_max_steps=3"
RECURRENT = "num_hidden_layers=1,dropout=0"
DEEP_ATT = (
    "num_encoder_layers=1,num_decoder_layers=1,dropout=0,"
    "lstm_size=64,fast_forward_size=128,attention_size=96"
)
# By any name: a registered model, a set of its hparams, and what makes it small.
KINDS = {
    "transformer": ("transformer", "transformer_tiny", TRANSFORMER),
    "moe": ("transformer", "transformer_moe_multi30k", TRANSFORMER),
    "universal": ("universal_transformer", "universal_transformer_multi30k", TRANSFORMER),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_multi30k", ADAPTIVE),
    "evolved": ("evolved_transformer", "evolved_transformer_multi30k", TRANSFORMER),
    # A whole sentence has to fit into its state.
    "lstm": ("lstm_seq2seq", "lstm_multi30k", "num_hidden_layers=2,dropout=0"),
    "lstm_both_ways": ("lstm_seq2seq_bidirectional_encoder", "lstm_multi30k", RECURRENT),
    "lstm_attention": ("lstm_seq2seq_attention", "lstm_multi30k", RECURRENT),
    "lstm_attention_both_ways": (
        "lstm_seq2seq_attention_bidirectional_encoder",
        "lstm_multi30k",
        RECURRENT,
    ),
    "moe_lstm": ("moe_lstm", "moe_lstm_multi30k", "dropout=0,lstm_cells=128,moe_hidden_sizes=64"),
    "gnmt": ("gnmt", "gnmt_multi30k", "num_hidden_layers=2,dropout=0"),
    "deep_att": ("deep_att", "deep_att_multi30k", DEEP_ATT),
    "conv_s2s": (
        "conv_s2s",
        "conv_s2s_multi30k",
        "dropout=0,encoder_layers=64x3*2,decoder_layers=64x3*2",
    ),
    # Kernels that reach the other end.
    "byte_net": (
        "byte_net",
        "bytenet_multi30k",
        "dropout=0,residual_block=chain,num_hidden_layers=1,kernel_height=17,num_block_repeat=7",
    ),
    "neural_gpu": ("neural_gpu", "neural_gpu", "dropout=0"),
    "extended_neural_gpu": (
        "extended_neural_gpu",
        "extended_neural_gpu_multi30k",
        "dropout=0,tape_ratio=1,tape_extra=1",
    ),
}
# For the integration tests: right on every line after 400 updates of a large batch, and on 299 of
# 300 or all after 600 of a small one. The others take up to three minutes each.
_QUICK = ("transformer", "copy")
# By whether it is that: a batch, and updates.
_SIZES = {True: (512, 600), False: (1024, 1500)}


@pytest.fixture
def usr_dir(tmp_path) -> Iterator[pathlib.Path]:
    """The user's folder."""
    folder = tmp_path / "short_problems"
    folder.mkdir()
    (folder / "__init__.py").write_text(textwrap.dedent(PROBLEMS), encoding="utf-8")
    with forgotten():
        yield folder


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        pytest.param(kind, problem, marks=() if (kind, problem) == _QUICK else pytest.mark.slow)
        for kind in KINDS
        for problem in ("copy", "reverse")
    ],
)
def test_learns(kind, problem, usr_dir, tmp_path):
    model, hparams_set, hparams = KINDS[kind]
    solve = {"copy": list, "reverse": reversed}[problem]
    batch_size, steps = _SIZES[(kind, problem) == _QUICK]
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    printed_by(
        t2t_trainer.main,
        "--generate_data",
        f"--t2t_usr_dir={usr_dir}",
        f"--problem={problem}_short",
        f"--model={model}",
        f"--hparams_set={hparams_set}",
        f"--hparams=batch_size={batch_size},{HPARAMS}{hparams}",
        f"--data_dir={tmp_path / 'data'}",
        f"--tmp_dir={tmp_path}",
        f"--output_dir={tmp_path / 'run'}",
        f"--train_steps={steps}",
        "--schedule=train",
        f"--random_seed={seed}",
    )
    draw = random.Random(seed)
    lines = [
        [str(draw.randrange(SYMBOLS)) for _ in range(draw.randint(1, LONGEST))] for _ in range(300)
    ]
    source, output = tmp_path / "source.txt", tmp_path / "output.txt"
    source.write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
    printed_by(
        t2t_decoder.main,
        f"--t2t_usr_dir={usr_dir}",
        f"--output_dir={tmp_path / 'run'}",
        f"--decode_from_file={source}",
        f"--decode_to_file={output}",
        "--decode_hparams=beam_size=4,alpha=0.6,extra_length=5",
    )
    outputs = output.read_text(encoding="utf-8").split("\n")[:-1]
    assert len(outputs) == len(lines)
    right = sum(out == " ".join(solve(line)) for out, line in zip(outputs, lines, strict=True))
    assert right >= 0.98 * len(lines), f"{right} of {len(lines)} lines right (seed {seed})"
