"""The variables of a Transformer of ours, and the tensors of another toolkit that hold them.

A family of models names the parts of a Transformer (`Names`); `transformer_parts` lists every
variable of ours with the names and shapes of its tensors, from the hyperparameters alone. Readers
go through the list from the tensors to the variables (`imports/weights.py`), writers from the
variables to the tensors (`values_of`).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import keras
import numpy as np
from keras import ops

from t2t_lite.hparams.transformer import TransformerHParams


class Names(Protocol):
    """How a family of models names its tensors; layers count from 0."""

    def attention(self, side: str, layer: int, block: str, part: str, kind: str) -> str:
        """Returns the name of part q, k, v or o of block self or source; kind: kernel or bias.

        A block ssru, in place of self, has the parts "" (the candidate) and f (the gate).
        """

    def feed_forward(self, side: str, layer: int, part: str, kind: str) -> str:
        """Returns the name of the product expand or contract; kind: kernel or bias."""

    def norm(self, side: str, layer: int, block: str, place: str, kind: str) -> str:
        """Returns the name in the normalisation before or after block self, ssru, source or ffn.

        kind: gamma or beta.
        """

    def end(self, side: str, kind: str) -> str:
        """Returns the name in the normalisation after the last layer; kind: gamma or beta."""


class Part(NamedTuple):
    """A variable of ours, and the tensors that form its columns."""

    variable: str  # a path from the model, such as encoder.stack.0.attention.qkv.kernel
    names: tuple[str, ...]  # of the tensors, from the left
    shape: tuple[int, ...]  # of each of them


def transformer_parts(h: TransformerHParams, names: Names) -> Iterator[Part]:
    """Yields all variables of a Transformer's encoder and decoder, except embeddings."""
    for side, layers in (("encoder", h.encoder_layers), ("decoder", h.decoder_layers)):
        for number in range(layers):
            yield from _layer(h, names, side, number)
        if _normalizes(h.final_sequence):
            for kind in ("gamma", "beta"):
                path, shape = f"{side}.end.norm.{kind}", (h.hidden_size,)
                yield Part(path, (names.end(side, kind),), shape)


def _layer(h: TransformerHParams, names: Names, side: str, number: int) -> Iterator[Part]:
    layer, d = f"{side}.stack.{number}", h.hidden_size
    blocks = {"self": "attention", "ffn": "feed_forward"}
    products = {("self", "attention.qkv"): "qkv", ("self", "attention.output_projection"): "o"}
    if side == "decoder" and h.decoder_self == "ssru":
        blocks, products = {"ssru": "attention", "ffn": "feed_forward"}, {}
        kernels = tuple(names.attention(side, number, "ssru", part, "kernel") for part in ("", "f"))
        yield Part(f"{layer}.attention.projection.kernel", kernels, (d, d))
        bias = names.attention(side, number, "ssru", "f", "bias")
        yield Part(f"{layer}.attention.gate_bias", (bias,), (d,))
    if side == "decoder":
        blocks["source"] = "source"
        products |= {
            ("source", "source_attention.query"): "q",
            ("source", "source_attention.kv"): "kv",
            ("source", "source_attention.output_projection"): "o",
        }
    kinds: dict[str, tuple[int, ...]] = {"kernel": (d, d)} | (
        {"bias": (d,)} if h.attention_bias else {}
    )
    for (block, path), parts in products.items():
        for kind, shape in kinds.items():
            found = (names.attention(side, number, block, part, kind) for part in parts)
            yield Part(f"{layer}.{path}.{kind}", tuple(found), shape)
    f = h.filter_size
    for part, inputs, outputs in (("expand", d, f), ("contract", f, d)):
        for kind, size in (("kernel", (inputs, outputs)), ("bias", (outputs,))):
            name = names.feed_forward(side, number, part, kind)
            yield Part(f"{layer}.feed_forward.{part}.{kind}", (name,), size)
    places = {"before": h.layer_preprocess_sequence, "after": h.layer_postprocess_sequence}
    for block, path in blocks.items():
        for place in (place for place, steps in places.items() if _normalizes(steps)):
            for kind in ("gamma", "beta"):
                name = names.norm(side, number, block, place, kind)
                yield Part(f"{layer}.{path}_residual.{place}.norm.{kind}", (name,), (d,))


def _normalizes(steps: str) -> bool:
    return steps != "none" and "n" in steps


def embedding_parts(
    h: TransformerHParams, sizes: tuple[int, int], source: str, target: str, softmax: str, bias: str
) -> Iterator[Part]:
    """Yields the matrices of a model with a row for each id, and the bias of its logits.

    Args:
        h: the hyperparameters.
        sizes: of the vocabularies of source and target.
        source: name of the source's embedding.
        target: name of the target's, perhaps the same.
        softmax: name of the softmax matrix, perhaps the same again.
        bias: name of the bias; read if there is one.
    """
    inputs, targets = sizes
    yield Part("targets_embedding.matrix", (target,), (targets, h.hidden_size))
    if source != target:
        yield Part("inputs_embedding.matrix", (source,), (inputs, h.hidden_size))
    if not (h.shared_embedding_and_softmax_weights or h.shared_target_and_softmax_weights):
        yield Part("softmax_embedding.matrix", (softmax,), (targets, h.hidden_size))
    if h.softmax_bias:
        yield Part("output_projection.bias", (bias,), (targets,))


def values_of(model: keras.Model, parts: Iterable[Part]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the tensors of parts by name, as our model holds them.

    Args:
        model: has the variables; those that it lacks, such as biases, are 0.
        parts: of the model.
    """
    for part in parts:
        variable = variable_of(model, part.variable)
        if variable is None:
            yield from ((name, np.zeros(part.shape, np.float32)) for name in part.names)
            continue
        columns = np.split(ops.convert_to_numpy(variable), len(part.names), axis=-1)
        yield from zip(part.names, columns, strict=True)


def variable_of(model: keras.Model, path: str) -> keras.Variable | None:
    """Returns the variable of a part; None: the model lacks it."""
    found = model
    for name in path.split("."):
        found = found[int(name)] if name.isdecimal() else getattr(found, name, None)
    return found
