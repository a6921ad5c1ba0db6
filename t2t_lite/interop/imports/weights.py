"""Gives a Transformer of ours the weights of another toolkit's.

A family of models names the parts of a Transformer (`Names`); `transformer_parts` lists every
variable of ours with the names and shapes of the tensors that form it, from the hyperparameters
alone, so that nothing is built before it is known to fit.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import keras
import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports.safe_files import Tensor

_MOST_NAMED = 5  # differences in an error
_FLOATS = ("float64", "float32", "float16", "bfloat16")


class Names(Protocol):
    """How a family of models names its tensors; layers count from 0."""

    def attention(self, side: str, layer: int, block: str, part: str, kind: str) -> str:
        """Returns the name of part q, k, v or o of block self or source; kind: kernel or bias."""

    def feed_forward(self, side: str, layer: int, part: str, kind: str) -> str:
        """Returns the name of the product expand or contract; kind: kernel or bias."""

    def norm(self, side: str, layer: int, block: str, place: str, kind: str) -> str:
        """Returns the name in the normalisation before or after block self, source or ffn.

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
        softmax: name of the softmax matrix, perhaps the same again. If it is the target's while the
            source has its own, ours is a copy, since no hparam ties these two alone.
        bias: name of the bias; read if there is one.
    """
    inputs, targets = sizes
    yield Part("targets_embedding.matrix", (target,), (targets, h.hidden_size))
    if source != target:
        yield Part("inputs_embedding.matrix", (source,), (inputs, h.hidden_size))
    if not h.shared_embedding_and_softmax_weights:
        yield Part("softmax_embedding.matrix", (softmax,), (targets, h.hidden_size))
    if h.softmax_bias:
        yield Part("output_projection.bias", (bias,), (targets,))


def in_order(tensor: Tensor, ids: Sequence[int], name: str) -> Tensor:
    """Returns a tensor with a row for each id of our vocabulary.

    Args:
        tensor: [V, ...], by the ids of the file.
        ids: the file's id of each of ours; -1: a row of zeros.
        name: the tensor's, for errors.

    Raises:
        DataError: the vocabulary has more or fewer ids than the tensor.
    """
    order = np.asarray(ids)
    known, rows = len({*ids} - {-1}), tensor.shape[0] if tensor.shape else 0
    if known != rows:
        raise DataError(
            f"{name} has {rows} rows, and the vocabulary {known} pieces: the vocabulary is of "
            "another model, or lacks ids"
        )

    def read() -> np.ndarray:
        values = tensor.read()[np.maximum(order, 0)]
        values[order < 0] = 0
        return values

    return tensor._replace(shape=(len(order), *tensor.shape[1:]), read=read)


def require_floats(tensors: Mapping[str, Tensor], path: str) -> None:
    """Raises DataError if a tensor does not hold floating-point numbers."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _FLOATS:
            raise DataError(
                f"{path}: {name} is {tensor.dtype}: quantized models cannot be imported; use the "
                "original"
            )


def check(parts: Iterable[Part], tensors: Mapping[str, Tensor], path: str) -> None:
    """Checks that the parts are exactly the tensors of a file.

    Raises:
        DataError: tensors are missing, unknown, or of another shape.
    """
    used: set[str] = set()

    def differences() -> Iterator[str]:
        for part in parts:
            for name in part.names:
                used.add(name)
                tensor = tensors.get(name)
                if tensor is None:
                    yield f"{name} {list(part.shape)} is missing"
                elif tensor.shape != part.shape:
                    yield f"{name} is {list(tensor.shape)}, not {list(part.shape)}"
        for name, tensor in tensors.items():
            if name not in used:
                yield f"{name} {list(tensor.shape)} is unknown here"

    # Not all: a file may claim a million layers.
    wrong = list(itertools.islice(differences(), _MOST_NAMED + 1))
    if wrong:
        more = "; ..." if len(wrong) > _MOST_NAMED else ""
        raise DataError(f"{path}: tensors do not fit the settings: {'; '.join(wrong[:5])}{more}")


def assign(
    model: keras.Model, parts: Iterable[Part], tensors: Mapping[str, Tensor], path: str
) -> None:
    """Assigns the tensors, which `check` has found to fit, to every variable of a model.

    Raises:
        DataError: a value is not finite, or cannot be read.
    """
    left = {id(variable) for variable in model.trainable_variables}
    for part in parts:
        variable = _variable(model, part.variable)
        values = [_finite(name, tensors[name].read(), path) for name in part.names]
        variable.assign(np.concatenate(values, axis=-1) if len(values) > 1 else values[0])
        left.remove(id(variable))
    assert not left, "every variable is a part"


def _finite(name: str, values: np.ndarray, path: str) -> np.ndarray:
    values = values.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise DataError(f"{path}: {name} has values that are not finite: download the file again")
    return values


def _variable(model: keras.Model, path: str) -> keras.Variable:
    found = model
    for name in path.split("."):
        found = found[int(name)] if name.isdecimal() else getattr(found, name)
    return found
