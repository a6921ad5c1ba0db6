"""Puts weights recorded from T2T into a model of ours, for the golden tests."""

import json
import pathlib
from typing import Any

import numpy as np

from t2t_lite import registry
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.residual import LayerSteps, Residual
from t2t_lite.models.transformer import Transformer


def recorded_hparams(folder: pathlib.Path) -> TransformerHParams:
    """Returns the recorded hparams as ours: those fields that we have."""
    recorded = json.loads((folder / "config.json").read_text())["hparams"]
    base = registry.hparams("transformer_base")
    known = {name: value for name, value in recorded.items() if name in base.names()}
    return base.copy(**{**known, "pos": recorded["pos"] or "none"})


def golden_transformer(folder: pathlib.Path) -> tuple[Transformer, dict[str, Any]]:
    """Builds the model of one golden folder; returns it and the folder's config."""
    config = json.loads((folder / "config.json").read_text())
    model = Transformer(
        recorded_hparams(folder), config["source_vocab_size"], config["target_vocab_size"]
    )
    assign(model, dict(np.load(folder / "weights.npz")), config.get("target_space_id", 0))
    return model, config


def assign(model: Transformer, weights: dict[str, np.ndarray], target_space_id: int) -> None:
    """Sets every variable of `model`; fails if a recorded weight is missing or left over."""
    recorded = _Recorded(weights)
    _assign_embeddings(model, recorded, target_space_id)
    for side in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model, f"{side}_layers")):
            _assign_layer(layer, recorded, f"{side}/layer_{i}")
        _assign_norm(getattr(model, f"{side}_end"), recorded, side)
    assert not recorded.left, f"not used: {sorted(recorded.left)}"


class _Recorded:
    """Recorded weights by name, each to be taken once."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.left = {name.removeprefix("transformer/"): array for name, array in weights.items()}

    def take(self, name: str) -> np.ndarray:
        return self.left.pop(f"body/{name}")

    def embedding(self, kind: str) -> np.ndarray | None:
        """Joins the slices weights_0, weights_1, ... of one matrix; None if it has none."""
        names = [name for name in self.left if f"/{kind}/weights_" in name]
        names.sort(key=lambda name: int(name.rsplit("_", 1)[1]))
        return np.concatenate([self.left.pop(name) for name in names]) if names else None


def _assign_embeddings(model: Transformer, recorded: _Recorded, target_space_id: int) -> None:
    shared = recorded.embedding("shared")
    if shared is not None:
        model.targets_embedding.matrix.assign(shared)
    else:
        model.inputs_embedding.matrix.assign(recorded.embedding("input_emb"))
        model.targets_embedding.matrix.assign(recorded.embedding("target_emb"))
        model.softmax_embedding.matrix.assign(recorded.embedding("softmax"))
    if model.target_space is not None:
        # Ours always adds row 0.
        table = recorded.take("target_space_embedding/kernel")
        model.target_space.assign(np.roll(table, -target_space_id, axis=0))
    if model.hparams.pos == "emb":
        model.inputs_position.table.assign(recorded.take("inputs_positional_embedding"))
        model.targets_position.table.assign(recorded.take("targets_positional_embedding"))


def _assign_layer(layer: Any, recorded: _Recorded, scope: str) -> None:
    """Sets one encoder or decoder layer."""
    own, ffn = layer.attention, layer.feed_forward
    _assign_attention([(own.qkv, "q k v")], own, recorded, f"{scope}/self_attention")
    _assign_residual(layer.attention_residual, recorded, f"{scope}/self_attention")
    if hasattr(layer, "source_attention"):
        source = layer.source_attention
        parts = [(source.query, "q"), (source.kv, "k v")]
        _assign_attention(parts, source, recorded, f"{scope}/encdec_attention")
        _assign_residual(layer.source_residual, recorded, f"{scope}/encdec_attention")
    for projection, name in ((ffn.expand, "conv1"), (ffn.contract, "conv2")):
        projection.kernel.assign(recorded.take(f"{scope}/ffn/{name}/kernel"))
        projection.bias.assign(recorded.take(f"{scope}/ffn/{name}/bias"))
    _assign_residual(layer.feed_forward_residual, recorded, f"{scope}/ffn")


def _assign_attention(
    parts: list[tuple[Any, str]], layer: Any, recorded: _Recorded, scope: str
) -> None:
    for projection, names in parts:
        kernels = [
            recorded.take(f"{scope}/multihead_attention/{name}/kernel") for name in names.split()
        ]
        projection.kernel.assign(np.concatenate(kernels, axis=1))
    output = recorded.take(f"{scope}/multihead_attention/output_transform/kernel")
    layer.output_projection.kernel.assign(output)


def _assign_residual(residual: Residual, recorded: _Recorded, scope: str) -> None:
    _assign_norm(residual.before, recorded, scope)
    _assign_norm(residual.after, recorded, scope, "layer_postprocess")


def _assign_norm(
    steps: LayerSteps, recorded: _Recorded, scope: str, kind: str = "layer_prepostprocess"
) -> None:
    if "n" in steps.sequence:
        steps.norm.gamma.assign(recorded.take(f"{scope}/{kind}/layer_norm/layer_norm_scale"))
        steps.norm.beta.assign(recorded.take(f"{scope}/{kind}/layer_norm/layer_norm_bias"))
