"""Absurd hyperparameters are refused with their bounds and meaning; every field has both."""

import importlib
import pkgutil

import pytest

from t2t_lite import hparams, registry
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers import recurrent, recurrent_attention
from t2t_lite.runs.config import TrainedModelConfig
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.settings import settings_of
from t2t_lite.study.insights.config import InsightsConfig
from t2t_lite.training.config import TrainerConfig

# By set, assignments none of which makes sense.
_ABSURD = {
    "transformer_base": """
        batch_size=0 batch_size=-1 effective_batch_size=-1 max_length=-5 min_length=-1
        min_length_bucket=0 length_bucket_step=0.5 length_multiple=0 batch_shuffle_size=-1
        max_input_seq_length=-1 max_target_seq_length=-1 bpe_dropout=1.5 unigram_alpha=-0.1
        source_casing_noise=2 source_typo_noise=-1 source_punctuation_noise=1.01
        term_augmentation=1.1 term_augmentation=-0.1 markup_augmentation=2 markup_augmentation=-1
        hidden_size=0
        hidden_size=-512 num_hidden_layers=-1 multiply_embedding_mode=sqrt initializer=zeros
        initializer_gain=0 initializer_gain=-1 label_smoothing=1 label_smoothing=-0.1
        symbol_dropout=1 rdrop_alpha=-1 simcut_alpha=-1 simcut_rate=0 simcut_rate=1
        clip_grad_norm=-1 dtype=float64 dtype=int8
        loss_chunk_tokens=-1 optimizer=adm optimizer_adam_beta1=2 optimizer_adam_beta1=1
        optimizer_adam_beta2=-0.5 optimizer_adam_epsilon=0 optimizer_adam_epsilon=-1e-9
        optimizer_multistep_accumulate_steps=-1 ema_decay=1 optimizer_adafactor_memory_exponent=-1
        optimizer_adafactor_clipping_threshold=0 optimizer_momentum_momentum=1 weight_decay=-0.01
        learning_rate_constant=-2 learning_rate=-0.1 learning_rate_decay_scheme=nom
        learning_rate_warmup_steps=-1 learning_rate_decay_steps=0 learning_rate_decay_rate=0
        learning_rate_decay_rate=-1 learning_rate_cosine_cycle_steps=0 learning_rate_minimum=-1
        learning_rate_constant=inf learning_rate=nan norm_epsilon=-1 norm_epsilon=0
        num_encoder_layers=-1 num_decoder_layers=-1 num_heads=0 num_heads=-8 filter_size=0
        ffn_layer=dense attention_key_channels=-1 attention_value_channels=-1 pos=sinus
        self_attention_type=relative max_relative_position=-1 attention_neighborhood=-1
        parameter_attention_heads=-1 parameter_attention_key_channels=-1
        parameter_attention_value_channels=-1 layer_prepostprocess_dropout=1
        attention_dropout=1.5 relu_dropout=-0.1 moe_num_experts=0 moe_k=0 moe_loss_coef=-1
        moe_gating_noise=-1 batch_size=1.5 batch_size=many shared_embedding=maybe
    """,
    "adaptive_universal_transformer_base": """
        recurrence_type=lstm num_rec_steps=0 act_type=global act_max_steps=0 act_epsilon=1
        act_halting_bias_init=1000 act_loss_weight=-1
    """,
    "lstm_attention": "dropout=1 cell=rnn attention_mechanism=dot attention_window=-1",
    "gnmt_8_layer": "dropout=1 attention_architecture=v3 forget_bias=1000 start_id=-1",
    "deep_att": "lstm_size=0 fast_forward_size=0 attention_size=-1 num_encoder_layers=0 dropout=1",
    "moe_lstm_32": "lstm_cells=0 dropout=1",
    "conv_s2s_wmt_en_de": "decoder_out_embed_dim=-1 dropout=1",
    "bytenet_base": """
        residual_block=dense num_block_repeat=0 kernel_height=0 unfolding=0.5 dropout=1
        norm_epsilon=-1
    """,
    "neural_gpu": """
        dropout=1 kernel_height=0 kernel_width=0 tape_width=0 tape_ratio=0 tape_extra=-1
    """,
}
_ABSURD_SEARCHES = """
    beam_size=0 alpha=100 alpha=nan length_penalty=gnmt coverage_penalty=-1 min_length=-1
    no_repeat_ngram_size=-1 sampling_method=beam sampling_temp=0 sampling_temp=-1
    sampling_keep_top_k=0 sampling_keep_top_k=-2 sampling_keep_top_p=0 sampling_keep_top_p=2
    seed=-1 extra_length=-1 batch_size=-1 dtype=half max_input_size=-2
"""


def classes() -> list[type]:
    """Every class of settings."""
    configs = [TrainerConfig, DecoderConfig, DatagenOptions, TrainedModelConfig, InsightsConfig]
    modules = [
        importlib.import_module(f"t2t_lite.hparams.{module.name}")
        for module in pkgutil.iter_modules(hparams.__path__)
    ]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BasicHParams)
    }
    return [*configs, ServerConfig, DecodeHParams, *sorted(found, key=lambda c: c.__name__)]


def refused(settings, assignment: str) -> None:
    """Asserts that the message has the name, the value, the bounds and the meaning."""
    name, _, text = assignment.partition("=")
    setting = settings_of(type(settings))[name]
    value = text if setting.kind is str else repr(setting.parsed(text))
    with pytest.raises(UsageError) as error:
        settings.override(assignment)
    message = str(error.value)
    assert message.startswith(f"{settings.noun} {name}={value}: expected ")
    assert setting.bounds in message
    assert message.endswith(f" ({setting.help})")


@pytest.mark.parametrize(
    ("hparams_set", "assignment"), [(s, a) for s, texts in _ABSURD.items() for a in texts.split()]
)
def test_absurd_hyperparameters_are_refused(hparams_set, assignment):
    refused(registry.hparams(hparams_set), assignment)


@pytest.mark.parametrize("assignment", _ABSURD_SEARCHES.split())
def test_absurd_searches_are_refused(assignment):
    refused(DecodeHParams(), assignment)


@pytest.mark.parametrize("settings", classes())
def test_every_field_has_help_and_every_number_has_bounds(settings):
    for setting in settings_of(settings).values():
        assert setting.help.endswith((".", "=VALUE,...", ")")), setting.name
        assert setting.bounds or setting.kind not in (int, float), setting.name


def test_choices_are_those_of_the_layers():
    fields = settings_of(LSTMHParams)
    assert {*fields["attention_mechanism"].choices} == {*recurrent_attention.ATTENTION}
    assert {*fields["cell"].choices} == {*recurrent.CELLS}
