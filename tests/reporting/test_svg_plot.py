"""Plots: ticks that are nice, SVG that is well-formed, values where they belong."""

import math
import xml.etree.ElementTree as ET

import hypothesis.strategies as st
import pytest
from hypothesis import given

from t2t_lite.reporting.svg_plot import Curve, colour, dashes, line_plot, nice_ticks, tick_text

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(-1e12, 1e12).map(lambda x: round(x, 6))


@given(numbers, numbers, st.integers(1, 10))
def test_ticks_are_few_inside_and_evenly_spread(one: float, other: float, count: int):
    low, high = sorted((one, other))
    ticks = nice_ticks(low, high, count)
    assert len(ticks) <= count + 1
    slack = 1e-6 * (high - low)
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    if len(ticks) > 1:
        step = ticks[1] - ticks[0]
        assert step / 10 ** math.floor(math.log10(step) + 1e-6) == pytest.approx(
            round(step / 10 ** math.floor(math.log10(step) + 1e-6)), rel=1e-3
        )


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.0, 10.0, ["0", "2", "4", "6", "8", "10"]),
        (0.0, 10000.0, ["0", "2k", "4k", "6k", "8k", "10k"]),
        (0.0, 0.0021, ["0.0000", "0.0005", "0.0010", "0.0015", "0.0020"]),
        (1.6, 3.4, ["2.0", "2.5", "3.0"]),
        (0.0, 4e-5, ["0", "1e-5", "2e-5", "3e-5", "4e-5"]),
        (-1.0, 1.0, ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        (7.0, 7.0, ["7"]),
    ],
)
def test_labels_have_the_digits_that_tell_ticks_apart(low, high, texts):
    ticks = nice_ticks(low, high, 5)
    assert [tick_text(tick, ticks) for tick in ticks] == texts


def test_a_plot_is_well_formed_and_says_its_values():
    curves = [
        Curve('a<b>&"c"', [(100, 3.0), (200, math.nan), (300, 1.0)], 0),
        Curve("flat", [(100, 2.0), (300, 2.0)], 7),
        Curve("empty", [(100, math.inf)], 1),
    ]
    root = ET.fromstring(line_plot("loss <nats>", "step", curves))
    assert root.attrib["aria-label"] == "loss <nats>"
    assert root.find(f"{SVG}title").text == "loss <nats>"
    lines = root.findall(f"{SVG}polyline")
    assert [line.attrib["stroke"] for line in lines] == [colour(0), colour(7)]
    assert "stroke-dasharray" not in lines[0].attrib
    assert lines[1].attrib["stroke-dasharray"] == dashes(7)
    (x0, y0), (x1, y1) = (map(float, p.split(",")) for p in lines[0].attrib["points"].split())
    assert x0 < x1
    assert y0 < y1, "a greater value stands higher, which is a smaller y"
    titles = [circle.find(f"{SVG}title").text for circle in root.findall(f"{SVG}circle")]
    assert 'a<b>&"c", step 300: loss <nats> 1' in titles
    assert len(titles) == 4


@pytest.mark.parametrize("points", [[(5, 0.0)], [(0, 0.0), (9, 0.0)], [(0, -3.0), (0, -3.0)]])
def test_a_plot_without_extent_is_drawn(points):
    root = ET.fromstring(line_plot("t", "step", [Curve("c", points, 0)]))
    for circle in root.findall(f"{SVG}circle"):
        assert math.isfinite(float(circle.attrib["cx"]) + float(circle.attrib["cy"]))


def test_nothing_to_draw_is_no_plot():
    assert line_plot("t", "step", [Curve("c", [(1, math.nan)], 0), Curve("d", [], 1)]) == ""
