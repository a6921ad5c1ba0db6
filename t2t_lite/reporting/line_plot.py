"""Line plots as SVG text, for pages that need neither scripts nor a network."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.reporting import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 460, 280  # pixels of a plot
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 30, 30, 44  # margins around the axes
_MOST_HOVERS = 120  # points of a curve that tell their values
_MOST_MARKERS = 40  # a curve of no more points shows them

# Values from here on are not drawn, nor are NaN and infinity: their axis could not be computed.
_TOO_LARGE = 1e100

# Okabe & Ito (2008), told apart by colour-blind readers; yellow, too pale on white, left out.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ((), (5, 3), (2, 2))  # pixels drawn and left out, when the colours are used up


@dataclasses.dataclass(frozen=True)
class Curve:
    """One line of a plot.

    Attributes:
        name: in the legend.
        points: (x, y), x rising; where y is not finite, or too large, there is no point.
        style: number of its colour, the same for one run in all plots.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: int


def colour(style: int) -> str:
    """Returns the colour of a style."""
    return _COLOURS[style % len(_COLOURS)]


def dashes(style: int) -> tuple[int, ...]:
    """Returns the dash pattern of a style in pixels; empty for an unbroken line."""
    return _DASHES[style // len(_COLOURS) % len(_DASHES)]


def line_plot(title: str, x_label: str, curves: Sequence[Curve], standalone: bool = False) -> str:
    """Draws curves over common axes; the horizontal one begins at 0 or below.

    Args:
        title: above the plot, and what screen readers say.
        x_label: beneath the horizontal axis.
        curves: in the order of drawing.
        standalone: has a white background and writes each curve's name at its end, for a file
            that no page with a legend is around.

    Returns:
        An `<svg>` element whose axes follow the page's `color`; "" if there is no point.

    Raises:
        UserError: matplotlib is not installed.
    """
    finite = [
        dataclasses.replace(curve, points=[p for p in curve.points if abs(p[1]) < _TOO_LARGE])
        for curve in curves
    ]
    drawn = [curve for curve in finite if curve.points]
    if not drawn:
        return ""
    with figures.drawing(WIDTH, HEIGHT, "white" if standalone else "none") as figure:
        axes = figure.add_axes(
            (
                _LEFT / WIDTH,
                _BOTTOM / HEIGHT,
                1 - (_LEFT + _RIGHT) / WIDTH,
                1 - (_TOP + _BOTTOM) / HEIGHT,
            )
        )
        axes.set_title(title, loc="left")
        axes.set_xlabel(x_label)
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.grid(axis="y")
        axes.margins(x=0)
        hovers = {}
        for number, curve in enumerate(drawn):
            hovers[f"curve{number}"] = [
                f"{curve.name}, {x_label} {x:,.10g}: {title} {y:.5g}"
                for x, y in _draw(axes, curve, f"curve{number}")
            ]
            if standalone:
                _name(axes, curve)
        lowest = min(y for curve in drawn for _, y in curve.points)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        if lowest >= 0.0:
            axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))
        return figures.svg(figure, title, hovers)


def _draw(axes: "Axes", curve: Curve, gid: str) -> Sequence[tuple[float, float]]:
    """Draws a curve; returns the points that are marked, visibly if they are few."""
    paint, dash = colour(curve.style), dashes(curve.style)
    style = (0, dash) if dash else "solid"
    axes.plot(*zip(*curve.points, strict=True), color=paint, linestyle=style, linewidth=1.4)
    few = len(curve.points) <= _MOST_MARKERS
    marked = curve.points[:: -math.ceil(len(curve.points) / _MOST_HOVERS)]
    axes.plot(
        *zip(*marked, strict=True),
        color=paint,
        gid=gid,
        linestyle="none",
        marker="o",
        markersize=3.8 if few else 8,
        markeredgewidth=0,
        alpha=None if few else 0.0,
        clip_on=False,
    )
    return marked


def _name(axes: "Axes", curve: Curve) -> None:
    """Writes the curve's name above its last point, into the plot."""
    x, _ = curve.points[-1]
    right = x > axes.dataLim.x1 / 2
    axes.annotate(
        curve.name,
        curve.points[-1],
        xytext=(0, 4),
        textcoords="offset points",
        ha="right" if right else "left",
        color=colour(curve.style),
    )
