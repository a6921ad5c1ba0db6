"""T2T's sets that are not available: what they need, and what to start from instead.

Models of kinds that are not here at all, such as those of images, have no sets in this list.
"""

from collections.abc import Mapping

from t2t_lite import registry

# What the sets need: their names.
NEEDS: Mapping[str, str] = {
    "speech, which no model here reads": """
        lstm_asr_v1 transformer_common_voice transformer_common_voice_tpu transformer_librispeech
        transformer_librispeech_tpu transformer_librispeech_tpu_v1 transformer_librispeech_tpu_v2
        transformer_librispeech_v1 transformer_librispeech_v2
        transformer_librispeech_with_area_attention
    """,
    "images, which no model here reads": """
        transformer_cifar10_memory_v0 transformer_imagenet64_memory_v0
    """,
    "numbers as inputs, which no model here reads": """
        transformer_timeseries transformer_timeseries_tpu
    """,
    "prepend_mode=prepend_inputs_full_attention; instead: attention_lm_translation": """
        attention_lm_translation_full_attention
    """,
    "a memory of earlier parts of a text; instead: transformer_wikitext103_l4k_v0": """
        transformer_wikitext103_l16k_memory_v0 transformer_wikitext103_l4k_memory_v0
    """,
    "experts of packed examples; instead: transformer_moe_base": """
        transformer_base_vq1_16_nb1_packed_dan_b01_scales
        transformer_base_vq1_16_nb1_packed_nda_b01_scales
        transformer_base_vq1_16_nb1_packed_nda_b01_scales_dialog transformer_base_vq_ada_32ex_packed
        transformer_topk_16_packed
    """,
    "the factor linear_decay of learning_rate_schedule; instead: transformer_tall_train_tied, or "
    "another set with cosdecay": """
        transformer_ada_lmpackedbase transformer_ada_lmpackedbase_dialog
        transformer_ada_lmpackedbase_relative transformer_tall_finetune_textclass
    """,
    "unidirectional_encoder; instead: transformer_tall_train_tied": """
        transformer_tall_finetune_uniencdec transformer_tall_train_uniencdec
    """,
    "batches of a number of examples; instead: transformer_tall_pretrain_lm": """
        transformer_tall_pretrain_lm_tpu transformer_tall_pretrain_lm_tpu_adafactor
        transformer_tall_pretrain_lm_tpu_adafactor_large
    """,
    "weights in bfloat16; instead: transformer_tpu_bf16_activation": "transformer_tpu_1b",
    "ffn_layer=conv_relu_conv; instead: transformer_tpu": "transformer_tpu_with_conv",
    "expected attention in the data; instead: transformer_base": "transformer_supervised_attention",
    "attention of several heads in an LSTM; instead: lstm_attention": """
        lstm_bahdanau_attention_multi lstm_luong_attention_multi
    """,
    "attention to areas; instead: lstm_luong_attention": """
        lstm_area_attention_base lstm_area_attention_char lstm_area_attention_char_enfr
        lstm_area_attention_enfr
    """,
    "add_step_timing_signal=False; instead: the set without _tpu": """
        adaptive_universal_transformer_base_tpu universal_transformer_base_tpu
    """,
    "act_type=global; instead: adaptive_universal_transformer_base": """
        adaptive_universal_transformer_global_base adaptive_universal_transformer_global_base_tpu
    """,
    "transformer_ffn_type=sepconv; instead: the set without sepconv": """
        adaptive_universal_transformer_sepconv_tiny universal_transformer_sepconv_base
        universal_transformer_sepconv_big universal_transformer_sepconv_tiny
    """,
    "several layers in a recurrent step; instead: adaptive_universal_transformer_base": """
        adaptive_universal_transformer_multilayer_hard
        adaptive_universal_transformer_multilayer_tpu
    """,
    "another recurrence_type than basic and act; instead: universal_transformer_base": """
        universal_transformer_dwa_base universal_transformer_gru_base
        universal_transformer_highway_base universal_transformer_lstm_base
        universal_transformer_lstm_tall universal_transformer_skip_base
    """,
    "position_start_index; instead: universal_transformer_tiny": """
        adaptive_universal_transformer_position_random_timing_tiny
        universal_transformer_position_random_timing_tiny
        universal_transformer_position_step_timing_tiny
    """,
    "step_timing_signal_type=sinusoid; instead: universal_transformer_tiny": """
        universal_transformer_step_sinusoid_timing_tiny
    """,
    "add_or_concat_timing_signal=concat; instead: adaptive_universal_transformer_tiny": """
        adaptive_universal_transformer_concat_tiny
    """,
    "add_sru; instead: adaptive_universal_transformer_base": """
        adaptive_universal_transformer_with_sru_base
    """,
    "mix_with_transformer; instead: the set without mix": """
        adaptive_universal_transformer_mix_after_ut_base
        adaptive_universal_transformer_mix_before_ut_base universal_transformer_mix_after_ut_base
        universal_transformer_mix_before_ut_base
    """,
    "ranges for tuning, which are not used here; instead: the set without _range": """
        adaptive_universal_transformer_base_range transformer_base_range transformer_tiny_tpu_range
        transformer_tpu_range universal_transformer_base_range
    """,
}

for _reason, _names in NEEDS.items():
    for _name in _names.split():
        registry.refuse_hparams(
            _name, f"T2T's hparams set {_name!r} is not available: it needs {_reason}"
        )
