"""Puts weights recorded from T2T into a model of ours, for the golden tests."""

import json
import pathlib

import numpy as np

from t2t_lite import registry
from t2t_lite.models.transformer import Transformer


def recorded_hparams(folder: pathlib.Path):
    """Returns the recorded hparams as ours: those fields that we have."""
    recorded = json.loads((folder / "config.json").read_text())["hparams"]
    base = registry.hparams("transformer_base")
    known = {k: v for k, v in recorded.items() if k in base.names()}
    known["pos"] = recorded["pos"] or "none"
    return base.copy(**known)


def golden_transformer(folder: pathlib.Path) -> tuple[Transformer, dict]:
    """Builds the model of one golden folder; returns it and the folder's config."""
    config = json.loads((folder / "config.json").read_text())
    sizes = {k: config[k] for k in config if "vocab" in k}
    weights = dict(np.load(folder / "weights.npz"))
    model = Transformer(
        recorded_hparams(folder), sizes["source_vocab_size"], sizes["target_vocab_size"]
    )
    assign(model, weights, config.get("target_space_id", 0))
    return model, config


def assign(model: Transformer, weights: dict[str, np.ndarray], target_space_id: int) -> None:
    """Sets every variable of `model`; fails if a recorded weight is left over."""
    unused = {name.removeprefix("transformer/"): w for name, w in weights.items()}

    def take(name: str) -> np.ndarray:
        return unused.pop(f"body/{name}")

    def embedding(kind: str, side: str) -> np.ndarray | None:
        names = [n for n in unused if n.split("/")[1] == kind and n.startswith("symbol")]
        if side and len({n.split("/")[0] for n in names}) > 1:
            raise AssertionError(names)
        names.sort(key=lambda n: int(n.rsplit("_", 1)[1]))
        return np.concatenate([unused.pop(n) for n in names]) if names else None

    shared = embedding("shared", "")
    if shared is not None:
        model.targets_embedding.matrix.assign(shared)
    else:
        model.inputs_embedding.matrix.assign(embedding("input_emb", "source"))
        model.targets_embedding.matrix.assign(embedding("target_emb", "target"))
        model.softmax_embedding.matrix.assign(embedding("softmax", "target"))
    if model.target_space is not None:
        table = take("target_space_embedding/kernel")
        model.target_space.assign(np.roll(table, -target_space_id, axis=0))
    if model.hparams.pos == "emb":
        model.inputs_position.table.assign(take("inputs_positional_embedding"))
        model.targets_position.table.assign(take("targets_positional_embedding"))

    def residual(wrapper, prefix: str) -> None:
        for steps, name in ((wrapper.before, "preprocess"), (wrapper.after, "postprocess")):
            if "n" in steps.sequence:
                for kind in ("layer_prepostprocess", "layer_postprocess"):
                    scope = f"{prefix}/{kind}/layer_norm"
                    if f"body/{scope}/layer_norm_scale" in unused:
                        steps.norm.gamma.assign(take(f"{scope}/layer_norm_scale"))
                        steps.norm.beta.assign(take(f"{scope}/layer_norm_bias"))
                        break
                else:
                    raise AssertionError((prefix, name))

    def attention(layer, prefix: str, parts: list[tuple[object, str]]) -> None:
        for projection, names in parts:
            kernels = [take(f"{prefix}/multihead_attention/{n}/kernel") for n in names]
            projection.kernel.assign(np.concatenate(kernels, axis=1))
        output = take(f"{prefix}/multihead_attention/output_transform/kernel")
        layer.output_projection.kernel.assign(output)

    def feed_forward(layer, prefix: str) -> None:
        for projection, name in ((layer.expand, "conv1"), (layer.contract, "conv2")):
            projection.kernel.assign(take(f"{prefix}/{name}/kernel"))
            projection.bias.assign(take(f"{prefix}/{name}/bias"))

    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for i, layer in enumerate(layers):
            prefix = f"{side}/layer_{i}"
            attention(layer.attention, f"{prefix}/self_attention", [(layer.attention.qkv, "qkv")])
            residual(layer.attention_residual, f"{prefix}/self_attention")
            if side == "decoder":
                source = layer.source_attention
                attention(
                    source,
                    f"{prefix}/encdec_attention",
                    [(source.query, "q"), (source.kv, "kv")],
                )
                residual(layer.source_residual, f"{prefix}/encdec_attention")
            feed_forward(layer.feed_forward, f"{prefix}/ffn")
            residual(layer.feed_forward_residual, f"{prefix}/ffn")
        end = model.encoder_end if side == "encoder" else model.decoder_end
        if "n" in end.sequence:
            scope = f"{side}/layer_prepostprocess/layer_norm"
            end.norm.gamma.assign(take(f"{scope}/layer_norm_scale"))
            end.norm.beta.assign(take(f"{scope}/layer_norm_bias"))
    assert not unused, f"not used: {sorted(unused)}"
