import functools
import logging

import numpy as np
import pytest
import tensorflow as tf

from support.training_steps import make_step
from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.text.text_encoder import ByteTextEncoder
from t2t_lite.training.skipped_steps import SkippedSteps
from t2t_lite.training.step import TrainStep

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("eagerly")]


def batch_of(encoder: ByteTextEncoder, *lines: str) -> dict[str, tf.Tensor]:
    """Sources and targets [1, B, L] of the same lines."""
    ids = [encoder.encode(line) for line in lines]
    longest = max(map(len, ids))
    rows = tf.constant([[row + [0] * (longest - len(row)) for row in ids]], tf.int32)
    return {"inputs": rows, "targets": rows}


@pytest.fixture
def step() -> TrainStep:
    hparams = registry.hparams("transformer_test").copy(
        num_hidden_layers=1, shared_embedding_and_softmax_weights=False
    )
    make = functools.partial(
        registry.model("transformer"), hparams, *[ByteTextEncoder().vocab_size] * 2
    )
    return make_step(tf.distribute.get_strategy(), 1, make)


def poison(step: TrainStep, ids: list[int]) -> None:
    """Makes the embeddings of some subwords NaN."""
    for embedding in (step.model.inputs_embedding, step.model.targets_embedding):
        matrix = embedding.matrix.numpy()
        matrix[ids] = np.nan
        embedding.matrix.assign(matrix)


def own_lines(caplog) -> str:
    """What t2t_lite logged: TensorFlow may warn of functions that are traced often."""
    own = [record for record in caplog.records if record.name.startswith("t2t_lite")]
    return "".join(record.getMessage() for record in own)


def test_the_lines_at_fault_are_named_and_ten_in_a_row_end_the_run(step, caplog, monkeypatch):
    encoder = ByteTextEncoder()
    skipped = SkippedSteps(step, {"inputs": encoder, "targets": encoder})
    batch = batch_of(encoder, "fine", "a bad one: é", "fine as well", "é")
    with caplog.at_level(logging.WARNING):
        skipped.check(step(batch, 0), batch, 0)
    assert not own_lines(caplog), "nothing is wrong yet"
    poison(step, encoder.encode("é")[:-1])
    with caplog.at_level(logging.WARNING):
        skipped.check(step(batch, 1), batch, 1)
    assert "step 1 skipped" in caplog.text
    assert "2 of 4 sentences" in caplog.text
    assert "'a bad one: é' -> 'a bad one: é'; 'é' -> 'é'" in caplog.text
    assert "fine" not in own_lines(caplog)
    good = batch_of(encoder, "fine")
    skipped.check(step(good, 10), good, 10)  # the row is broken
    monkeypatch.setattr(skipped, "_cause", lambda *_: "looked for above")
    for number in range(11, 20):
        skipped.check(tf.constant(False), good, number)
    with pytest.raises(UserError, match=r"10 steps in a row .* up to step 20: .*learning rate"):
        skipped.check(tf.constant(False), good, 20)


def test_an_overflow_of_the_gradient_alone_names_no_line(step, caplog):
    encoder = ByteTextEncoder()
    batch = batch_of(encoder, "fine")
    SkippedSteps(step, {}).check(tf.constant(False), batch, 7)
    assert "all losses are finite, so the gradient overflowed in the backward pass" in caplog.text
