"""One layer's attention as a picture for papers: two columns of words with lines between them."""

import contextlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.errors import UsageError
from t2t_lite.study.insights.views import FAINT, View, head_colours
from t2t_lite.study.reports import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 20  # pixels per word
_LINES = 180  # pixels between the columns
_TOP = 46  # pixels above the words, for title and legend
_MARGIN = 10
_CHARACTER = 9  # width of the widest letters in pixels; wide characters take twice that
_LEGEND = 30  # pixels per head in the legend
_SQUARE = 10  # pixels of a head's square there
_SPREAD = 12  # pixels over which the lines of all heads are spread at a word
_FONT_SIZE = 12


def svg(view: View, layer: int | None = None, heads: Sequence[int] = ()) -> str:
    """Draws one layer as SVG; the larger a weight, the stronger its line.

    Args:
        view: the attention.
        layer: its number, from 1; None: the last.
        heads: their numbers, from 1; empty: all.

    Returns:
        An SVG document.
    """
    with _drawn(view, layer, heads) as (figure, title):
        return figures.svg(figure, title) + "\n"


def png(view: View, layer: int | None = None, heads: Sequence[int] = ()) -> bytes:
    """Draws one layer as PNG; arguments and errors as in `svg`."""
    with _drawn(view, layer, heads) as (figure, _):
        return figures.png(figure)


@contextlib.contextmanager
def _drawn(view: View, layer: int | None, heads: Sequence[int]) -> "Iterator[tuple[Figure, str]]":
    """Yields the picture and its title."""
    layer = layer or len(view.layers)
    if layer > len(view.layers):
        raise UsageError(f"--layer={layer}: the last layer is {len(view.layers)}")
    weights = view.layers[layer - 1]  # [H, Q, N]
    for head in heads:
        if not 1 <= head <= len(weights):
            raise UsageError(f"--heads: no head {head}; expected 1 to {len(weights)}")
    chosen = sorted(set(heads)) or range(1, len(weights) + 1)
    title = f"{view.title}, layer {layer}"
    left = _MARGIN + _width(view.rows)
    right = left + _LINES
    widths = (right + _width(view.columns), _width([title]), _LEGEND * len(chosen))
    width = max(widths) + 2 * _MARGIN
    height = _TOP + _ROW * max(len(view.rows), len(view.columns)) + _MARGIN
    with figures.drawing(width, height) as figure:
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))  # in pixels
        axes.set_axis_off()
        axes.text(_MARGIN, 13, title, fontsize=_FONT_SIZE, fontweight="bold", va="center")
        colours = head_colours(len(weights))
        _legend(axes, {head: colours[head - 1] for head in chosen})
        for place, head in enumerate(chosen):
            offset = _SPREAD * ((place + 0.5) / len(chosen) - 0.5)
            _lines(axes, weights[head - 1], (left + 5, right - 5), colours[head - 1], offset)
        _words(axes, view.rows, left, "right")
        _words(axes, view.columns, right, "left")
        yield figure, title


def _width(words: Sequence[str]) -> int:
    """Returns the width of the longest word in pixels, for any font."""
    return _CHARACTER * max(
        sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in word) for word in words
    )


def _middle(place: int) -> float:
    """Returns the vertical middle of a word."""
    return _TOP + _ROW * (place + 0.5)


def _legend(axes: "Axes", colours: dict[int, str]) -> None:
    """Draws the square and number of each head."""
    from matplotlib.patches import Rectangle

    for place, (head, colour) in enumerate(colours.items()):
        x = _MARGIN + _LEGEND * place
        axes.add_patch(Rectangle((x, 26), _SQUARE, _SQUARE, color=colour, linewidth=0))
        axes.text(x + 13, 26 + _SQUARE / 2, str(head), fontsize=_FONT_SIZE, va="center")


def _words(axes: "Axes", words: Sequence[str], x: int, side: str) -> None:
    """Writes a column of words, whose `side` is at x."""
    for place, word in enumerate(words):
        axes.text(
            x,
            _middle(place),
            word,
            fontsize=_FONT_SIZE,
            horizontalalignment=side,
            verticalalignment="center",
        )


def _lines(
    axes: "Axes", weights: np.ndarray, ends: tuple[int, int], colour: str, offset: float
) -> None:
    """Draws one head's weights [Q, N], `offset` pixels below the words' middles."""
    from matplotlib.collections import LineCollection

    places = np.argwhere(weights >= FAINT).tolist()
    axes.add_collection(
        LineCollection(
            [
                [(ends[0], _middle(row) + offset), (ends[1], _middle(column) + offset)]
                for row, column in places
            ],
            colors=[(colour, float(weights[row, column])) for row, column in places],
            linewidths=1.6,
        ),
        autolim=False,
    )
