"""Keras's layers in a user's model, by the commands: R-Drop on a mixture, averages, a kill."""

import pathlib
import shutil
import textwrap
import time
from collections.abc import Callable, Iterator

import keras
import numpy as np
import pytest

from support import small_runs
from support.commands import printed_by, run_command
from support.usr_dirs import forgotten
from t2t_lite import usr_dirs
from t2t_lite.bin import t2t_avg_checkpoints, t2t_decoder, t2t_trainer
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.checkpoint_files import whole_checkpoints
from t2t_lite.runs.run_folder import RunFolder

pytestmark = pytest.mark.integration

OWN = """
    import keras

    import t2t_lite as t2t
    from t2t_lite.data.problem import DatasetSplit
    from t2t_lite.models.transformer import Transformer, TransformerDecoder
    from t2t_lite.problems.text2text_tmpdir import Text2textTmpdirBpe


    def dense():
        return keras.layers.Dense(16, kernel_initializer="orthogonal", bias_initializer="normal")


    class LayeredDecoder(TransformerDecoder):
        def make_layers(self):
            super().make_layers()
            self.alone = dense()
            self.listed = [dense(), keras.Sequential([dense(), keras.layers.Dropout(0.1)])]
            self.by_name = {"deep": {"last": dense()}}
            ids = keras.Input((None, 16))
            self.nested = keras.Model(ids, dense()(keras.layers.LayerNormalization()(ids)))

        def call(self, targets, memory=None, training=False, memory_mask=None):
            return self.above(super().call(targets, memory, training, memory_mask), training)

        def step(self, ids, step, state):
            x, state = super().step(ids, step, state)
            return self.above(x, training=False), state

        def above(self, x, training):
            x = self.listed[0](self.alone(x))
            x = self.listed[1](x, training=training)
            return self.nested(self.by_name["deep"]["last"](x))


    @t2t.register_model
    class LayeredTransformer(Transformer):
        decoder_class = LayeredDecoder


    @t2t.register_problem
    class SingleFiles(Text2textTmpdirBpe):
        dataset_splits = [
            {"split": DatasetSplit.TRAIN, "shards": 1},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]
"""
MIXTURE = "single_files:0.7+single_files_rev:0.3"
HPARAMS = (
    "batch_size=64,max_length=32,num_hidden_layers=1,hidden_size=16,filter_size=16,num_heads=2,"
    "layer_prepostprocess_dropout=0,attention_dropout=0,rdrop_alpha=1"
)
FIXED = "learning_rate_schedule=constant,learning_rate_constant=0"  # weights stay as they are


@pytest.fixture(scope="module")
def usr_dir(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("own") / "usr_own_layers"
    folder.mkdir()
    (folder / "__init__.py").write_text(textwrap.dedent(OWN))
    with forgotten():
        usr_dirs.import_usr_dir(str(folder))
        yield str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory, usr_dir) -> pathlib.Path:
    return small_runs.generate_pairs(tmp_path_factory.mktemp("made") / "made", MIXTURE, 60)


@pytest.fixture
def flags(usr_dir, data) -> Callable[..., list[str]]:
    """Returns a function that returns the flags of a training."""

    def of(output_dir: pathlib.Path, steps: int, hparams: str = "", *others: str) -> list[str]:
        return [
            f"--t2t_usr_dir={usr_dir}",
            f"--problem={MIXTURE}",
            "--model=layered_transformer",
            "--hparams_set=transformer_test",
            f"--hparams={HPARAMS},{hparams}",
            f"--data_dir={data}",
            f"--output_dir={output_dir}",
            f"--train_steps={steps}",
            "--schedule=train",
            "--local_eval_frequency=1",
            "--random_seed=17",
            *others,
        ]

    return of


def weights_in(model: Seq2Seq, run: RunFolder, checkpoint: str) -> list[np.ndarray]:
    """Returns the weights that decoding would have."""
    run.restore_weights(model, checkpoint)
    return [keras.ops.convert_to_numpy(weight).copy() for weight in model.trainable_weights]


def test_own_layers_are_trained_resumed_averaged_and_decoded(flags, eagerly, tmp_path, usr_dir):
    calm, resumed, warm = (tmp_path / name for name in ("calm", "resumed", "warm"))
    printed_by(t2t_trainer.main, *flags(calm, 2))
    run = RunFolder.open(str(calm))
    model = run.build_model()
    assert len(model.decoder.weights) - len(model.decoder.stack.weights) >= 12, "own ones"
    first, last = (weights_in(model, run, path) for path in whole_checkpoints(calm))
    assert not [one.shape for one, other in zip(first, last, strict=True) if np.all(one == other)]

    shutil.copytree(calm, resumed)  # as a kill leaves it after the first step
    for path in resumed.glob("model.ckpt-2.*"):
        path.unlink()
    printed_by(t2t_trainer.main, *flags(resumed, 2))
    small_runs.assert_equal_runs(calm, resumed)

    both = "--num_last_checkpoints=2"
    average = printed_by(t2t_avg_checkpoints.main, f"--output_dir={calm}", both).strip()
    mean = weights_in(model, run, average)
    for found, one, other in zip(mean, first, last, strict=True):
        np.testing.assert_allclose(found, (one + other) / 2, rtol=1e-6, atol=1e-8)

    printed_by(t2t_trainer.main, *flags(warm, 1, FIXED, f"--warm_start_from={average}"))
    for found, wanted in zip(weights_in(model, run, whole_checkpoints(warm)[0]), mean, strict=True):
        np.testing.assert_array_equal(found, wanted)

    (tmp_path / "in").write_text("1 and 7\n2 and 4\n")
    printed_by(
        t2t_decoder.main,
        f"--t2t_usr_dir={usr_dir}",
        f"--output_dir={calm}",
        f"--checkpoint_path={average}",
        "--decode_hparams=beam_size=2,extra_length=3",
        f"--decode_from_file={tmp_path / 'in'}",
        f"--decode_to_file={tmp_path / 'out'}",
    )
    assert (tmp_path / "out").read_text().count("\n") == 2


@pytest.mark.slow
def test_a_killed_training_of_own_layers_equals_an_undisturbed_one(flags, start, tmp_path):
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    run_command("t2t-trainer", *flags(calm, 40))
    for _ in range(3):
        before = len(whole_checkpoints(killed))
        process = start("t2t-trainer", *flags(killed, 40))
        while len(whole_checkpoints(killed)) == before:
            assert process.poll() is None, process.communicate()[0]  # otherwise it ended by itself
            time.sleep(0.01)
        process.kill()
        process.wait()
    run_command("t2t-trainer", *flags(killed, 40))
    small_runs.assert_equal_runs(calm, killed)
