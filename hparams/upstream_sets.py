"""T2T's other sets of text models, as changes of another set.

The values are T2T 1.15's (tests/hparams/upstream_sets.json has them, recorded from its source).
Fields that mean nothing here, such as the number of embedding shards, are left out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from t2t_lite import registry
from t2t_lite.hparams import language_model, transformer, transformer_variations
from t2t_lite.hparams import universal_transformer as universal
from t2t_lite.hparams.transformer import TransformerHParams

# What T2T's `update_hparams_for_tpu` changes; nothing in it needs a TPU. It lowers `batch_size` to
# 2,048, which is less than that of every set in `_SETS` that has it.
FOR_TPU: Mapping[str, Any] = {
    "optimizer": "adafactor",
    "learning_rate_schedule": "rsqrt_decay",
    "learning_rate_warmup_steps": 10000,
    "max_length": 64,
    "batch_size": 2048,
}
_COSINE = "linear_warmup*constant*cosdecay"
_EVOLVED_TPU = {
    "num_encoder_layers": 3,
    "num_decoder_layers": 4,
    "learning_rate_constant": 0.01,
    "learning_rate_schedule": "constant*single_cycle_cos_decay",
}
_ADAPTIVE_TALL = {
    "recurrence_type": "act",
    "num_hidden_layers": 16,
    "batch_size": 1024,
    "act_max_steps": 24,
}

_Function = Callable[[], TransformerHParams]
_PARENTS: dict[str, _Function] = {
    function.__name__: function
    for function in (
        language_model.transformer_lm_tpu_0,
        transformer.transformer_base,
        transformer.transformer_big,
        transformer.transformer_big_enfr,
        transformer.transformer_big_single_gpu,
        transformer.transformer_small,
        transformer.transformer_tiny,
        transformer_variations.transformer_clean,
        universal.universal_transformer_base,
        universal.universal_transformer_small,
    )
}

# name: the set that it changes, what it is, and the changes.
_SETS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    # --- models/transformer.py
    "transformer_tpu": ("transformer_base", "Base with Adafactor and short texts.", FOR_TPU),
    "transformer_packed_tpu": ("transformer_tpu", "Another name of `transformer_tpu`.", {}),
    "transformer_tpu_bf16_activation": (
        "transformer_tpu",
        "`transformer_tpu` with activations in bfloat16.",
        {"dtype": "bfloat16"},
    ),
    "transformer_tiny_tpu": ("transformer_tiny", "Tiny with Adafactor and short texts.", FOR_TPU),
    "transformer_small_tpu": (
        "transformer_small",
        "Small with Adafactor and short texts.",
        FOR_TPU,
    ),
    "transformer_big_tpu": ("transformer_big", "Big with Adafactor and short texts.", FOR_TPU),
    "transformer_big_enfr_tpu": (
        "transformer_big_enfr",
        "`transformer_big_enfr` with 8 heads, Adafactor and short texts.",
        {"num_heads": 8, **FOR_TPU},
    ),
    "transformer_mlperf_tpu": (
        "transformer_base",
        "The size of big with the dropout of base, as in MLPerf.",
        {"batch_size": 2048, "hidden_size": 1024, "filter_size": 4096, "num_heads": 16},
    ),
    "transformer_clean_big": (
        "transformer_clean",
        "`transformer_clean` with twice the width.",
        {"hidden_size": 1024, "filter_size": 4096},
    ),
    "transformer_clean_big_tpu": (
        "transformer_clean_big",
        "`transformer_clean_big` with Adafactor and short texts.",
        FOR_TPU,
    ),
    "transformer_fairseq_fp16_activation_big": (
        "transformer_big",
        "Big in float16, after Ott et al. (2018).",
        {"dtype": "float16", "batch_size": 3584},
    ),
    "transformer_cubbitt": (
        "transformer_big_single_gpu",
        "The models of CUBBITT: Adafactor, without dropout of sub-layer outputs.",
        {
            "learning_rate_schedule": "rsqrt_decay",
            "batch_size": 2900,
            "learning_rate_warmup_steps": 8000,
            "max_length": 150,
            "layer_prepostprocess_dropout": 0.0,
            "optimizer": "adafactor",
        },
    ),
    "transformer_tall": (
        "transformer_base",
        "12 layers of 768 features, for language models of long texts.",
        {
            "batch_size": 2048,
            "hidden_size": 768,
            "filter_size": 3072,
            "num_hidden_layers": 12,
            "num_heads": 12,
            "label_smoothing": 0.0,
            "max_length": 1024,
            "eval_drop_long_sequences": True,
            "clip_grad_norm": 1.0,
        },
    ),
    "transformer_tall_big": (
        "transformer_tall",
        "`transformer_tall` with 18 layers.",
        {"num_hidden_layers": 18},
    ),
    "transformer_tall_finetune_tied": (
        "transformer_tall",
        "`transformer_tall` for fine-tuning: cosine decay from 5e-5 in 80,000 updates.",
        {
            "learning_rate_schedule": _COSINE,
            "learning_rate_constant": 5e-5,
            "learning_rate_warmup_steps": 100,
            "learning_rate_decay_steps": 80000,
            "optimizer": "true_adam",
        },
    ),
    "transformer_tall_train_tied": (
        "transformer_tall",
        "`transformer_tall` with cosine decay from 2e-4 in 150,000 updates.",
        {
            "learning_rate_schedule": _COSINE,
            "learning_rate_constant": 2e-4,
            "learning_rate_decay_steps": 150000,
            "optimizer": "true_adam",
        },
    ),
    "transformer_tall_pretrain_lm": (
        "transformer_tall",
        "`transformer_tall` for pretraining: AdamW, cosine decay from 2e-4.",
        {
            "learning_rate_schedule": _COSINE,
            "learning_rate_constant": 2e-4,
            "learning_rate_decay_steps": 5000000,
            "optimizer": "adam_w",
            "weight_decay": 0.01 * 2e-4,
            "optimizer_adam_beta2": 0.999,
            "optimizer_adam_epsilon": 1e-8,
        },
    ),
    "transformer_lm_tpu_1": (
        "transformer_lm_tpu_0",
        "T2T's language model of 335 million parameters: 2,048 features.",
        {"hidden_size": 2048, "filter_size": 8192},
    ),
    "transformer_wikitext103_l4k_v0": (
        "transformer_big",
        "A language model of texts of up to 4,096 subwords: 8 layers, Adafactor.",
        {
            "optimizer": "adafactor",
            "learning_rate_schedule": "rsqrt_decay",
            "learning_rate_warmup_steps": 10000,
            "num_heads": 4,
            "max_length": 4096,
            "batch_size": 4096,
            "shared_embedding_and_softmax_weights": False,
            "num_hidden_layers": 8,
            "layer_prepostprocess_dropout": 0.2,
            "label_smoothing": 0.0,
        },
    ),
    # --- models/evolved_transformer.py
    "evolved_transformer_base_tpu": (
        "transformer_tpu",
        "The base model with Adafactor and short texts; cosine decay, without warm-up.",
        _EVOLVED_TPU,
    ),
    "evolved_transformer_big_tpu": (
        "transformer_big_tpu",
        "The big model with Adafactor and short texts; cosine decay, without warm-up.",
        _EVOLVED_TPU,
    ),
    "evolved_transformer_tpu_basic": (
        "transformer_big_tpu",
        "Six layers on each side, 8,192 subwords per batch, Adafactor.",
        {"batch_size": 8192, "max_length": 256},
    ),
    # --- models/research/universal_transformer.py
    "transformer_teeny": (
        "transformer_base",
        "Six layers of 128 features, two heads; a Transformer.",
        {"hidden_size": 128, "filter_size": 128, "num_heads": 2},
    ),
    "universal_transformer_teeny": (
        "universal_transformer_small",
        "The layer of `transformer_teeny`, 10 times.",
        {"hidden_size": 128, "filter_size": 128, "num_heads": 2, "num_rec_steps": 10},
    ),
    "universal_transformer_base_fp16": (
        "universal_transformer_small",
        "`universal_transformer_small` in float16; as in T2T, not the size of base.",
        {"dtype": "float16"},
    ),
    "universal_transformer_small_dropconnect": (
        "universal_transformer_small",
        "`universal_transformer_small`: it has no gate, which the change in T2T is about.",
        {},
    ),
    "adaptive_universal_transformer_tall": (
        "universal_transformer_small",
        "`universal_transformer_small` with at most 24 adaptive steps.",
        _ADAPTIVE_TALL,
    ),
    "adaptive_universal_transformer_tall_actlossw0": (
        "universal_transformer_small",
        "`adaptive_universal_transformer_tall` without the loss of the steps.",
        {**_ADAPTIVE_TALL, "act_loss_weight": 0.0},
    ),
    "adaptive_universal_transformer_tall_actlossw001": (
        "universal_transformer_small",
        "`adaptive_universal_transformer_tall` with a tenth of the loss of the steps.",
        {**_ADAPTIVE_TALL, "act_loss_weight": 0.001},
    ),
    "adaptive_universal_transformer_base_dropout03": (
        "universal_transformer_base",
        "`adaptive_universal_transformer_base` with dropout 0.3 everywhere.",
        {"recurrence_type": "act", "attention_dropout": 0.3, "relu_dropout": 0.3},
    ),
    "adaptive_universal_transformer_base_dropout05": (
        "universal_transformer_base",
        "`adaptive_universal_transformer_base` with dropout 0.5 everywhere.",
        {
            "recurrence_type": "act",
            "layer_prepostprocess_dropout": 0.5,
            "attention_dropout": 0.5,
            "relu_dropout": 0.5,
        },
    ),
}


def _register(name: str, parent: str, summary: str, changes: Mapping[str, Any]) -> None:
    start = _PARENTS[parent]

    def made() -> TransformerHParams:
        return start().copy(**changes)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = summary
    _PARENTS[name] = registry.register_hparams(name)(made)


for _name, _entry in _SETS.items():
    _register(_name, *_entry)
