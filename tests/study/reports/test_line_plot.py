"""Plots are well-formed SVG with values at the right places."""

import math
import re
import xml.etree.ElementTree as ET

import pytest

from t2t_lite.study.reports.line_plot import Curve, colour, line_plot

SVG = "{http://www.w3.org/2000/svg}"


def curves(root: ET.Element) -> list[tuple[str, list[tuple[float, float]]]]:
    """Returns the style and points of a plot's curves; lines without hue are axes and grid."""
    found = []
    for path in root.iter(f"{SVG}path"):
        style = path.get("style", "")
        if re.search(r"stroke: #(?!fff)", style) and "clip-path" in path.attrib:
            numbers = [float(x) for x in re.findall(r"-?[\d.]+", path.attrib["d"])]
            found.append((style, list(zip(numbers[::2], numbers[1::2], strict=True))))
    return found


def hovers(root: ET.Element) -> list[str]:
    return [use.find(f"{SVG}title").text for use in root.iter(f"{SVG}use") if len(use)]


def test_a_plot_is_well_formed_and_says_its_values():
    root = ET.fromstring(
        line_plot(
            "loss <nats> in $",
            "step",
            [
                Curve('a<b>&"c" $x$', [(100, 3.0), (200, math.nan), (300, 1.0)], 0),
                Curve("flat", [(100, 2.0), (300, 2.0)], 8),
                Curve("empty", [(100, math.inf)], 1),
            ],
        )
    )
    assert root.attrib["aria-label"] == "loss <nats> in $"
    assert root.find(f"{SVG}title").text == "loss <nats> in $"
    lines = curves(root)
    assert [re.search("stroke: (#.*?);", style)[1] for style, _ in lines] == [colour(0), colour(8)]
    assert "stroke-dasharray" not in lines[0][0]
    assert "stroke-dasharray: 5,3" in lines[1][0]
    (x0, y0), (x1, y1) = lines[0][1]
    assert x0 < x1
    assert y0 < y1, "a greater value stands higher, which is a smaller y"
    titles = hovers(root)
    assert 'a<b>&"c" $x$, step 300: loss <nats> in $ 1' in titles
    assert len(titles) == 4


def test_marks_are_at_their_values():
    root = ET.fromstring(line_plot("t", "step", [Curve("c", [(0, 0.0), (50, 4.0), (100, 1.0)], 0)]))
    marks = {
        use.find(f"{SVG}title").text: (float(use.get("x")), float(use.get("y")))
        for use in root.iter(f"{SVG}use")
        if len(use)
    }
    [(_, points)] = curves(root)
    assert [marks[f"c, step {x}: t {y}"] for x, y in ((0, 0), (50, 4), (100, 1))] == points


def test_a_long_curve_labels_some_values_including_the_last():
    curve = Curve("c", [(step, math.sin(step)) for step in range(1, 1001)], 0)
    titles = hovers(ET.fromstring(line_plot("t", "step", [curve])))
    assert 100 <= len(titles) <= 120
    assert f"c, step 1,000: t {math.sin(1000):.5g}" in titles


@pytest.mark.parametrize(("count", "are_visible"), [(40, True), (41, False)])
def test_the_points_of_a_short_curve_are_marked(count, are_visible):
    text = line_plot("t", "step", [Curve("c", [(x, x / 7) for x in range(count)], 0)])
    assert len(hovers(ET.fromstring(text))) == count
    assert ("fill-opacity: 0" in text) != are_visible


@pytest.mark.parametrize(
    "points", [[(5, 0.0)], [(0, 0.0), (9, 0.0)], [(0, -3.0), (0, -3.0)], [(1, 9e99), (2, -9e99)]]
)
def test_a_plot_without_extent_is_drawn(points):
    root = ET.fromstring(line_plot("t", "step", [Curve("c", points, 0)]))
    marks = [use for use in root.iter(f"{SVG}use") if len(use)]
    assert len(marks) == len(points)
    for mark in marks:
        assert math.isfinite(float(mark.attrib["x"]) + float(mark.attrib["y"]))


def test_nothing_to_draw_gives_no_plot():
    assert line_plot("t", "step", [Curve("c", [(1, math.nan)], 0), Curve("d", [], 1)]) == ""


def test_a_separate_file_names_its_curves():
    curve = Curve("one", [(1, 1.0), (2, 2.0)], 0)
    assert ">one</text>" in line_plot("t", "x", [curve], standalone=True)
    assert ">one</text>" not in line_plot("t", "x", [curve])
