"""Hparams that are given and that nothing in a run reads have a warning, and no others have."""

import dataclasses
import functools
import re

import pytest
import tensorflow as tf

from support.limits import strategy_over
from support.model_kinds import KINDS, SHALLOW, VOCAB_SIZE
from support.small_runs import HPARAMS, assert_equal_runs, make_config
from support.training_steps import make_step
from t2t_lite import registry
from t2t_lite.errors import warn_once
from t2t_lite.hparams import basic
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.settings import to_assignments
from t2t_lite.training import trainer
from t2t_lite.training.start import warn_of_unread_hparams

pytestmark = pytest.mark.integration

# What a Transformer does not read that Adam trains for the cross entropy, with another value.
_EXPERTS = {
    "moe_num_experts": 5,
    "moe_k": 3,
    "moe_hidden_sizes": "13",
    "moe_loss_coef": 0.5,
    "moe_gating_noise": 0.5,
}
_PARAMETERS = {
    "parameter_attention_heads": 3,
    "parameter_attention_key_channels": 5,
    "parameter_attention_value_channels": 7,
}
_ADAFACTOR = {
    "optimizer_adafactor_memory_exponent": 0.3,
    "optimizer_adafactor_clipping_threshold": 0.5,
}
_UNREAD = {
    **{"max_relative_position": 9, "simcut_rate": 0.5, "optimizer_momentum_momentum": 0.1},
    **_EXPERTS,
    **_PARAMETERS,
    **_ADAFACTOR,
}


@pytest.mark.usefixtures("eagerly")
def test_of_all_hparams_a_run_names_those_that_change_nothing(data_dir, tmp_path, caplog):
    warn_once.cache_clear()
    hparams = registry.hparams("transformer_test").override(f"{HPARAMS},batch_shuffle_size=2")
    for name, changes in (("run", {}), ("other", _UNREAD)):
        given = to_assignments(hparams.copy(**changes), hparams.names())
        config = make_config(data_dir, tmp_path / name, train_steps=2)
        trainer.run(dataclasses.replace(config, hparams=given))
    assert_equal_runs(tmp_path / "run", tmp_path / "other")
    warning = re.compile(r"hparam (\w+)=.* has no effect: nothing in this run reads it; a new run")
    named = [found[1] for line in caplog.messages if (found := warning.match(line))]
    assert sorted(named) == sorted([*_UNREAD] * 2)


_OPTIONS = {*_EXPERTS, *_PARAMETERS, "max_relative_position"}
_SHARED = {"shared_embedding", "shared_target_and_softmax_weights"}
_ACT = {"act_type", "act_max_steps", "act_epsilon", "act_halting_bias_init", "act_loss_weight"}
_LAYERS = {"num_hidden_layers", "num_encoder_layers", "num_decoder_layers"}
_UNIVERSAL = {*_OPTIONS, *_SHARED, *_LAYERS, "position_offset"}
_FEED_FORWARD = {"ffn_layer", "filter_size", "ffn_activation", "relu_dropout"}
_DECODER = {
    *("shared_embedding_and_softmax_weights", "num_decoder_layers", "decoder_self", "start_id"),
    *("softmax_bias", "softmax_padding", "suppressed_ids", "end_ids"),
}
_RELATIVE = {"self_attention_type": "dot_product_relative", "max_relative_position": 2}


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("kind", "changes", "unread"),
    [
        ("post_norm", {"pos": "emb"}, {*_OPTIONS, *_SHARED, "position_offset"}),
        (
            "post_norm",
            {"num_encoder_layers": 1, "num_decoder_layers": 1, **_RELATIVE},
            {*_EXPERTS, *_PARAMETERS, *_SHARED, "num_hidden_layers"},
        ),
        ("classifier", {}, {*_OPTIONS, *_SHARED, *_DECODER}),
        ("universal", {}, {*_UNIVERSAL, *_ACT}),
        ("adaptive", {}, {*_UNIVERSAL, "num_rec_steps"}),
        ("evolved", {}, {*_OPTIONS, *_SHARED, *_FEED_FORWARD}),
        ("lstm", {}, {"attention_mechanism", "attention_window"}),
        ("conv_s2s", {}, {"num_hidden_layers"}),
        ("deep_att", {}, {"num_hidden_layers", "shared_embedding"}),
        ("moe_lstm", {}, {"num_hidden_layers", "shared_embedding"}),
    ],
)
def test_what_a_step_does_not_read_of_its_model(kind, changes, unread):
    name, hparams_set, small = KINDS[kind]
    hparams = registry.hparams(hparams_set).copy(**{**small, **SHALLOW.get(kind, {}), **changes})
    hparams.note_reads()
    make = functools.partial(registry.model(name), hparams, VOCAB_SIZE, VOCAB_SIZE)
    ids = tf.ones((1, 1, 2), tf.int32)
    make_step(strategy_over(1), 1, make)({"inputs": ids, "targets": ids}, 0)
    of_model = {*hparams.names()} - {*BasicHParams.names()} | basic._OF_MODEL
    assert {*hparams.unread(of_model)} == unread


@pytest.mark.parametrize(("given", "named"), [("depth", False), ("simcut_rate", True)])
def test_fields_of_a_users_own_are_not_judged(given, named, caplog):
    @dataclasses.dataclass
    class Own(BasicHParams):
        depth: int = 2

    warn_once.cache_clear()
    hparams = Own()
    hparams.note_reads()
    warn_of_unread_hparams(hparams, [given])
    assert bool(caplog.messages) == named
