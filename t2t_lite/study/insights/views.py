"""One kind of attention with its words, ready to be shown."""

import colorsys
import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_lite.text.alignment.pharaoh import Links

FAINT = 0.02  # smaller weights are not drawn

_TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "encoder_decoder": "Encoder-decoder attention",
    "alignment": "Alignment of words",
}
_START = "<start>"  # the zero vector at the beginning of every target
_BLANK = "␣"  # a token of white space only
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclasses.dataclass(frozen=True)
class View:
    """The attention from the Q tokens of one sentence to the N of another or the same.

    Attributes:
        kind: encoder, decoder, encoder_decoder or alignment.
        title: the kind in words.
        rows: the Q tokens that attend; words, if it is an alignment.
        columns: the N that are attended to.
        layers: for each layer its heads' weights [H, Q, N]; an alignment has one, with one head.
    """

    kind: str
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    layers: Sequence[np.ndarray]


def make_views(
    maps: Mapping[str, Sequence[np.ndarray]], source: Sequence[str], target: Sequence[str]
) -> list[View]:
    """Labels the rows and columns of attention maps with words.

    A row of the decoder is the word that it predicts there, so that in its self-attention a word
    attends to the words before it.

    Args:
        maps: see `attention_maps`.
        source: S tokens as text.
        target: T tokens as text.
    """
    source, target = ([_visible(token) for token in side] for side in (source, target))
    words = {
        "encoder": (source, source),
        "decoder": (target, [_START, *target[:-1]]),
        "encoder_decoder": (target, source),
    }
    return [View(kind, _TITLES[kind], *words[kind], layers) for kind, layers in maps.items()]


def alignment_view(links: Links, source: str, target: str) -> View:
    """Returns the view of the links between the words of two texts: weights are 1 or 0."""
    rows, columns = ([_visible(word) for word in text.split()] for text in (target, source))
    weights = np.zeros((1, len(rows), len(columns)), np.float32)
    for column, row in links:
        weights[0, row, column] = 1
    return View("alignment", _TITLES["alignment"], rows, columns, [weights])


def _visible(token: str) -> str:
    """Returns a token in a form that HTML and SVG can show."""
    return _NOT_XML.sub("\ufffd", token) if token.strip() else _BLANK


def head_colours(heads: int) -> list[str]:
    """Returns this many colours, `#rrggbb`, evenly spaced around the colour wheel."""
    return [
        "#"
        + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(h / heads, 0.4, 0.8))
        for h in range(heads)
    ]
