"""Deep-Att's columns, linear paths and size."""

import numpy as np
import pytest
from keras import ops

from support.model_kinds import make_model, without_values
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.systems.deep_att import FastForward


def test_columns_take_turns_in_direction():
    model = make_model("deep_att", num_encoder_layers=3)
    first, second, decoder = (
        [layer.recurrent.backward for layer in column]
        for column in (model.encoder.first_column, model.encoder.second_column, model.decoder.stack)
    )
    assert (first, second) == ([False, True, False], [True, False, True])
    assert not any(decoder)


def test_a_layer_is_that_of_the_formula():
    """The layer computes f = W x and h = LSTM(first half of f)."""
    layer = FastForward(3, 4, 6, backward=True)
    x = np.random.RandomState(0).normal(size=(2, 5, 3)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]) > 0
    f = x @ ops.convert_to_numpy(layer.linear.kernel)
    h, _ = Recurrent(layer.recurrent.cell, backward=True)(f[:, :, :3], mask)
    result = ops.convert_to_numpy(layer(x, mask))
    assert_close(result[:, :, :6], f, terms=3)
    assert_close(result[:, :, 6:], h, terms=3 + 5 * (3 + 4))


@pytest.mark.integration
def test_the_query_is_of_the_step_before(features):
    """At the first step it is zero, whatever the token."""
    model = make_model("deep_att")
    state = model.start_decoding(features["inputs"], 1, 3)
    seen = []
    with model.hook_attention(seen.append):
        for step in range(3):
            _, state = model.decode_step(
                features["targets"][:, step : step + 1], ops.convert_to_tensor(step), state
            )
        model(features)
    stepwise, whole = np.concatenate(seen[:3], axis=1), seen[3]
    changed = {**features, "targets": features["targets"] + 0}
    changed["targets"][:, 0] = 9
    with model.hook_attention(seen.append):
        model(changed)
    # The token read at step 1 is seen by the query of step 2.
    difference = np.abs(np.asarray(seen[-1]) - np.asarray(whole)).max(axis=(0, 2))
    assert not difference[:2].any()
    assert difference[2] > 1e-3
    assert stepwise.shape == (3, 3, 7)
    assert_close(np.asarray(whole)[:, 0], stepwise[:, 0], terms_of(model, 7))


@pytest.mark.integration
def test_size_is_that_of_the_arithmetic():
    """No figure is published; with V = 30,000 it is 229 million."""
    vocabulary, e, d, f, a = 30000, 256, 512, 2048, 1280
    model = without_values("deep_att", "deep_att", vocabulary, vocabulary)
    lstm = (f // 2 + d) * 4 * d + 4 * d
    encoder = 2 * (e * f + 8 * (f + d) * f + 9 * lstm) + 2 * (f + d) * a
    decoder = (e + a) * f + 6 * (f + d) * f + 7 * lstm + (f + d) * e
    attention = d * d + a * d + d
    wanted = encoder + decoder + attention + 3 * vocabulary * e
    assert model.count_params() == wanted
    assert round(wanted / 1e6) == 229
