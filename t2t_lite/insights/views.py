"""One kind of attention with the words that it is between, ready to be shown."""

import colorsys
import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np

FAINT = 0.02  # weights below leave no line

_TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "encoder_decoder": "Encoder-decoder attention",
}
_START = "<start>"  # the zero vector that every target begins with
_BLANK = "␣"  # a token that is white space alone
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclasses.dataclass(frozen=True)
class View:
    """How the Q words of one sentence look at the N words of one sentence, maybe the same.

    Attributes:
        kind: encoder, decoder or encoder_decoder.
        title: the kind in words.
        rows: Q words that look.
        columns: N words that are looked at.
        layers: for each layer its heads' weights [H, Q, N].
    """

    kind: str
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    layers: Sequence[np.ndarray]


def make_views(
    maps: Mapping[str, Sequence[np.ndarray]], source: Sequence[str], target: Sequence[str]
) -> list[View]:
    """Names the rows and columns of attention maps.

    A row of a decoder is the word that it predicts there, so that in its self-attention a word
    looks at the words before it.

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


def _visible(token: str) -> str:
    """Returns a token as HTML and SVG can show it."""
    return _NOT_XML.sub("\ufffd", token) if token.strip() else _BLANK


def head_colours(heads: int) -> list[str]:
    """Returns so many colours, `#rrggbb`, of equal steps around the circle of hues."""
    return [
        "#"
        + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(h / heads, 0.4, 0.8))
        for h in range(heads)
    ]
