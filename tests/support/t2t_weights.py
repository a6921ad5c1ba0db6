"""Puts weights recorded from T2T into a model of ours, for the golden tests."""

import json
import pathlib
from typing import Any

import numpy as np

from t2t_lite import registry
from t2t_lite.interop.imports import t2t_settings, t2t_variables
from t2t_lite.layers.base import without_initial_values
from t2t_lite.models.transformer import Transformer


def golden_transformer(folder: pathlib.Path) -> tuple[Transformer, dict[str, Any]]:
    """Builds the model of one golden folder; returns it and the folder's config."""
    config = json.loads((folder / "config.json").read_text())
    model_class = registry.model(config.get("model", "transformer"))
    hparams = t2t_settings.from_recorded(config["hparams"], model_class.hparams_class)
    with without_initial_values():
        model = model_class(hparams, config["source_vocab_size"], config["target_vocab_size"])
    t2t_variables.assign(model, dict(np.load(folder / "weights.npz")), config["target_space_id"])
    return model, config
