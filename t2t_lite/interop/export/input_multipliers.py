"""How the inputs of a model's products are quantized: what they are multiplied by in 8 bits."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
from keras import ops

from t2t_lite.interop.layouts.marian_binary import LARGEST
from t2t_lite.interop.layouts.parts import Part
from t2t_lite.layers.dense import Projection
from t2t_lite.models.seq2seq import Seq2Seq

_BATCH = 16  # pairs that are read at a time
_SPREAD = 1.1  # standard deviations beyond the mean, as Bergamot's extract_stats.py has it

_SELECTED = "none"  # the name of the softmax's matrix with a short list


def input_multipliers(
    model: Seq2Seq, parts: Sequence[Part], pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> dict[str, float]:
    """Returns the multiplier of the input of each matrix by its name.

    Of the largest values in each call of the engine, the mean and 1.1 standard deviations become
    127. The engine calls an encoder once for a sentence, and a decoder once for a position.

    Args:
        model: a Transformer.
        parts: all its variables, with the names of their tensors.
        pairs: ids of sources and their outputs, each with EOS.
    """
    kernels = {
        part.names: (part.variable.rpartition(".")[0], part.variable.startswith("encoder."))
        for part in parts
        if part.variable.endswith(".kernel")
    }
    (target,) = (part.names for part in parts if part.variable == "targets_embedding.matrix")
    softmax = (_SELECTED, *target)
    largest: dict[tuple[str, ...], list[np.ndarray]] = defaultdict(list)
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        features = {
            name: _padded([pair[number] for pair in batch])
            for number, name in enumerate(("inputs", "targets"))
        }
        real = {name: ids != 0 for name, ids in features.items()}
        with contextlib.ExitStack() as hooks:
            for names, (path, in_encoder) in kernels.items():
                reads_source = in_encoder or path.endswith("source_attention.kv")
                seen = _collector(largest[names], real, reads_source)
                hooks.enter_context(_watched(_layer(model, path), seen))
            hidden = model.hidden({name: ops.convert_to_tensor(v) for name, v in features.items()})
        _collector(largest[softmax], real, False)(hidden)
    return {
        name: _multiplier(np.concatenate(values))
        for names, values in largest.items()
        for name in names
    }


def _multiplier(largest: np.ndarray) -> float:
    limit = float(largest.mean() + _SPREAD * largest.std())
    return LARGEST / limit if limit > 0 else 1.0


def _padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    padded = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def _collector(
    found: list[np.ndarray], real: Mapping[str, np.ndarray], reads_source: bool
) -> Callable[[keras.KerasTensor], None]:
    """Returns a function that notes the largest values of inputs [B, L, D] of each call."""

    def collect(x: keras.KerasTensor) -> None:
        values = np.abs(ops.convert_to_numpy(ops.cast(x, "float32"))).max(axis=-1)  # [B, L]
        if reads_source:
            found.append(np.where(real["inputs"], values, 0).max(axis=-1))
        else:
            found.append(values[real["targets"]])

    return collect


def _layer(model: Seq2Seq, path: str) -> Projection:
    found = model
    for name in path.split("."):
        found = found[int(name)] if name.isdecimal() else getattr(found, name)
    return found


@contextlib.contextmanager
def _watched(layer: Projection, seen: Callable[[keras.KerasTensor], None]) -> Iterator[None]:
    """Passes what a layer is applied to, in the block, to a function."""
    call = layer.call

    def watching(x: keras.KerasTensor) -> keras.KerasTensor:
        seen(x)
        return call(x)

    layer.call = watching  # type: ignore[method-assign]
    try:
        yield
    finally:
        del layer.call
