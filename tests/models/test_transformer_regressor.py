"""The Transformer's encoder as a regressor."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.model_kinds import make_model, make_untrained, model_of
from support.rounding import assert_close
from support.terms import terms_of
from support.training_steps import make_step, weights_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.transformer_regressor import TransformerRegressor, numbers_in
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search
from t2t_lite.text.number_encoder import NumberEncoder, number_id
from t2t_lite.training.objectives import objective_of

KIND = "regressor"
COUNT = 2
GREEDY = DecodeHParams(beam_size=1)


@pytest.fixture
def model():
    return model_of(KIND, targets_vocab_size=COUNT + 2)


def numbers_of(model, inputs):
    """The definition: mean over real positions, a linear layer."""
    encoded = np.float64(model.encoder(inputs))
    means = [row[: np.count_nonzero(ids)].mean(0) for row, ids in zip(encoded, inputs, strict=True)]
    kernel, bias = (np.float64(weight) for weight in model.class_projection.trainable_variables)
    return np.stack(means) @ kernel + bias


def targets_of(*rows):
    return np.array([[*map(number_id, row), 1] for row in rows], np.int64).astype(np.int32)


def test_number_n_is_the_logit_of_id_n_at_its_position_then_eos(model, features):
    logits = ops.convert_to_numpy(model(features))
    wanted = numbers_of(model, features["inputs"])
    possible = logits > EXCLUDED
    assert possible.sum() == possible.shape[0] * possible.shape[1]
    for n in range(COUNT):
        assert_close(logits[:, n, 2 + n], wanted[:, n], terms_of(model, 7))
    assert (logits[:, COUNT:, 1] == 0).all()
    assert_close(ops.convert_to_numpy(numbers_in(model(features))), wanted, terms_of(model, 7))


def test_the_search_gives_numbers_that_do_not_depend_on_the_batch(model, features):
    encoders = {"targets": NumberEncoder(COUNT)}
    search = make_search(model, encoders, GREEDY)
    ids, scores = search(features["inputs"], [3, 3, 3])
    assert ids.shape == (3, 1, COUNT + 1)
    assert (ids[:, 0, -1] == 1).all()
    assert not scores.any()
    found = [[*map(float, encoders["targets"].decode(row[0]).split())] for row in ids]
    wanted = numbers_of(model, features["inputs"])
    assert_close(np.array(found), wanted, terms_of(model, 7))
    for i in range(3):
        length = np.count_nonzero(features["inputs"][i])
        alone, _ = search(features["inputs"][i : i + 1, :length], 3)
        text = encoders["targets"].decode(alone[0, 0])
        assert_close(np.array([*map(float, text.split())]), wanted[i], terms_of(model, 7))


@pytest.mark.integration
def test_an_ensemble_gives_means(model, features):
    other = make_model(KIND, targets_vocab_size=COUNT + 2, num_heads=4)
    encoder = NumberEncoder(COUNT)
    search = make_search(Ensemble([model, other]), {"targets": encoder}, GREEDY)
    ids, _ = search(features["inputs"], 3)
    found = [[*map(float, encoder.decode(row[0]).split())] for row in ids]
    wanted = sum(numbers_of(one, features["inputs"]) for one in (model, other)) / 2
    assert_close(np.array(found), wanted, terms_of(model, 7))


def test_nan_is_no_output_but_a_score_that_says_so(features):
    model = make_model(KIND, targets_vocab_size=COUNT + 2)
    model.class_projection.bias.assign([np.nan, 0.0])
    _, scores = make_search(model, {"targets": NumberEncoder(COUNT)}, GREEDY)(features["inputs"], 3)
    assert np.isnan(scores).all()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"beam_size": 4}, "beam_size=4"),
        ({"sampling_method": "random"}, "sampling_method=random"),
        ({"min_length": 2}, "min_length=2"),
        ({"force_decode_length": True}, "force_decode_length=True"),
    ],
)
def test_what_belongs_to_a_search_is_refused(model, change, name):
    with pytest.raises(UsageError, match=f"decode hparam {name}: numbers are computed"):
        make_search(model, {"targets": NumberEncoder(COUNT)}, GREEDY.copy(**change))


def test_the_loss_is_the_mean_squared_error_of_numbers(model, features):
    """Whatever padding there is: it has none, and slopes of 0."""
    targets = targets_of([0.5, -1.0], [2.0, 3.0], [0.0, 0.25])
    targets = np.pad(targets, [(0, 1), (0, 0)])
    inputs = tf.constant(np.pad(features["inputs"], [(0, 1), (0, 0)]))
    objective = objective_of(model, model.hparams)
    with tf.GradientTape() as tape:
        hidden = model.hidden({"inputs": inputs, "targets": tf.constant(targets)})
        loss = objective.summed_loss(model, hidden, tf.constant(targets)).total
    wanted = numbers_of(model, features["inputs"])
    errors = np.square(wanted - [[0.5, -1.0], [2.0, 3.0], [0.0, 0.25]]).mean(axis=1)
    assert_close(float(loss), errors.sum() * (COUNT + 1), terms_of(model, 7) + 8)
    slopes = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    assert all(np.isfinite(tf.convert_to_tensor(slope)).all() for slope in slopes)


@pytest.mark.integration
def test_parts_and_the_whole_batch_learn_the_same(features):
    """A batch in two parts ≡ in one, as on replicas; a toy is learned."""

    def make():
        return make_untrained(
            KIND,
            COUNT + 2,
            learning_rate_schedule="constant",
            learning_rate_constant=0.02,
            layer_prepostprocess_dropout=0.0,
            attention_dropout=0.0,
            relu_dropout=0.0,
        )

    targets = targets_of([0.5, -1.0], [0.2, 0.3], [0.0, 0.25], [1.0, 1.0])
    inputs = np.concatenate([features["inputs"], features["inputs"][:1, ::-1]])
    whole = {"inputs": inputs[None], "targets": targets[None]}
    parts = {name: ids.reshape(2, 2, ids.shape[-1]) for name, ids in whole.items()}
    steps = [make_step(tf.distribute.get_strategy(), n, make) for n in (1, 2)]
    losses = []
    for number in range(40):
        for step, batch in zip(steps, (whole, parts), strict=True):
            assert step({name: tf.constant(ids) for name, ids in batch.items()}, number)
        totals = [step.window.take() for step in steps]
        losses.append(totals[0].loss / totals[0].tokens)
        if number < 3:
            one, other = (weights_of(step.model) for step in steps)
            np.testing.assert_allclose(one, other, atol=2e-4)
    assert losses[0] > 0.2
    assert losses[-1] < 0.02


def test_what_it_does_not_take_is_refused():
    cls = registry.model("transformer_regressor")
    with pytest.raises(UsageError, match="targets_vocab_size=2: expected the number of numbers"):
        cls("transformer_test", 13, 2)
    with pytest.raises(UsageError, match="needs a source"):
        cls("transformer_test", 0, 3)
    with pytest.raises(UsageError, match=r"prepend_mode=.*: numbers are not text"):
        cls("transformer_test", 13, 3, prepend_mode="prepend_inputs_full_attention")
    hparams = registry.hparams("transformer_test").copy(rdrop_alpha=5.0)
    with pytest.raises(UsageError, match=r"rdrop_alpha=5: .* set rdrop_alpha=0"):
        objective_of(cls, hparams)


@pytest.mark.bfloat16
def test_numbers_have_all_digits_in_16_bits():
    model = TransformerRegressor("transformer_test", 9, targets_vocab_size=2 + 1, dtype="bfloat16")
    model.class_projection.kernel.assign(0 * model.class_projection.kernel)
    model.class_projection.bias.assign([1987.25])
    assert np.array(model.numbers(np.array([[3, 1]], np.int32))).tolist() == [[1987.25]]
