"""Training with the hparam `frozen`."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from support.limits import strategy_over
from support.marks import by_name
from support.model_kinds import with_noise
from support.rounding import assert_close
from support.terms import forward_terms, step_terms
from support.training_steps import VOCAB, ragged_batches
from t2t_lite import registry
from t2t_lite.models.frozen_weights import frozen_summary, parts_of
from t2t_lite.runs import averaging, checkpoint_files
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.training import trainer
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.step import TrainStep

pytestmark = pytest.mark.integration

FROZEN = ("embeddings", "encoder")
HPARAMS = f"frozen={'+'.join(FROZEN)},ema_decay=0.9,batch_shuffle_size=2"
PARTS = 2
OPTIMIZERS = ("adam", "adam_w", "adafactor", "momentum", "sgd")


def config(data_dir, output_dir, steps: int, **changes):
    return small_runs.make_config(data_dir, output_dir, HPARAMS, train_steps=steps, **changes)


@pytest.fixture(scope="module")
def source(data_dir, tmp_path_factory) -> pathlib.Path:
    """A run of noise, whose weights the others start from."""
    folder = tmp_path_factory.mktemp("source")
    names = {"problem": "text2text_tmpdir", "overrides": small_runs.HPARAMS}
    run = small_runs.make_run(folder, data_dir=data_dir, **names)
    small_runs.save_weights(folder, with_noise(run.build_model(), scale=0.5))
    return folder


@pytest.fixture(scope="module")
def run(data_dir, source, tmp_path_factory) -> RunFolder:
    """A run after four steps with frozen parts."""
    folder = tmp_path_factory.mktemp("run")
    trainer.run(config(data_dir, folder, 4, schedule="train", warm_start_from=str(source)))
    return RunFolder.open(str(folder))


def assert_frozen(model, source) -> None:
    """Frozen weights are those of the source to the bit, and others are not."""
    before = RunFolder.open(str(source)).load_model().model
    there = parts_of(before)
    for part, weights in parts_of(model).items():
        equal = [np.array_equal(*pair) for pair in zip(weights, there[part], strict=True)]
        assert all(equal) if part in FROZEN else not any(equal), part


def test_frozen_weights_stay_to_the_bit(run, source):
    assert_frozen(run.load_model().model, source)
    assert_frozen(run.load_model(checkpoint_files.checkpoints(run.folder)[0]).model, source)


def test_an_average_of_checkpoints_keeps_them(run, source, tmp_path):
    paths = checkpoint_files.checkpoints(run.folder)
    average = averaging.average(run, paths, f"{tmp_path}/averaged.ckpt")
    assert_frozen(run.load_model(average).model, source)


@pytest.mark.slow
def test_a_resumed_run_ends_where_an_undisturbed_one_does(run, source, data_dir, tmp_path, caplog):
    caplog.set_level("INFO")
    for steps in (2, 4):
        trainer.run(
            config(data_dir, tmp_path, steps, schedule="train", warm_start_from=str(source))
        )
    assert caplog.messages.count(frozen_summary(run.build_model())) == 2
    small_runs.assert_equal_runs(run.folder, tmp_path)


def train(devices: int, optimizer: str = "sgd") -> tuple[TrainStep, dict[str, np.ndarray]]:
    """Takes two steps; returns how far each part has moved."""
    hparams = registry.hparams("transformer_test").override(
        f"frozen=encoder,optimizer={optimizer},learning_rate_schedule=constant,"
        "learning_rate_constant=0.1,num_hidden_layers=1"
    )
    keras.utils.set_random_seed(3)
    strategy = strategy_over(devices)
    with strategy.scope():
        model = registry.model("transformer")(hparams, VOCAB, VOCAB)
        made = make_optimizer(hparams)
        made.build(model.trainable_variables)
    batches = ragged_batches(2, PARTS)
    step = TrainStep(strategy, model, made, batches[0]["inputs"].shape[0], seed=11)
    before = values(model)
    for number, features in enumerate(batches):
        step(features, number)
    return step, {part: value - before[part] for part, value in values(model).items()}


def values(model) -> dict[str, np.ndarray]:
    return {
        part: np.concatenate([np.asarray(tf.reshape(weight.numpy(), -1)) for weight in weights])
        for part, weights in parts_of(model).items()
        if weights
    }


@pytest.mark.usefixtures("eagerly")
def test_two_devices_equal_one():
    (step, one), (_, two) = train(1), train(2)
    batch = ragged_batches(1, PARTS)[0]
    terms = 2 * step_terms(
        forward_terms(step.hparams, 7, VOCAB), np.count_nonzero(batch["targets"])
    )
    scale = max(np.abs(value).max() for value in values(step.model).values())
    assert not one["encoder"].any()
    assert not two["encoder"].any()
    for part in ("embeddings", "decoder"):
        assert np.abs(one[part]).max() > 0.01, part
        assert_close(two[part], one[part], terms, scale=scale)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("optimizer", ["adam", *by_name(*OPTIMIZERS[1:])])
def test_no_optimizer_moves_them_or_keeps_slots_for_them(optimizer):
    step, moved = train(1, optimizer)
    assert not moved["encoder"].any()
    assert moved["decoder"].any()
    assert moved["embeddings"].any()
    whole = make_optimizer(step.hparams)
    whole.build(step.model.weights)
    assert len(step.optimizer.variables) <= len(whole.variables)
