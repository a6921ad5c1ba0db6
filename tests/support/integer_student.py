"""A student of Bergamot's engine in NumPy, with the engine's arithmetic in 8 bits.

The inputs of a product are rounded to [-127, 127] and raised by 127. Two neighbours' products are
then added in 16 bits, where they saturate (`maddubs` of AVX2), and these sums in 32 bits.
"""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_lite.interop.imports.marian_binary import read_binary
from t2t_lite.interop.layouts.marian import SETTINGS
from t2t_lite.interop.layouts.marian_binary import INPUT_MULTIPLIER, LARGEST, quantized


def arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a model in binary form, but for its settings."""
    return {
        name: tensor.read() for name, tensor in read_binary(path)[0].items() if name != SETTINGS
    }


class IntegerStudent:
    """Decodes greedily, one sentence at a time.

    Args:
        arrays: the float32 form of the model by Marian's names; the softmax has the matrix of the
            target.
        multipliers: of the inputs of each matrix, by the matrix's name.
        heads: of attention.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], multipliers: Mapping[str, float], heads: int
    ) -> None:
        self._vectors = {name: values.ravel() for name, values in arrays.items()}
        self._matrices = {name: quantized(arrays[name]) for name in multipliers if name in arrays}
        source, self._softmax = (
            name if name in arrays else "Wemb" for name in ("encoder_Wemb", "decoder_Wemb")
        )
        self._sources, self._targets = map(_embeddings, (arrays[source], arrays[self._softmax]))
        rows, multiplier = self._matrices[self._softmax]
        self._matrices[self._softmax] = (rows.T, multiplier)
        self._multipliers = multipliers
        self._heads = heads

    @classmethod
    def of(cls, folder: pathlib.Path, heads: int) -> "IntegerStudent":
        """Reads a student that t2t-exporter has written."""
        (path,), (narrow,) = (folder.glob(f"*{n}") for n in (".float32.bin", ".alphas.bin"))
        multipliers = {
            name.removesuffix(INPUT_MULTIPLIER): float(values[0])
            for name, values in arrays(narrow).items()
            if name.endswith(INPUT_MULTIPLIER)
        }
        return cls(arrays(path), multipliers, heads)

    def greedy(
        self, source: Sequence[int], end: int, candidates: Sequence[int] = (), extra: int = 4
    ) -> list[int]:
        """Returns the output of a source.

        Args:
            source: ends with `end`; the output does not.
            end: id of the end.
            candidates: the ids that a short list permits; none: all.
            extra: the greatest length of an output beyond twice that of the source.
        """
        memory = _embedded(self._sources, source, 0)
        for layer in self._layers("encoder"):
            memory = self._attention(f"{layer}_self", memory, memory)
            memory = self._feed_forward(f"{layer}_ffn", memory)
        layers = self._layers("decoder")
        cells = [np.zeros(memory.shape[1], np.float32) for _ in layers]
        found: list[int] = []
        while len(found) < 2 * len(source) + extra:
            x = _embedded(self._targets, found[-1:] or [None], len(found))
            for number, layer in enumerate(layers):
                kept = 1 / (1 + np.exp(-self._product(x, f"{layer}_rnn_Wf", f"{layer}_rnn_bf")))
                new = self._product(x, f"{layer}_rnn_W")
                cells[number] = kept * cells[number] + (1 - kept) * new
                x = self._normalized(f"{layer}_rnn_ffn", np.maximum(cells[number], 0) + x)
                x = self._attention(f"{layer}_context", x, memory)
                x = self._feed_forward(f"{layer}_ffn", x)
            logits = self._product(x, self._softmax, "decoder_ff_logit_out_b")[0]
            permitted = np.asarray(candidates or range(len(logits)))
            best = int(permitted[logits[permitted].argmax()])
            if best == end:
                break
            found.append(best)
        return found

    def _layers(self, side: str) -> list[str]:
        count = sum(name.endswith("_ffn_W1") for name in self._matrices if name.startswith(side))
        return [f"{side}_l{number + 1}" for number in range(count)]

    def _product(self, x: np.ndarray, name: str, bias: str = "") -> np.ndarray:
        matrix, multiplier = self._matrices[name]
        own = np.float32(self._multipliers[name])
        wide = matrix.astype(np.int32)
        raised = np.clip(np.rint(x * own), -LARGEST, LARGEST).astype(np.int32) + LARGEST
        pairs = raised[:, ::2, None] * wide[::2] + raised[:, 1::2, None] * wide[1::2]
        sums = np.clip(pairs, -(1 << 15), (1 << 15) - 1).sum(axis=1) - LARGEST * wide.sum(axis=0)
        y = sums.astype(np.float32) / (own * multiplier)
        return y + self._vectors[bias] if bias else y

    def _normalized(self, name: str, x: np.ndarray) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)
        return self._vectors[f"{name}_ln_scale"] * x + self._vectors[f"{name}_ln_bias"]

    def _attention(self, name: str, x: np.ndarray, memory: np.ndarray) -> np.ndarray:
        q, k, v = (
            self._product(inputs, f"{name}_W{part}", f"{name}_b{part}")
            .reshape(len(inputs), self._heads, -1)
            .swapaxes(0, 1)
            for inputs, part in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        logits = q @ k.swapaxes(1, 2) / np.sqrt(np.float32(q.shape[-1]))
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        read = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        y = self._product(read.swapaxes(0, 1).reshape(x.shape), f"{name}_Wo", f"{name}_bo")
        return self._normalized(f"{name}_Wo", y + x)

    def _feed_forward(self, name: str, x: np.ndarray) -> np.ndarray:
        inner = np.maximum(self._product(x, f"{name}_W1", f"{name}_b1"), 0)
        return self._normalized(f"{name}_ffn", self._product(inner, f"{name}_W2", f"{name}_b2") + x)


def _embeddings(matrix: np.ndarray) -> np.ndarray:
    """Returns the rows of a matrix as the engine reads them in 8 bits."""
    rows, multiplier = quantized(matrix)
    return rows.astype(np.float32) / multiplier


def _embedded(matrix: np.ndarray, ids: Sequence[int | None], start: int) -> np.ndarray:
    """Returns embeddings with positions; None is a zero vector."""
    size = matrix.shape[1]
    rows = [np.zeros(size) if id_ is None else matrix[id_] for id_ in ids]
    rates = 1e-4 ** (np.arange(size // 2) / (size // 2 - 1))
    angles = np.arange(start, start + len(ids))[:, None] * rates
    positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return (np.sqrt(size) * np.stack(rows) + positions).astype(np.float32)
