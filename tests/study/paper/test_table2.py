"""Table 2's cost: the paper's own figure, and the operations counted by hand."""

import math

import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.models.flops import ForwardFlops
from t2t_lite.models.transformer import Transformer
from t2t_lite.study.paper.parameter_counts import abstract_model
from t2t_lite.study.paper.published import MODELS, TABLE_2, VOCABULARY, PublishedModel
from t2t_lite.study.paper.table2 import SENTENCE_LENGTH, ModelCost, model_cost, table, training_cost
from t2t_lite.training.optimizers import make_optimizer

# Factors of a cost, and terms of the sum over the parts of a model.
TERMS = 16


@pytest.mark.integration
@pytest.mark.parametrize(
    ("system", "d", "d_ff", "steps"),
    [("Transformer (base model)", 512, 2048, 1e5), ("Transformer (big)", 1024, 4096, 3e5)],
)
def test_cost_of_the_transformers(system, d, d_ff, steps):
    found = training_cost(system)
    published = next(row.ende_flops for row in TABLE_2 if row.name == system)
    assert f"{found.by_time:.1e}" == f"{published:.1e}"

    pairs = SENTENCE_LENGTH * 2 * d  # queries with keys, weights with values, by one query
    encoder = 6 * (4 * d * d + pairs + 2 * d * d_ff)
    decoder = 6 * (8 * d * d + 2 * pairs + 2 * d * d_ff) + 37_000 * d
    # A product is a multiplication and an addition; the backward pass has two for each.
    wanted = steps * 25_000 * 3 * 2 * (encoder + decoder)
    assert_close(found.by_count, wanted, TERMS, dtype="float64")
    assert found.utilisation == found.by_count / found.by_time
    # 8 P100 that reach that share of the paper's rate take the paper's hours.
    hours = found.teraflop_hours / (8 * 9.5 * found.utilisation)
    assert_close(hours, {1e5: 12, 3e5: 84}[steps], TERMS, dtype="float64")


@pytest.mark.integration
def test_an_update_and_what_a_device_keeps():
    base = model_cost("Transformer (base model)")
    trained = training_cost("Transformer (base model)")
    assert_close(base.by_update * 100_000, trained.by_count, TERMS, dtype="float64")
    assert_close(base.by_token * 25_000, base.by_update, TERMS, dtype="float64")
    hparams = registry.hparams("transformer_paper_base")
    weights = abstract_model(hparams, VOCABULARY).trainable_variables
    with tf.Graph().as_default():
        adam = make_optimizer(hparams)
        adam.build(weights)
    numbers = sum(math.prod(one.shape) for one in [*weights, *weights, *adam.variables])
    assert base.state == pytest.approx(4 * numbers, abs=16)  # a counter and the learning rate


@pytest.mark.parametrize("system", MODELS)
def test_each_set_is_one_of_the_models(system):
    found = MODELS[system]
    hparams = registry.hparams(found.hparams_set)
    assert isinstance(hparams, registry.model(found.model).hparams_class)
    assert system in [row.name for row in TABLE_2]


@pytest.mark.integration
def test_a_system_of_longer_tokens_is_counted_on_the_same_text(monkeypatch):
    """Characters: five for each subword, and a number of operations linear in both lengths."""
    flops = ForwardFlops(source=3.0, target=4.0)
    monkeypatch.setattr(Transformer, "forward_flops", lambda self: flops)
    small = PublishedModel("transformer", "transformer_test", 9, tokens_per_subword=5.0)
    found = ModelCost.of(small)
    assert found.by_token == 3 * (3.0 + 4.0)
    assert_close(found.by_update, 5 * 25_000 * found.by_token, TERMS, dtype="float64")


@pytest.mark.integration
def test_other_systems_have_no_computed_cost_of_training():
    assert training_cost("ConvS2S") is None
    shown = table()
    parameters = {row[0]: row[5] for row in shown.rows}
    assert parameters["ConvS2S"] == pytest.approx(216, rel=0.011)  # 216 million are V=43,137
    assert parameters["ConvS2S Ensemble"] is None
    assert [row[0] for row in shown.rows if row[-1]] == [
        "Transformer (base model)",
        "Transformer (big)",
    ]


@pytest.mark.integration
@pytest.mark.parametrize("row", ["aop1", "aop2"])
def test_attention_over_parameters_costs_what_the_feed_forward_layer_does(row):
    """As the paper says of the theoretical amount of computation."""
    base, other = (
        abstract_model(
            registry.hparams(f"transformer_paper_{name}").copy(num_hidden_layers=1), 9
        ).forward_flops()
        for name in ("base", row)
    )
    assert base == other
