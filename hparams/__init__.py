"""Hyperparameters: typed fields and registered sets, one module per model family."""

from t2t_lite.hparams import (
    lstm,
    transformer,
    transformer_paper,
    transformer_variations,
    universal_transformer,
)

__all__ = [
    "lstm",
    "transformer",
    "transformer_paper",
    "transformer_variations",
    "universal_transformer",
]
