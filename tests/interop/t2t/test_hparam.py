"""HParams in T2T's manner, and the sets they become."""

import copy
import logging

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.t2t import registry as t2t_registry
from t2t_lite.interop.t2t.common_hparams import basic_params1
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.modalities import ModalityType


def base() -> HParams:
    return HParams.of(registry.hparams("transformer_base"))


def test_fields_are_changed_one_by_one():
    hparams = base()
    hparams.num_heads = 4
    hparams.shared_embedding = 1
    hparams.activation_dtype = "bfloat16"
    hparams.set_hparam("hidden_size", "256")
    hparams.parse("filter_size=1024,attention_dropout=0.3,pos=emb,learning_rate_minimum=1e-5")
    hparams.override_from_dict({"max_length": 128}).parse_json('{"batch_size": 2048}')
    expected = registry.hparams("transformer_base").copy(
        num_heads=4,
        shared_embedding=True,
        dtype="bfloat16",
        hidden_size=256,
        filter_size=1024,
        attention_dropout=0.3,
        pos="emb",
        learning_rate_minimum=1e-5,
        max_length=128,
        batch_size=2048,
    )
    assert hparams.to_settings("mine") == expected
    assert hparams.values()["hidden_size"] == hparams.get("hidden_size") == 256
    assert "hidden_size" in hparams
    assert hparams.activation_dtype == "bfloat16"


def test_a_removed_field_of_the_set_has_the_sets_value_again():
    hparams = base()
    hparams.hidden_size = 8
    hparams.del_hparam("hidden_size")
    assert hparams.hidden_size == 512
    assert hparams.to_settings("mine") == registry.hparams("transformer_base")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_independent(copied):
    hparams = base()
    other = copied(hparams)
    other.hidden_size = 8
    other.add_hparam("usr_rate", 0.5)
    assert hparams.hidden_size == 512
    assert "usr_rate" not in hparams
    assert hparams.to_settings("mine") == registry.hparams("transformer_base")
    assert other.to_settings("mine").usr_rate == 0.5


def test_the_users_fields_are_saved_and_can_be_changed():
    hparams = base()
    hparams.add_hparam("usr_rate", 0.5)
    hparams.add_hparam("usr_sizes", [1, 2])
    assert (hparams.usr_rate, hparams.usr_sizes) == (0.5, [1, 2])
    settings = hparams.to_settings("mine")
    assert isinstance(settings, TransformerHParams)
    changed = settings.override("usr_rate=0.25,hidden_size=64")
    assert type(settings).from_dict(changed.to_dict()) == changed
    assert (changed.usr_rate, changed.usr_sizes) == (0.25, [1, 2])
    assert settings.override("usr_sizes=[3,4,5],usr_rate=1").usr_sizes == [3, 4, 5]
    assert hparams.parse("usr_sizes=[7],usr_rate=0.5").usr_sizes == [7]
    with pytest.raises(ValueError, match="'usr_sizes': '7' is not of type list"):
        hparams.parse("usr_sizes=7")
    assert HParams.of(settings).usr_rate == 0.5
    hparams.del_hparam("usr_sizes")
    assert "usr_sizes" not in hparams.to_settings("mine").names()


def test_t2ts_fields_without_effect_are_named_in_one_warning(caplog):
    hparams = base()
    hparams.symbol_modality_num_shards = 16
    hparams.summarize_grads = True
    hparams.norm_type = "layer"
    hparams.add_hparam("use_pad_remover", False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert hparams.to_settings("noisy") == registry.hparams("transformer_base")
    assert [record.getMessage() for record in caplog.records] == [
        "hparams set noisy: without effect here: "
        "summarize_grads, symbol_modality_num_shards, use_pad_remover"
    ]


def test_sampling_is_a_matter_of_decoding(caplog):
    hparams = base()
    hparams.sampling_method = "random"
    assert hparams.to_settings("sampling") == registry.hparams("transformer_base")
    assert caplog.records[-1].getMessage() == (
        "hparams set sampling: without effect here: sampling_method (instead: "
        "t2t-decoder --decode_hparams=sampling_temp=...)"
    )


def test_a_tuple_is_saved_as_a_list():
    hparams = base()
    hparams.add_hparam("usr_layers", (1, 2))
    assert hparams.usr_layers == (1, 2)
    assert hparams.to_settings("mine").to_dict()["usr_layers"] == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input_modalities", "default"),
        ("input_modalities", "inputs:symbol:default;targets:symbol:default"),
        ("target_modality", "symbol:default"),
        ("modality", {"targets": ModalityType.SYMBOL}),
    ],
)
def test_sets_may_name_the_modality_of_symbols(name, value):
    hparams = base()
    setattr(hparams, name, value)
    assert hparams.to_settings("mine") == registry.hparams("transformer_base")


@pytest.mark.parametrize("name", ["modality", "bottom", "loss"])
def test_a_mapping_of_one_set_is_not_that_of_others(name):
    hparams = base()
    getattr(hparams, name)["targets"] = print
    with pytest.raises(UsageError, match=f"{name}=.* is not implemented"):
        hparams.to_settings("mine")
    assert base().to_settings("mine") == registry.hparams("transformer_base")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_modalities", "inputs:symbol:own", "only 'default' is .*sequences of symbols"),
        ("input_modalities", {"inputs": None}, "only 'default' is .*sequences of symbols"),
        ("modality", "image", "modality='image' is not implemented"),
        ("target_modality", "image:identity", "only 'default' is .*sequences of symbols"),
        ("modality", {"inputs": ModalityType.REAL}, "'real'} is not implemented"),
        ("norm_type", "batch", "norm_type='batch' is not implemented; only 'layer' is"),
        ("prepend_mode", "prepend_inputs", "expected none, prepend_inputs_masked_attention or"),
        ("proximity_bias", True, "proximity_bias=True is not implemented"),
        ("scheduled_sampling_prob", 0.5, "scheduled_sampling_prob=0.5 is not implemented"),
        ("use_fixed_batch_size", True, "instead: batch_size counts subwords"),
        ("optimizer", 3, "optimizer.*3"),
        ("hidden_size", "wide", "hparam hidden_size='wide': expected a whole number"),
    ],
)
def test_values_that_are_not_implemented(name, value, message):
    hparams = base()
    setattr(hparams, name, value)
    with pytest.raises(UsageError, match=message):
        hparams.to_settings("mine")


def test_names_that_do_not_exist():
    hparams = base()
    with pytest.raises(AttributeError, match="'hiden_size'; did you mean 'hidden_size'"):
        _ = hparams.hiden_size
    with pytest.raises(ValueError, match="'hidden_size' exists already"):
        hparams.add_hparam("hidden_size", 3)
    with pytest.raises(ValueError, match="'num_heads': 'x' is not of type int"):
        hparams.set_hparam("num_heads", "x")
    with pytest.raises(ValueError, match="cannot parse 'nonsense'"):
        hparams.parse("nonsense")
    hparams.add_hparam("usr_function", print)
    with pytest.raises(UsageError, match=r"'usr_function': .* cannot be saved"):
        hparams.to_settings("mine")


def test_names_of_no_set_may_be_assigned_but_have_no_effect(caplog):
    hparams = base()
    hparams.num_headz = 3
    hparams.on_start = print
    assert (hparams.num_headz, hparams.on_start) == (3, print)
    assert copy.deepcopy(hparams).num_headz == 3
    assert "num_headz" not in hparams
    assert "num_headz" not in hparams.values()
    assert hparams.to_settings("mine") == base().to_settings("mine")
    told, _ = caplog.messages
    assert told.startswith("hparam 'num_headz' is in no set; did you mean 'num_heads'?")


def test_a_free_object_takes_any_name():
    hparams = HParams(a=1, b="x", c=[1.0])
    hparams.anything = 3
    hparams.parse("a=2,c=[3,4.5]")
    assert hparams.values() == {"a": 2, "b": "x", "c": [3.0, 4.5], "anything": 3}
    with pytest.raises(UsageError, match="start from a model's set"):
        hparams.to_settings("mine")


def test_basic_params_have_t2ts_values():
    hparams = basic_params1()
    hparams.add_hparam("filter_size", 2048)
    assert (hparams.hidden_size, hparams.num_hidden_layers, hparams.filter_size) == (64, 4, 2048)
    assert hparams.to_settings("mine").filter_size == 2048


def test_basic_params_are_enough_for_an_lstm():
    hparams = basic_params1()
    hparams.dropout = 0.3
    hparams.num_hidden_layers = 2
    settings = hparams.to_settings("mine")
    assert isinstance(settings, LSTMHParams)
    assert settings.copy(batch_size=1024, hidden_size=128, weight_decay=0.0, dropout=0.2) == (
        registry.hparams("lstm_seq2seq")
    )


def test_basic_params_with_the_fields_of_a_transformer_are_its_set(caplog):
    """A function that adds them one by one, as T2T's own do."""
    hparams = basic_params1()
    assigned = {"hidden_size": 64, "batch_size": 1024, "max_length": 100, "weight_decay": 0.0}
    added = {"filter_size": 128, "num_heads": 4, "num_encoder_layers": 2, "relu_dropout": 0.1}
    without_effect = {"use_pad_remover": True, "usr_rate": 0.5}
    for name, value in (assigned | {"label_smoothing": 0.2}).items():
        setattr(hparams, name, value)
    for name, value in (added | without_effect).items():
        hparams.add_hparam(name, value)
    expected = TransformerHParams(**assigned, **added, label_smoothing=0.2, num_hidden_layers=4)
    expected = expected.copy(optimizer_adam_beta1=0.85, optimizer_adam_beta2=0.997)
    settings = hparams.to_settings("mine")
    assert settings.to_dict() == {**expected.to_dict(), "usr_rate": 0.5}
    assert isinstance(settings, TransformerHParams)
    assert "hparams set mine: without effect here: use_pad_remover" in caplog.text
    hparams.add_hparam("norm_type", "batch")
    with pytest.raises(UsageError, match="norm_type='batch' is not implemented"):
        hparams.to_settings("mine")


def test_a_set_may_be_written_out():
    """As `tf.contrib.training.HParams(batch_size=..., ...)` in a user's function."""
    fields = {"hidden_size": 64, "filter_size": 128, "num_heads": 4}
    hparams = HParams(**fields, moe_k=2, pos=None, usr_rates=(0.5,), moe_hidden_sizes=("4096",))
    hparams.label_smoothing = 0.2
    hparams.optimizer_multistep_accumulate_steps = hparams.clip_grad_norm = None  # as in T2T
    hparams.shared_embedding_and_softmax_weights = None
    settings = hparams.to_settings("mine")
    others = {"pos": "none", "clip_grad_norm": 0.0, "moe_hidden_sizes": "4096"}
    others |= {"shared_embedding_and_softmax_weights": False}
    expected = TransformerHParams(**fields, **others, moe_k=2, label_smoothing=0.2)
    assert settings.to_dict() == {**expected.to_dict(), "usr_rates": [0.5]}


def test_sets_are_registered_as_this_packages(upstream):
    @t2t_registry.register_hparams
    def usr_small():
        hparams = t2t_registry.hparams("transformer_tiny")
        hparams.batch_size = 7
        return hparams

    @t2t_registry.register_hparams("usr_smaller")
    def derived():
        hparams = usr_small()
        hparams.hidden_size = 8
        return hparams

    tiny = registry.hparams("transformer_tiny")
    assert registry.hparams("usr_small") == tiny.copy(batch_size=7)
    assert registry.hparams("usr_smaller") == tiny.copy(batch_size=7, hidden_size=8)


def test_a_users_registration_replaces_this_packages(upstream, caplog):
    with caplog.at_level(logging.INFO):

        @t2t_registry.register_hparams
        def transformer_tiny():
            return HParams.of(registry.hparams("transformer_small"))

    assert "hparams set transformer_tiny: the user directory's replaces" in caplog.text
    assert registry.hparams("transformer_tiny").hidden_size == 256
    with pytest.raises(KeyError, match="already registered"):
        t2t_registry.register_hparams(transformer_tiny)


def test_the_default_name_is_that_of_a_class_or_function():
    class TranslateEndeUsr:
        pass

    def usr_small():
        pass

    names = [t2t_registry.default_name(entry) for entry in (TranslateEndeUsr, usr_small)]
    assert names == ["translate_ende_usr", "usr_small"]


@pytest.mark.parametrize("name", ["return", "two words", "override", "2x"])
def test_a_field_that_no_set_can_have_is_refused(name):
    own = base()
    own.add_hparam(name, 0.5)
    with pytest.raises(UsageError, match=f"hparam {name!r}: a field cannot have this name"):
        own.to_settings("usr_own")


def test_only_functions_are_registered(upstream):
    with pytest.raises(
        UsageError, match="register_hparams: expected a function or class, got 'usr'"
    ):
        t2t_registry.register_hparams("usr_text")("usr")
