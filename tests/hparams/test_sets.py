"""The registered sets hold T2T's values: a named set never changes its meaning."""

import json
import pathlib
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams import upstream_sets

# What T2T adds to every encoder input; off here unless a T2T checkpoint is imported.
_DIFFERENT_HERE = {"use_target_space_embedding"}

# Fields of T2T's with another name here.
_RENAMED = {"activation_dtype": "dtype"}

# T2T 1.15, transformer_base, and what other sets change in it.
_BASE = {
    "attention_dropout": 0.1,
    "batch_size": 4096,
    "clip_grad_norm": 0.0,
    "filter_size": 2048,
    "hidden_size": 512,
    "initializer_gain": 1.0,
    "label_smoothing": 0.1,
    "layer_postprocess_sequence": "da",
    "layer_prepostprocess_dropout": 0.1,
    "layer_preprocess_sequence": "n",
    "learning_rate_constant": 2.0,
    "learning_rate_schedule": "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size",
    "learning_rate_warmup_steps": 8000,
    "max_length": 256,
    "num_heads": 8,
    "num_hidden_layers": 6,
    "optimizer_adam_beta1": 0.9,
    "optimizer_adam_beta2": 0.997,
    "optimizer_adam_epsilon": 1e-9,
    "pos": "timing",
    "relu_dropout": 0.1,
    "self_attention_type": "dot_product",
    "shared_embedding_and_softmax_weights": True,
}
# What both sets for Multi30k have in common (Wu et al. 2021).
_MULTI30K: dict[str, Any] = {
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "layer_prepostprocess_dropout": 0.3,
    "num_hidden_layers": 4,
    "hidden_size": 128,
    "filter_size": 256,
    "num_heads": 4,
    "optimizer_adam_beta2": 0.98,
    "optimizer_adam_epsilon": 1e-8,
}
_POST_NORM = {
    **_MULTI30K,
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "initializer_gain": 0.25,
    "learning_rate_schedule": "constant*linear_warmup*single_cycle_cos_decay",
    "learning_rate_constant": 0.005,
    "learning_rate_warmup_steps": 1000,
    "learning_rate_decay_steps": 9000,
}
_QUICKSTART2: dict[str, Any] = {
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "layer_prepostprocess_dropout": 0.0,
    "num_hidden_layers": 2,
    "num_encoder_layers": 3,
    "hidden_size": 128,
    "filter_size": 384,
    "num_heads": 4,
    "batch_size": 2048,
    "batch_shuffle_size": 64,
    "max_length": 64,
    "self_attention_type": "dot_product_relative",
    "max_relative_position": 8,
    "learning_rate_schedule": "constant*linear_warmup*single_cycle_cos_decay",
    "learning_rate_constant": 0.003,
    "learning_rate_warmup_steps": 200,
    "learning_rate_decay_steps": 1300,
}
_CHANGES: dict[str, dict[str, Any]] = {
    "transformer_base": {},
    "transformer_base_v3": {},
    "transformer_base_v2": {
        "optimizer_adam_beta2": 0.98,
        "learning_rate_schedule": "legacy",
        "learning_rate_constant": 1.0,
    },
    "transformer_base_v1": {
        "attention_dropout": 0.0,
        "relu_dropout": 0.0,
        "layer_preprocess_sequence": "none",
        "layer_postprocess_sequence": "dan",
        "optimizer_adam_beta2": 0.98,
        "learning_rate_schedule": "legacy",
        "learning_rate_constant": 1.0,
        "learning_rate_warmup_steps": 4000,
    },
    "transformer_base_single_gpu": {
        "batch_size": 1024,
        "learning_rate_schedule": "constant*linear_warmup*rsqrt_decay",
        "learning_rate_constant": 0.1,
        "learning_rate_warmup_steps": 16000,
    },
    "transformer_big": {
        "hidden_size": 1024,
        "filter_size": 4096,
        "num_heads": 16,
        "batch_size": 2048,
        "layer_prepostprocess_dropout": 0.3,
    },
    "transformer_big_single_gpu": {
        "hidden_size": 1024,
        "filter_size": 4096,
        "num_heads": 16,
        "batch_size": 2048,
        "learning_rate_warmup_steps": 16000,
    },
    "transformer_big_enfr": {
        "hidden_size": 1024,
        "filter_size": 8192,
        "num_heads": 16,
        "shared_embedding_and_softmax_weights": False,
    },
    "transformer_small": {
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "filter_size": 1024,
        "num_heads": 4,
    },
    "transformer_tiny": {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "filter_size": 512,
        "num_heads": 4,
    },
    "transformer_base_multistep8": {
        "optimizer": "multistep_adam",
        "optimizer_multistep_accumulate_steps": 8,
    },
    "transformer_k128": {"attention_key_channels": 128},
    "transformer_h32": {"num_heads": 32},
    "transformer_parsing_base": {
        "attention_dropout": 0.2,
        "hidden_size": 1024,
        "layer_prepostprocess_dropout": 0.2,
        "learning_rate_warmup_steps": 16000,
        "max_length": 512,
        "shared_embedding_and_softmax_weights": False,
    },
    "transformer_quickstart2": _QUICKSTART2,
    "transformer_quickstart3": {
        **_QUICKSTART2,
        "batch_size": 512,
        "optimizer_adam_beta2": 0.98,
        "learning_rate_warmup_steps": 100,
        "learning_rate_decay_steps": 1900,
    },
    "transformer_multi30k": _POST_NORM,
    "transformer_multi30k2": {
        **_POST_NORM,
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 16,
    },
    "transformer_multi30k_prenorm": {
        **_MULTI30K,
        "learning_rate_schedule": "constant*linear_warmup*single_cycle_cos_decay",
        "learning_rate_constant": 0.005,
        "learning_rate_warmup_steps": 1000,
        "learning_rate_decay_steps": 9000,
    },
    "transformer_treebank": {
        **_MULTI30K,
        "batch_size": 2048,
        "max_length": 512,
        "layer_prepostprocess_dropout": 0.2,
        "learning_rate_schedule": "constant*linear_warmup*single_cycle_cos_decay",
        "learning_rate_constant": 0.002,
        "learning_rate_warmup_steps": 500,
        "learning_rate_decay_steps": 9500,
    },
    "transformer_treebank2": {
        **_MULTI30K,
        "batch_size": 2048,
        "max_length": 512,
        "layer_prepostprocess_dropout": 0.2,
        "learning_rate_schedule": "constant*linear_warmup*single_cycle_cos_decay",
        "learning_rate_constant": 0.002,
        "learning_rate_warmup_steps": 500,
        "learning_rate_decay_steps": 9500,
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 16,
    },
    "transformer_relative_tiny": {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "filter_size": 512,
        "num_heads": 4,
        "pos": "none",
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 20,
    },
    "transformer_test": {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "filter_size": 8,
        "num_heads": 2,
    },
}


@pytest.mark.parametrize("name", _CHANGES)
def test_values(name: str):
    expected = _BASE | _CHANGES[name]
    ours = registry.hparams(name).to_dict()
    assert {field: ours[field] for field in expected} == expected


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "lstm_seq2seq",
            {"max_length": 0, "optimizer_adam_beta1": 0.85, "optimizer_adam_beta2": 0.997},
        ),
        ("lstm_bahdanau_attention", {}),
        ("lstm_attention", {}),
        ("lstm_luong_attention", {"attention_mechanism": "luong"}),
    ],
)
def test_values_of_lstms(name: str, changes: dict[str, Any]):
    """T2T's, but for Adam's betas and the greatest length, which only `lstm_seq2seq` takes."""
    expected = {
        "attention_mechanism": "bahdanau",
        "batch_size": 1024,
        "dropout": 0.2,
        "hidden_size": 128,
        "max_length": 256,
        "num_hidden_layers": 2,
        "optimizer_adam_beta1": 0.9,
        "optimizer_adam_beta2": 0.999,
    } | changes
    ours = registry.hparams(name).to_dict()
    assert {field: ours[field] for field in expected} == expected


def test_recorded_values(golden):
    recorded = json.loads((golden / "hparams_sets.json").read_text(encoding="utf-8"))
    base = recorded["transformer_base"]
    assert len(recorded) > 30
    for name in recorded:
        theirs = base | recorded[name].get("differs_from_transformer_base", {})
        theirs["pos"] = theirs["pos"] or "none"
        ours = registry.hparams(name).to_dict()
        fields = (ours.keys() & theirs.keys()) - _DIFFERENT_HERE
        assert len(fields) > 40
        assert {f: ours[f] for f in fields} == {f: theirs[f] for f in fields}, name


def test_recorded_values_of_sets_made_from_a_table():
    """All that T2T 1.15's source changes in transformer_base, set by set."""
    path = pathlib.Path(__file__).parent / "upstream_sets.json"
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert set(recorded) == set(upstream_sets._SETS)
    base = registry.hparams("transformer_base").to_dict()
    for name, changes in recorded.items():
        theirs = {_RENAMED.get(field, field): value for field, value in changes.items()}
        theirs["pos"] = theirs.get("pos", "timing") or "none"
        theirs["optimizer"] = theirs.get("optimizer", "adam").lower()
        ours = registry.hparams(name).to_dict()
        changed = {field for field, value in ours.items() if base.get(field) != value}
        fields = (changed | theirs.keys()) & ours.keys() & (base.keys() | theirs.keys())
        assert {f: ours[f] for f in fields} == {f: theirs.get(f, base.get(f)) for f in fields}, name


def test_sets_that_are_not_available_say_why():
    available = set(registry.list_hparams())
    for name in registry.list_refused_hparams():
        assert name not in available
        with pytest.raises(UsageError, match=f"'{name}' is not available: it needs") as raised:
            registry.hparams(name)
        instead = str(raised.value).partition("; instead: ")[2].split()
        assert not instead or instead[0] == "the" or instead[0].rstrip(",") in available


def test_sets_of_t2t_that_are_not_available_are_known_by_name():
    """Of a name that is not in the list, a user only learns that it is unknown."""
    path = pathlib.Path(__file__).with_name("refused_sets.txt")
    assert registry.list_refused_hparams() == path.read_text(encoding="utf-8").split()


@pytest.mark.parametrize("name", registry.list_hparams())
def test_every_set_survives_json_and_says_what_it_is(name: str):
    hparams = registry.hparams(name)
    assert type(hparams).from_dict(json.loads(hparams.to_json())) == hparams
    assert registry._hparams[name].__doc__
