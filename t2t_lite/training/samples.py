"""Samples of an evaluation for TensorBoard: outputs, and attention to one fixed sentence."""

import re
from collections.abc import Sequence

import numpy as np

from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.decoding.dataset_decoding import Decodes
from t2t_lite.models.attention_maps import attention_maps
from t2t_lite.models.seq2seq import Seq2Seq

_SAMPLES = 5  # number of sentences
_CELL = 8  # pixels per side of the square of a weight
_GAP = 8  # pixels between heads
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+.!|~-])")


def sample_table(decodes: Decodes) -> list[list[str]]:
    """Returns the first sentences as a table in Markdown; the first row is the header."""
    rows = zip(decodes.sources, decodes.references, decodes.outputs, strict=True)
    shown = [(source, reference, output.text) for source, reference, output in rows][:_SAMPLES]
    return [
        ["source", "reference", "output"],
        *([_MARKDOWN.sub(r"\\\1", text) for text in row] for row in shown),
    ]


def attention_images(
    model: Seq2Seq, paths: Sequence[str], reader: ExampleReader
) -> list[np.ndarray]:
    """Draws the attention of each decoder layer to the source of the first example.

    The reference target is used (teacher forcing), so that images of a run can be compared. Rows
    are target positions, columns source positions, black is a weight of 1; heads are side by side.

    Args:
        model: any model.
        paths: TFRecord files.
        reader: reads examples from the files.

    Returns:
        For each layer an image [height, width, 1] in [0, 1]; none if there is no example,
        or the model has no attention to the source.
    """
    examples = eval_examples(paths, reader, limit=1)
    if not examples:
        return []
    source, target = examples[0]
    seen = attention_maps(model, source, target).get("encoder_decoder", [])
    return [_side_by_side(weights) for weights in seen]


def _side_by_side(weights: np.ndarray) -> np.ndarray:
    """Draws heads [H, T, S] as dark cells on white: [height, width, 1]."""
    cells = np.kron(1.0 - weights, np.ones((_CELL, _CELL), np.float32))  # [H, T·c, S·c]
    padded = np.pad(cells, [(0, 0), (_GAP, _GAP), (_GAP, 0)], constant_values=1.0)
    return np.pad(np.hstack(list(padded)), [(0, 0), (0, _GAP)], constant_values=1.0)[..., None]
