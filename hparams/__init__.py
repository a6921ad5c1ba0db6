"""Hyperparameters: typed fields and registered sets, one module per model family."""

from t2t_lite.hparams import (
    evolved_transformer,
    lstm,
    transformer,
    transformer_paper,
    transformer_variations,
    universal_transformer,
)

__all__ = [
    "evolved_transformer",
    "lstm",
    "transformer",
    "transformer_paper",
    "transformer_variations",
    "universal_transformer",
]
