"""The fields with which a Transformer computes as Marian's, M2M100 and others do."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.model_kinds import assert_steps_are_the_whole
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.base import without_initial_values
from t2t_lite.layers.dense import EXCLUDED, FeedForward
from t2t_lite.layers.transformer_layers import Position
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search
from t2t_lite.search.parts import WrappedModel
from t2t_lite.search.sampling import RandomSearch
from t2t_lite.training.losses import cross_entropy_of, smoothed_among_possible

V = 17
SIZES = {"num_hidden_layers": 1, "hidden_size": 16, "filter_size": 24, "num_heads": 2}
EVERYTHING = {
    "attention_bias": True,
    "ffn_activation": "swish",
    "pos": "timing_paper",
    "position_offset": 2,
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "layer_final_sequence": "n",
    "start_id": 5,
    "softmax_bias": True,
    "softmax_padding": False,
    "suppressed_ids": "3+7",
}
INPUTS = np.array([[5, 6, 1, 0], [7, 8, 9, 1]], np.int32)
TARGETS = np.array([[4, 9, 1, 0], [2, 11, 12, 1]], np.int32)
FEATURES = {"inputs": INPUTS, "targets": TARGETS}


def make_model(**changes):
    with without_initial_values():
        model = Transformer("transformer_tiny", V, V, **{**SIZES, **changes})
    for number, variable in enumerate(model.trainable_variables):
        noise = np.random.RandomState(number).normal(size=variable.shape)
        variable.assign(noise / variable.shape[0] ** 0.5 + (variable.name == "gamma"))
    return model


def logits_of(model):
    return ops.convert_to_numpy(model(FEATURES))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: max(x, 0.0)),
        ("swish", lambda x: x * sigmoid(x)),
        ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        (
            "gelu_tanh",
            lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
        ),
        ("gelu_sigmoid", lambda x: x * sigmoid(1.702 * x)),
    ],
)
def test_activations_are_their_formulas(name, function):
    layer = FeedForward(1, 1, activation=name)
    for projection in (layer.expand, layer.contract):
        projection.kernel.assign([[1.0]])
    x = np.linspace(-4, 4, 33, dtype=np.float32)
    y = ops.convert_to_numpy(layer(x[:, None]))[:, 0]
    assert_close(y, np.array([function(float(value)) for value in x]), terms=8, scale=4.0)


@pytest.mark.parametrize(("kind", "last"), [("timing", 7), ("timing_paper", 8)])
def test_sinusoids_have_the_wavelengths_of_their_kind(kind, last):
    signal = ops.convert_to_numpy(Position(kind, 16, offset=2)(np.zeros((1, 5, 16), np.float32)))
    angles = np.arange(2, 7)[:, None] / 10_000 ** (np.arange(8)[None] / last)
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    assert_close(signal[0], expected, terms=8, scale=6.0)


@pytest.mark.integration
@pytest.mark.parametrize("changes", [{}, {"layer_preprocess_sequence": "n"}])
def test_steps_of_a_search_are_the_whole(changes):
    # Without the excluded logit of padding, whose size would widen the bound.
    fields = {**EVERYTHING, **changes, "softmax_padding": True}
    assert_steps_are_the_whole(make_model(**fields), FEATURES)


@pytest.fixture(scope="module")
def logits_of_everything():
    return logits_of(make_model(**EVERYTHING))


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", sorted({*EVERYTHING} - {"suppressed_ids", "layer_postprocess_sequence"})
)
def test_every_field_changes_the_logits(name, logits_of_everything):
    others = {**EVERYTHING, name: TransformerHParams().to_dict()[name]}
    if name == "layer_preprocess_sequence":
        others[name] = "n"
    assert not np.allclose(logits_of(make_model(**others)), logits_of_everything)


def test_the_start_is_the_embedding_of_its_id():
    model = make_model(start_id=5)
    seen = []
    model.decoder.position = lambda x, positions: seen.append(x) or x
    model(FEATURES)
    first = ops.convert_to_numpy(seen[0][:, 0])
    assert (first == ops.convert_to_numpy(model.decoder.embedding(np.array([5, 5])))).all()


@pytest.mark.integration
def test_without_padding_the_others_share_its_probability():
    logits = logits_of(make_model(softmax_padding=False))
    assert (logits[..., 0] == EXCLUDED).all()
    assert (logits[..., 1:] == logits_of(make_model())[..., 1:]).all()


@pytest.mark.integration
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_without_padding_leaves_its_id_out(smoothing):
    model = make_model(softmax_padding=False)
    logits = tf.reshape(model(FEATURES), [-1, V])
    targets = tf.reshape(TARGETS, [-1])
    real = TARGETS.reshape(-1) != 0
    losses = cross_entropy_of(model.output_projection)(logits, targets, smoothing).numpy()
    wanted = smoothed_among_possible(logits, targets, smoothing).numpy()
    assert np.isfinite(losses).all()
    assert_close(
        losses[real],
        wanted[real],
        terms=V,
        scale=float(np.abs(logits.numpy()[:, 1:]).max() + np.abs(wanted).max()),
    )


@pytest.fixture(scope="module")
def free():
    """A model that may output any id."""
    return make_model()


@pytest.fixture(scope="module")
def usual(free):
    """The ids that it does output."""
    return {*np.asarray(greedy_search(free)(INPUTS, 6)[0])[:, 0].ravel().tolist()} - {0, 1}


@pytest.mark.integration
@pytest.mark.parametrize(  # the test below has the ids of each search, and of the wrapped models
    ("beams", "ensemble"), [(1, False), (3, True)]
)
@pytest.mark.usefixtures("eager_searches")
def test_suppressed_ids_never_come_and_other_probabilities_stay(free, usual, beams, ensemble):
    model = make_model(suppressed_ids="+".join(map(str, usual)))
    searched = Ensemble([free, model]) if ensemble else model
    search = make_search(searched, {}, DecodeHParams(beam_size=beams, alpha=0.0))
    ids, scores = (np.asarray(x)[:, 0] for x in search(INPUTS, 6))
    assert usual
    assert not usual & {*ids.ravel().tolist()}
    log_probs = tf.nn.log_softmax(free({"inputs": INPUTS, "targets": ids})).numpy()
    taken = np.take_along_axis(log_probs, ids[..., None], axis=2)[..., 0]
    total = (taken * (ids != 0)).sum(axis=1)
    terms = terms_of(free, 6) + ids.shape[1]
    assert_close(scores, total, terms, scale=float(np.abs(total).max() + np.abs(log_probs).max()))


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_every_search_obeys_the_suppressed_ids_of_its_model(free):
    never = tuple(range(2, V, 2))
    model = make_model(suppressed_ids="+".join(map(str, never)))
    for wrapped in (model, Ensemble([free, model]), WrappedModel(model)):
        assert wrapped.never_output == never
    for search in (BeamSearch(model, 3), RandomSearch(model, 3, seed=1), greedy_search(model)):
        assert not {*never} & {*search(INPUTS, 6).ids.ravel().tolist()}
    assert {*never} & {*BeamSearch(free, 3)(INPUTS, 6).ids.ravel().tolist()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_id": V}, "hparam start_id=17: expected an id of the target vocabulary"),
        ({"suppressed_ids": "3+17"}, "hparam suppressed_ids=17: expected an id"),
        ({"suppressed_ids": "3,4"}, "hparam suppressed_ids='3,4': expected ids, such as 2 or 2+7"),
        (
            {"ffn_layer": "parameter_attention", "ffn_activation": "gelu"},
            "hparam ffn_activation=gelu: ffn_layer=parameter_attention has none",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(UsageError, match=message.replace("+", r"\+")):
        make_model(**changes)


@pytest.mark.integration
def test_a_keras_file_keeps_the_fields(tmp_path):
    model = make_model(**EVERYTHING)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.never_output == (3, 7)
    assert (logits_of(again) == logits_of(model)).all()
