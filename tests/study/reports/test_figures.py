"""Figures depend only on their contents, and fit into a page."""

import dataclasses
import importlib.util
import re

import matplotlib
import pytest
from matplotlib import font_manager

from t2t_lite.errors import UserError
from t2t_lite.study.reports import figures


def drawn(text: str = "a $b$ c") -> tuple[str, bytes]:
    with figures.drawing(90, 60) as figure:
        axes = figure.add_subplot()
        axes.plot([1, 2], [3, 4], gid="curve", marker="o")
        axes.set_title(text)
        return figures.svg(figure, text, {"curve": ["first", "second"]}), figures.png(figure)


def test_equal_figures_are_equal_files_under_any_user_settings():
    first = drawn()
    with matplotlib.rc_context({"lines.linewidth": 9, "svg.fonttype": "path", "font.size": 40}):
        assert drawn() == first
        assert matplotlib.rcParams["lines.linewidth"] == 9, "the user's settings are back"
    svg, png = first
    assert not re.search("metadata|[Mm]atplotlib|20[0-9][0-9]-", svg)
    assert b"Matplotlib" not in png


def test_svg_stands_in_a_page_beside_others():
    svg, _ = drawn()
    assert svg.startswith("<svg ")
    assert "<style" not in svg, "it would hold for the whole page"
    assert set(re.findall('<([a-zA-Z]+)[^>]* id="', svg)) <= {"path", "clipPath"}
    assert "currentColor" in svg
    assert figures.INK not in svg
    assert svg.count("<title>") == 3
    assert ">a $b$ c</text>" in svg, "text stays text, and dollars stay dollars"


def test_png_has_three_pixels_for_one_of_svg():
    svg, png = drawn()
    assert 'width="90" height="60"' in svg
    assert (png[:8], png[16:24]) == (
        b"\x89PNG\r\n\x1a\n",
        (270).to_bytes(4, "big") + (180).to_bytes(4, "big"),
    )


def test_characters_without_a_font_are_named(caplog):
    drawn("größer Ελ")
    assert not caplog.messages
    drawn("\U000f0001")  # of a private area
    [message] = caplog.messages
    assert "no font on this machine has \U000f0001: install one" in message


def test_characters_that_another_font_has_are_drawn_with_it(caplog, monkeypatch):
    _, with_it = drawn("\u1d81")  # in STIX, which comes with matplotlib, but not in DejaVu Sans
    assert not caplog.messages
    gone = font_manager.FontEntry(fname="/no/such/font.ttf", name="Gone", weight=400)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [gone])
    _, without = drawn("\u1d81")
    assert with_it != without
    assert "no font on this machine has \u1d81" in caplog.text


def test_a_font_of_another_style_is_not_used(caplog, monkeypatch):
    plain = font_manager.fontManager.ttflist
    [stix] = [font for font in plain if font.name == "STIXGeneral" and is_regular(font)]
    slanted = [dataclasses.replace(stix, style="italic"), dataclasses.replace(stix, weight=700)]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", slanted)
    drawn("\u1d81")
    assert "no font on this machine has \u1d81" in caplog.text


def is_regular(font: font_manager.FontEntry) -> bool:
    return (font.style, font.weight) == ("normal", 400)


def test_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"drawing needs more packages: pip install .*\[plots\]'"):
        drawn()
