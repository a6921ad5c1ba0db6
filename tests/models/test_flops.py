"""The count of floating-point operations, against counting by hand and TensorFlow's profiler."""

import dataclasses

import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.models.flops import flops_of_part
from t2t_lite.models.lstm import BidirectionalLSTMEncoder, LSTMEncoder
from t2t_lite.models.seq2seq import Seq2Seq

V, D, F, S, T = 40, 16, 24, 7, 5


def make(name: str, hparams_set: str, changes: str):
    hparams = registry.hparams(hparams_set).override(changes).freeze()
    return registry.model(name)(hparams, V, V)


@pytest.fixture(scope="module")
def transformer():
    return make(
        "transformer",
        "transformer_test",
        f"hidden_size={D},filter_size={F},num_heads=2,num_hidden_layers=1",
    )


def features(sentences: int, padding: int = 0) -> dict[str, tf.Tensor]:
    def ids(length: int) -> tf.Tensor:
        return tf.pad(tf.ones((sentences, length), tf.int32), [[0, 0], [0, padding]])

    return {"inputs": ids(S), "targets": ids(T)}


def test_a_transformer_counted_by_hand(transformer):
    projections = 4 * D * D  # queries, keys, values and output, all heads
    encoder = S * (projections + 2 * D * F) + 2 * S * S * D
    own = T * projections + 2 * T * T * D
    of_source = T * 2 * D * D + S * 2 * D * D + 2 * T * S * D
    decoder = own + of_source + T * 2 * D * F
    forward = 2 * (encoder + decoder + T * D * V)
    counted = transformer.forward_flops().training(features(3))
    assert float(counted) == 3 * 3 * forward


def test_distances_double_the_products_of_pairs(transformer):
    hparams = transformer.hparams.copy(
        self_attention_type="dot_product_relative", max_relative_position=3
    )
    relative = registry.model("transformer")(hparams, V, V).forward_flops()
    plain = transformer.forward_flops()
    assert relative == dataclasses.replace(
        plain,
        source_source=2 * plain.source_source,
        target_target=2 * plain.target_target,
    )


@pytest.mark.integration
def test_the_profiler_counts_the_same_products(transformer):
    batch = features(3)
    signature = {name: tf.TensorSpec(ids.shape, ids.dtype) for name, ids in batch.items()}
    forward = tf.function(lambda features: transformer(features, training=False))
    graph = forward.get_concrete_function(signature).graph
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    options = builder(builder.float_operation()).with_empty_output().build()
    profile = tf.compat.v1.profiler.profile(graph, cmd="op", options=options)
    found = {}
    node = profile
    while node.children:
        (node,) = node.children
        found[node.name] = node.float_ops
    products = found["MatMul"] + found["BatchMatMulV2"]
    assert float(transformer.forward_flops().training(batch)) == 3 * products


def test_padding_does_not_count(transformer):
    flops = transformer.forward_flops()
    assert float(flops.training(features(2, padding=4))) == float(flops.training(features(2)))
    nothing = {name: tf.zeros_like(ids) for name, ids in features(2).items()}
    assert float(flops.training(nothing)) == 0


@pytest.mark.parametrize("mechanism", ["luong", "bahdanau"])
def test_an_lstm_counted_by_hand(mechanism):
    model = make(
        "lstm_seq2seq_attention",
        f"lstm_{mechanism}_attention",
        f"hidden_size={D},num_hidden_layers=2",
    )
    cell = 2 * D * 4 * D
    encoder = S * (2 * cell + D * D)  # and the keys
    decoder = T * (3 * D * 4 * D + cell)  # the first layer also reads the attentional output
    query = T * D * D if mechanism == "bahdanau" else 0
    attention = query + T * S * D + T * S * D + T * 2 * D * D  # scores, mean, joined
    forward = 2 * (encoder + decoder + attention + T * D * V)
    assert float(model.forward_flops().training(features(1))) == 3 * forward


def test_both_directions_of_an_encoder_count():
    one, both = (
        flops_of_part(kind("lstm_attention", V, hidden_size=D))
        for kind in (LSTMEncoder, BidirectionalLSTMEncoder)
    )
    assert one == 2 * (2 * 2 * D * 4 * D)  # of two layers
    assert both == 2 * one


def test_a_model_of_unknown_structure_has_no_count(transformer):
    assert Seq2Seq.forward_flops(transformer) is None
