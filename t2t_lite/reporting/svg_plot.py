"""Line plots as SVG text, for pages that need neither scripts nor a network."""

import dataclasses
import html
import math
from collections.abc import Sequence

WIDTH, HEIGHT = 460, 280  # pixels of a plot
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 30, 44  # margins around the axes
_MOST_HOVERS = 120  # points of a curve that tell their values
_MOST_MARKERS = 40  # a curve of no more points shows them

# Values from here on are not drawn, nor are NaN and infinity: their axis could not be computed.
_TOO_LARGE = 1e100

# Okabe & Ito (2008), told apart by colour-blind readers; yellow, too pale on white, left out.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_STYLE = (
    "<style>text { font: 11px sans-serif; fill: #555 } .title { font-size: 13px; fill: #000 } "
    ".grid { stroke: #ddd; stroke-width: .6 } .axis { stroke: #555 }</style>"
)
_DASHES = ("", "5 3", "2 2")  # when the colours are used up


@dataclasses.dataclass(frozen=True)
class Curve:
    """One line of a plot.

    Attributes:
        name: in the legend.
        points: (x, y), x rising; where y is not finite, or too large, the line has a gap.
        style: number of its colour, the same for one run in all plots.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: int


def colour(style: int) -> str:
    """Returns the colour of a style."""
    return _COLOURS[style % len(_COLOURS)]


def dashes(style: int) -> str:
    """Returns the dash pattern of a style; "" for an unbroken line."""
    return _DASHES[style // len(_COLOURS) % len(_DASHES)]


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Returns at most `count` + 1 multiples of 1, 2 or 5 times a power of ten in [low, high].

    Args:
        low: the least value to show.
        high: the greatest, at least `low`.
        count: about how many ticks, at least 1.
    """
    if high <= low:
        return [low]
    least = (high - low) / count
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [multiple * step for multiple in range(first, last + 1)]


def tick_text(value: float, ticks: Sequence[float]) -> str:
    """Returns a tick's label, with no more digits than tell the ticks apart."""
    largest = max(map(abs, ticks))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else largest or 1.0
    if largest and not 1e-3 <= largest < 1e6:
        exponent = math.floor(math.log10(largest))
        scaled = f"{value / 10.0**exponent:.{_decimals(step / 10.0**exponent)}f}"
        return f"{scaled}e{exponent}" if value else "0"
    if largest >= 1e4 and step >= 100:
        return f"{value / 1000:.{_decimals(step / 1000)}f}k" if value else "0"
    return f"{value:.{_decimals(step)}f}"


def _decimals(step: float) -> int:
    """Decimals that a multiple of `step` needs."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


class _Axes:
    """Maps values to pixels and draws the frame; the horizontal axis begins at 0 or below."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        xs, ys = [x for x, _ in points], [y for _, y in points]
        self.x_low, self.x_high = min(0.0, *xs), max(xs)
        margin = 0.04 * (max(ys) - min(ys)) or 0.05 * abs(max(ys)) or 1.0
        self.y_low, self.y_high = min(ys) - margin, max(ys) + margin
        if min(ys) >= 0.0:
            self.y_low = max(self.y_low, 0.0)

    def x(self, value: float) -> float:
        share = (value - self.x_low) / ((self.x_high - self.x_low) or 1.0)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    def frame(self, x_label: str) -> list[str]:
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        parts = []
        ticks = nice_ticks(self.y_low, self.y_high, 6)
        for tick in ticks:
            y = self.y(tick)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
            )
            parts.append(
                f'<text class="tick" x="{_LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">'
                f"{tick_text(tick, ticks)}</text>"
            )
        ticks = nice_ticks(self.x_low, self.x_high, 5)
        for tick in ticks:
            x = self.x(tick)
            parts.append(
                f'<line class="axis" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}"/>'
            )
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
                f"{tick_text(tick, ticks)}</text>"
            )
        parts.append(
            f'<path class="axis" fill="none" d="M{_LEFT},{_TOP}V{bottom}H{right}"/>'
            f'<text class="tick" x="{(_LEFT + right) / 2}" y="{HEIGHT - 9}" '
            f'text-anchor="middle">{html.escape(x_label)}</text>'
        )
        return parts


def line_plot(title: str, x_label: str, curves: Sequence[Curve], standalone: bool = False) -> str:
    """Draws curves over common axes.

    Points with a value that is not finite are left out.

    Args:
        title: above the plot, and what screen readers say.
        x_label: beneath the horizontal axis.
        curves: in the order of drawing.
        standalone: brings its own style and writes each curve's name at its end, for a file that
            no page with style and legend is around.

    Returns:
        An `<svg>` element whose colours follow the page's `color`; "" if there is no point.
    """
    finite = [
        dataclasses.replace(curve, points=[p for p in curve.points if abs(p[1]) < _TOO_LARGE])
        for curve in curves
    ]
    drawn = [curve for curve in finite if curve.points]
    if not drawn:
        return ""
    axes = _Axes([point for curve in drawn for point in curve.points])
    name = html.escape(title)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{name}">',
            f"<title>{name}</title>",
            *([_STYLE] if standalone else []),
            f'<text class="title" x="{_LEFT}" y="17">{name}</text>',
            *axes.frame(x_label),
            *(_draw(curve, axes, title, x_label) for curve in drawn),
            *(_name(curve, axes) for curve in drawn if standalone),
            "</svg>",
        ]
    )


def _name(curve: Curve, axes: _Axes) -> str:
    """Writes the curve's name above its last point, into the plot."""
    x, y = curve.points[-1]
    anchor = "end" if axes.x(x) > WIDTH / 2 else "start"
    return (
        f'<text class="tick" x="{axes.x(x):.1f}" y="{axes.y(y) - 4:.1f}" text-anchor="{anchor}" '
        f'style="fill:{colour(curve.style)}">{html.escape(curve.name)}</text>'
    )


def _draw(curve: Curve, axes: _Axes, title: str, x_label: str) -> str:
    """Draws the line, and circles that say their values when pointed at."""
    paint, dash = colour(curve.style), dashes(curve.style)
    pixels = [f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in curve.points]
    parts = [
        f'<polyline points="{" ".join(pixels)}" fill="none" stroke="{paint}" '
        f'stroke-width="1.4" stroke-linejoin="round"'
        + (f' stroke-dasharray="{dash}"/>' if dash else "/>")
    ]
    few = len(curve.points) <= _MOST_MARKERS
    every = math.ceil(len(curve.points) / _MOST_HOVERS)
    for x, y in curve.points[::-every]:
        where = html.escape(f"{curve.name}, {x_label} {x:,.10g}")
        parts.append(
            f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="{1.9 if few else 4}" '
            f'fill="{paint if few else "transparent"}">'
            f"<title>{where}: {html.escape(title)} {y:.5g}</title>"
            "</circle>"
        )
    return "\n".join(parts)
