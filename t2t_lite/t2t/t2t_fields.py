"""Hyperparameters of T2T that do not exist here: without effect, or with one value implemented."""

import re
from collections.abc import Mapping
from typing import Any

from t2t_lite.imports import settings
from t2t_lite.t2t.modalities import ModalityType

# "feature:kind:name", of T2T before 1.12.
_SYMBOL_ENTRIES = re.compile(r"((\w+:)?symbol:default;?)+")

# Of what changes the model, see `settings.ONLY`; these change how it is trained and decoded.
_ONLY_TRAINING: Mapping[str, Any] = {
    "bottom": {},
    "gpu_automatic_mixed_precision": False,
    "grad_noise_scale": 0.0,
    "gumbel_noise_weight": 0.0,
    "input_modalities": "default",  # until T2T 1.11; then `modality`
    "loss": {},
    "modality": {},
    "name": {},
    "optimizer_adafactor_beta1": 0.0,
    "optimizer_adafactor_decay_type": "pow",
    "optimizer_adafactor_factored": True,
    "optimizer_adafactor_multiply_by_parameter_scale": True,
    "output_attention": True,
    "num_heads": 1,  # of attention in recurrent models
    "num_trainable_top_decoder_layers": -1,
    "pack_dataset": False,
    "position_features": "",
    "prepend_mode": "none",  # of models other than the Transformer
    "pretrained_model_dir": "",
    "sampling_method": "argmax",
    "scheduled_sampling_prob": 0.0,
    "split_targets_chunk_length": 0,
    "split_to_length": 0,
    "target_modality": "default",
    "top": {},
    "use_fixed_batch_size": False,
    "warm_start_from_second": "",
    "weight_dtype": "float32",
    "weight_noise": 0.0,
    "weights_fn": {},
}
_SYMBOLS = "remove it: features are sequences of symbols, or labels of a Text2ClassProblem"
# What to do instead of another value.
INSTEAD: Mapping[str, str] = {
    "gpu_automatic_mixed_precision": "set dtype to float16",
    "input_modalities": _SYMBOLS,
    "modality": _SYMBOLS,
    "pretrained_model_dir": "t2t-trainer --warm_start_from",
    "sampling_method": "t2t-decoder --decode_hparams=sampling_temp=...",
    "target_modality": _SYMBOLS,
    "use_fixed_batch_size": "batch_size counts subwords",
    "warm_start_from_second": "t2t-trainer --warm_start_from",
}
# Fields of our sets that users' functions add to T2T's, as T2T's own functions do.
ADDED = frozenset({"attention_mechanism"})
# Ours under T2T's name.
RENAMED: Mapping[str, str] = {"activation_dtype": "dtype"}

# T2T's defaults of fields that change nothing here: sizes of memory and logs, the placement on
# devices, and fields that only models of other kinds read.
NO_EFFECT: Mapping[str, Any] = {
    "add_ffn_unit_to_the_transition_function": False,
    "add_relative_to_values": False,
    "area_key_mode": "none",
    "area_value_mode": "none",
    "attention_dropout_broadcast_dims": "",
    "attention_layer_size": 0,
    "compress_steps": 0,
    "conv_first_kernel": 3,
    "couple_carry_transform_gates": True,
    "daisy_chain_variables": True,
    "data_dir": None,
    "depth_embedding": True,
    "dropout": 0.2,
    "dwa_elements": True,
    "eval_run_autoregressive": False,
    "force_full_predict": False,
    "gate_ffn_layer": "dense",
    "heads_share_relative_embedding": False,
    "kernel_height": 3,
    "kernel_width": 1,
    "layer_postprocess_sequence": "dan",
    "layer_prepostprocess_dropout": 0.1,
    "layer_prepostprocess_dropout_broadcast_dims": "",
    "layer_preprocess_sequence": "none",
    "lstm_forget_bias": 1.0,
    "max_area_height": 1,
    "max_area_width": 1,
    "max_relative_position": 0,
    "memory_height": 1,
    "mixed_precision_optimizer_init_loss_scale": 2**15,
    "mixed_precision_optimizer_loss_scaler": "exponential",
    "mlperf_mode": False,
    "moe_hidden_sizes": "2048",
    "moe_k": 2,
    "moe_loss_coef": 1e-2,
    "moe_num_experts": 64,
    "moe_overhead_eval": 2.0,
    "moe_overhead_train": 1.0,
    "multiproblem_fixed_train_length": -1,
    "multiproblem_label_weight": 0.5,
    "multiproblem_max_input_length": -1,
    "multiproblem_max_target_length": -1,
    "multiproblem_mixing_schedule": "constant",
    "multiproblem_per_task_threshold": "",
    "multiproblem_reweight_label_loss": False,
    "multiproblem_schedule_max_examples": 1e7,
    "multiproblem_schedule_threshold": 0.5,
    "multiproblem_target_eval_only": False,
    "multiproblem_vocab_size": -1,
    "no_data_parallelism": False,
    "norm_epsilon": 1e-6,
    "num_mixedin_layers": 2,
    "num_sampled_classes": 0,
    "optimizer_adafactor_beta2": 0.999,
    "optimizer_zero_grads": False,
    "overload_eval_metric_name": "",
    "pad_batch": False,
    "print_vars": False,
    "problem_choice": "adaptive",
    "relu_dropout_broadcast_dims": "",
    "sampling_keep_top_k": -1,
    "sampling_temp": 1.0,
    "scheduled_sampling_gold_mixin_prob": 0.5,
    "scheduled_sampling_method": "parallel",
    "scheduled_sampling_num_passes": 1,
    "scheduled_sampling_warmup_schedule": "exp",
    "scheduled_sampling_warmup_steps": 50000,
    "split_targets_max_chunks": 100,
    "split_targets_strided_training": False,
    "summarize_grads": False,
    "summarize_vars": False,
    "symbol_modality_num_shards": 1,
    "tpu_enable_host_call": False,
    "transform_bias_init": -1.0,
    "use_custom_ops": True,
    "use_memory_as_final_state": False,
    "use_pad_remover": True,
    "video_num_input_frames": 1,
    "video_num_target_frames": 1,
}


def _value(text: str) -> Any:
    """Returns a value of `settings.ONLY` as T2T holds it."""
    return int(text) if text.isdecimal() else text


ONLY: Mapping[str, Any] = {
    **{name: _value(text) for name, text in settings.ONLY.items()},
    **_ONLY_TRAINING,
}


def is_implemented(name: str, value: Any) -> bool:
    """Whether a field of `ONLY` holds the value that is implemented."""
    only = ONLY[name]
    if name == "modality" and isinstance(value, Mapping):
        return set(value.values()) <= {ModalityType.SYMBOL}
    if only == "default" and _SYMBOL_ENTRIES.fullmatch(str(value)):
        return True
    return bool(value == only) or settings.as_text(value) == settings.as_text(only)
