"""Line plots as SVG text, for pages without scripts or network access."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.study.reports import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 460, 280  # pixels of a plot
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 30, 30, 44  # margins around the axes
_MAX_HOVERS = 120  # points per curve with a hover text
_MAX_MARKERS = 40  # curves with more points have no visible markers

# Larger values, NaN and infinity are not drawn: matplotlib cannot compute an axis for them.
_TOO_LARGE = 1e100

# The palette of Okabe & Ito (2008) for colour-blind readers, without yellow, too pale on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ((), (5, 3), (2, 2))  # lengths of dashes and gaps in pixels, once colours are used up


@dataclasses.dataclass(frozen=True)
class Curve:
    """One line of a plot.

    Attributes:
        name: shown in the legend.
        points: (x, y), in the order of x; points whose y is not finite or too large are left out.
        style: index of its colour and dashes, the same for a run in all plots.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: int


def colour(style: int) -> str:
    """Returns the colour of a style."""
    return _COLOURS[style % len(_COLOURS)]


def dashes(style: int) -> tuple[int, ...]:
    """Returns the dash pattern of a style in pixels; empty for a solid line."""
    return _DASHES[style // len(_COLOURS) % len(_DASHES)]


def line_plot(title: str, x_label: str, curves: Sequence[Curve], standalone: bool = False) -> str:
    """Draws curves on common axes; the horizontal axis starts at 0 or below.

    Args:
        title: shown above the plot, and read by screen readers.
        x_label: shown below the horizontal axis.
        curves: in drawing order.
        standalone: whether to draw a white background and each curve's name at its end, for a
            file without a surrounding page and its legend.

    Returns:
        An `<svg>` element whose axes have the page's `color`; "" if there is no point.
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
    """Draws a curve; returns the points with markers, which are visible if there are few points."""
    paint, dash = colour(curve.style), dashes(curve.style)
    style = (0, dash) if dash else "solid"
    axes.plot(*zip(*curve.points, strict=True), color=paint, linestyle=style, linewidth=1.4)
    few = len(curve.points) <= _MAX_MARKERS
    marked = curve.points[:: -math.ceil(len(curve.points) / _MAX_HOVERS)]
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
    """Draws the curve's name above its last point, inside the plot."""
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
