"""Hyperparameters: typed fields and registered sets, one module per model family."""

from t2t_lite.hparams import (
    byte_net,
    conv_s2s,
    deep_att,
    evolved_transformer,
    gnmt,
    language_model,
    lstm,
    moe_lstm,
    neural_gpu,
    refused_sets,
    transformer,
    transformer_paper,
    transformer_students,
    transformer_variations,
    universal_transformer,
    upstream_sets,
)

__all__ = [
    "byte_net",
    "conv_s2s",
    "deep_att",
    "evolved_transformer",
    "gnmt",
    "language_model",
    "lstm",
    "moe_lstm",
    "neural_gpu",
    "refused_sets",
    "transformer",
    "transformer_paper",
    "transformer_students",
    "transformer_variations",
    "universal_transformer",
    "upstream_sets",
]
