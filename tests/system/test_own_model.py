"""A model of one's own with its hparams is one file; all commands then have it, in this process."""

import json
import pathlib
import textwrap
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from support.commands import exit_code, printed_by
from support.small_runs import generate_pairs
from support.usr_dirs import forgotten
from t2t_lite.bin import t2t_decoder, t2t_eval, t2t_exporter, t2t_insights, t2t_report, t2t_trainer

pytestmark = pytest.mark.integration

# The next token from the one before it and the mean of the source: as unlike a Transformer as a
# Seq2Seq can be. It has neither attention nor a cache.
OWN = """
    import dataclasses

    import keras
    from keras import ops

    import t2t_lite as t2t
    from t2t_lite.hparams.basic import BasicHParams
    from t2t_lite.layers.dense import Projection
    from t2t_lite.models.flops import ForwardFlops
    from t2t_lite.models.seq2seq import DecodeState, shift_right


    @dataclasses.dataclass
    class BagOfWordsHParams(BasicHParams):
        sharpness: float = 1.0


    @t2t.register_hparams
    def bag_of_words_tiny() -> BagOfWordsHParams:
        return BagOfWordsHParams(hidden_size=16, batch_size=64, max_length=16, batch_shuffle_size=0)


    @t2t.register_model
    class BagOfWords(t2t.Seq2Seq):
        hparams_class = BagOfWordsHParams

        def make_layers(self):
            size = self.hparams.hidden_size
            self.mix = Projection(size, [size])
            self.above = [keras.layers.Dense(size, bias_initializer="ones")]

        def _mean(self, inputs):
            present = ops.cast(inputs != 0, "float32")[..., None]  # [B, S, 1]
            total = ops.sum(self.inputs_embedding(inputs) * present, axis=1, keepdims=True)
            return total / ops.maximum(ops.sum(present, axis=1, keepdims=True), 1.0)  # [B, 1, D]

        def _mixed(self, previous, mean):
            return self.above[0](ops.tanh(self.hparams.sharpness * self.mix(previous + mean)))

        def hidden(self, features, training=False):
            previous = shift_right(self.targets_embedding(features["targets"]))
            return self._mixed(previous, self._mean(features["inputs"]))

        def start_decoding(self, inputs, beams, length):
            return DecodeState(self._mean(inputs), ops.zeros((ops.shape(inputs)[0], beams)))

        def grow(self, state, length):
            return state

        def decode_step(self, ids, step, state):
            hidden = self._mixed(self.targets_embedding.step(ids, step), state.sentence)
            return self.output_projection(hidden), state

        def forward_flops(self):
            size, vocabulary = self.hparams.hidden_size, self.targets_vocab_size
            return ForwardFlops(0.0, 2.0 * size * (size + vocabulary), 0.0, 0.0, 0.0)
"""


@pytest.fixture(scope="module")
def usr_dir(tmp_path_factory) -> Iterator[str]:
    """The user's folder of one file."""
    folder = tmp_path_factory.mktemp("own") / "usr_own_model"
    folder.mkdir()
    (folder / "__init__.py").write_text(textwrap.dedent(OWN))
    with forgotten():
        yield str(folder)


@pytest.fixture
def end(capsys, usr_dir):
    """Returns a function that runs a command to its end; returns exit code, output and errors."""

    def run(command, *flags: str) -> tuple[int, str, str]:
        return exit_code(command.main, f"--t2t_usr_dir={usr_dir}", *flags), *capsys.readouterr()

    return run


@pytest.fixture
def finish(usr_dir):
    """Returns a function that runs a command, which must succeed, and returns its output."""
    return lambda command, *flags: printed_by(command.main, f"--t2t_usr_dir={usr_dir}", *flags)


def test_one_file_is_enough(finish, end, eagerly, few_shards, tmp_path):
    data, run = generate_pairs(tmp_path / "made", "text2text_tmpdir", 60), tmp_path / "run"
    finish(
        t2t_trainer,
        "--problem=text2text_tmpdir",
        "--model=bag_of_words",
        "--hparams_set=bag_of_words_tiny",
        "--hparams=sharpness=1.5",
        f"--data_dir={data}",
        f"--output_dir={run}",
        "--train_steps=4",
        "--local_eval_frequency=2",
        "--decode_hparams=beam_size=2,extra_length=3",
    )
    records = [json.loads(line) for line in (run / "metrics.jsonl").open(encoding="utf-8")]
    assert [r["step"] for r in records if r["kind"] == "eval" and "bleu" in r] == [2, 4]
    assert json.loads((run / "hparams.json").read_text())["sharpness"] == 1.5
    summary = json.loads((run / "summary.json").read_text())
    assert summary["flops_by_count"] > 0
    values = [tf.train.load_checkpoint(run / f"model.ckpt-{step}") for step in (2, 4)]
    for name in ("_kernel", "bias"):  # of the layer that Keras gives its weights when it is called
        key = f"model/above..0..{name}/.ATTRIBUTES/VARIABLE_VALUE"
        assert np.any(values[0].get_tensor(key) != values[1].get_tensor(key))

    (tmp_path / "in").write_text("1 and 7\n2 and 4\n")
    run_flag, small = f"--output_dir={run}", "--decode_hparams=beam_size=2,extra_length=3"
    to_file = f"--decode_to_file={tmp_path / 'out'}"
    finish(t2t_decoder, run_flag, small, f"--decode_from_file={tmp_path / 'in'}", to_file)
    assert len((tmp_path / "out").read_text().split("\n")) == 3
    (scored,) = json.loads(finish(t2t_eval, run_flag, small, "--output_format=json"))["checkpoints"]
    assert scored["step"] == 4
    assert pathlib.Path(finish(t2t_report, f"--output_dir={run}").strip()).stat().st_size > 1000
    tf.config.run_functions_eagerly(False)  # an export is a traced function
    for kind in ("savedmodel", "keras"):
        finish(t2t_exporter, run_flag, f"--format={kind}", f"--export_dir={tmp_path / kind}")
        assert any((tmp_path / kind).rglob("*.keras" if kind == "keras" else "saved_model.pb"))

    for command, flags, reason in (
        (
            t2t_exporter,
            ["--format=ctranslate2", f"--export_dir={tmp_path / 'c'}"],
            "Transformer",
        ),
        (t2t_insights, ["--text=1 and 7"], "no attention"),
    ):
        code, _, errors = end(command, run_flag, *flags)
        assert code == 1
        last = errors.splitlines()[-1]
        assert ": error: " in last
        assert reason in last
