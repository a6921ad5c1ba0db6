"""One layer's attention as a picture for papers: two columns of words with lines between."""

import html
import unicodedata
from collections.abc import Sequence

import numpy as np

from t2t_lite.errors import UsageError, UserError
from t2t_lite.insights.views import FAINT, View, head_colours

_ROW = 20  # pixels from word to word
_LINES = 180  # pixels between the columns
_TOP = 46  # pixels above the words, for title and legend
_MARGIN = 10
_CHARACTER = 9  # pixels that the widest letters take at this size; wide characters take twice that
_LEGEND = 30  # pixels of a head in the legend
_SPREAD = 12  # pixels over which the lines of all heads are spread at a word
_SCALE = 3  # pixels of PNG for one of SVG: 288 dpi
# Renderers of PNG know no generic family: the fonts that systems come with stand before it.
_STYLE = (
    "<style>text { font: 12px Helvetica, Arial, 'DejaVu Sans', 'Liberation Sans', 'Noto Sans', "
    "sans-serif; fill: #222 } .title { font-weight: bold }</style>"
)


def svg(view: View, layer: int | None = None, heads: Sequence[int] = ()) -> str:
    """Draws one layer; the stronger a weight, the stronger its line.

    Args:
        view: the attention.
        layer: its number, from 1; None: the last.
        heads: their numbers, from 1; none: all.

    Returns:
        An SVG document.

    Raises:
        UsageError: there is no such layer or head.
    """
    layer = layer or len(view.layers)
    if layer > len(view.layers):
        raise UsageError(f"--layer={layer}: the last layer is {len(view.layers)}")
    weights = view.layers[layer - 1]  # [H, Q, N]
    for head in heads:
        if not 1 <= head <= len(weights):
            raise UsageError(f"--heads: there is no head {head}, they go from 1 to {len(weights)}")
    chosen = sorted(set(heads)) or range(1, len(weights) + 1)
    title = f"{view.title}, layer {layer}"
    left = _MARGIN + _width(view.rows)
    right = left + _LINES
    widths = (right + _width(view.columns), _width([title]), _LEGEND * len(chosen))
    width = max(widths) + 2 * _MARGIN
    height = _TOP + _ROW * max(len(view.rows), len(view.columns)) + _MARGIN
    colours = head_colours(len(weights))
    drawn = []
    for place, head in enumerate(chosen):
        colour = colours[head - 1]
        offset = _SPREAD * ((place + 0.5) / len(chosen) - 0.5)
        drawn.append(_legend(_MARGIN + _LEGEND * place, head, colour))
        drawn += _lines(weights[head - 1], (left + 5, right - 5), colour, offset)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            _STYLE,
            f'<text class="title" x="{_MARGIN}" y="17">{title}</text>',
            *drawn,
            *_words(view.rows, left, "end"),
            *_words(view.columns, right, "start"),
            "</svg>\n",
        ]
    )


def png(document: str) -> bytes:
    """Renders an SVG document on white; needs the package resvg_py.

    Raises:
        UserError: the machine has none of the fonts, without which words would be missing.
    """
    import resvg_py

    def render(document: str) -> bytes:
        return resvg_py.svg_to_bytes(svg_string=document, background="white", zoom=_SCALE)

    letter, nothing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{_STYLE}'
        f'<text y="15">{text}</text></svg>'
        for text in ("A", "")
    )
    if render(letter) == render(nothing):
        raise UserError(
            "no font is on this machine to write words in a PNG: install one, such as DejaVu Sans "
            "(Debian: fonts-dejavu-core), or choose --format=svg"
        )
    return render(document)


def _width(words: Sequence[str]) -> int:
    """Pixels that hold the longest word, whatever the font."""
    return _CHARACTER * max(
        sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in word) for word in words
    )


def _middle(place: int) -> float:
    """Height of a word's middle."""
    return _TOP + _ROW * (place + 0.5)


def _legend(x: int, head: int, colour: str) -> str:
    return (
        f'<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 13}" y="35">{head}</text>'
    )


def _words(words: Sequence[str], x: int, anchor: str) -> list[str]:
    return [
        f'<text x="{x}" y="{_middle(place) + 4}" text-anchor="{anchor}">{html.escape(word)}</text>'
        for place, word in enumerate(words)
    ]


def _lines(weights: np.ndarray, ends: tuple[int, int], colour: str, offset: float) -> list[str]:
    """Draws one head's weights [Q, N], `offset` pixels below the words' middles."""
    return [
        f'<line x1="{ends[0]}" y1="{_middle(row) + offset:.1f}" '
        f'x2="{ends[1]}" y2="{_middle(column) + offset:.1f}" '
        f'stroke="{colour}" stroke-width="1.6" stroke-opacity="{weights[row, column]:.3f}"/>'
        for row, column in np.argwhere(weights >= FAINT).tolist()
    ]
