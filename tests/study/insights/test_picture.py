"""Pictures: SVG that holds the weights, and PNG."""

import dataclasses
import re
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from t2t_lite.errors import UsageError
from t2t_lite.study.insights import picture
from t2t_lite.study.insights.views import FAINT, View, head_colours, make_views

SVG = "{http://www.w3.org/2000/svg}"
SOURCE = ["</svg>", "&", '"quoted"', "\x00", "\ud800", "日本語" * 4]
TARGET = ["a", "<EOS>"]
HEADS = 8


@pytest.fixture(scope="module")
def view() -> View:
    weights = np.random.default_rng(0).dirichlet([0.3] * len(SOURCE), size=(2, HEADS, len(TARGET)))
    [view] = make_views({"encoder_decoder": list(weights)}, SOURCE, TARGET)
    return view


def lines(document: str) -> list[tuple[str, float]]:
    styles = re.findall("stroke: (#.*?); stroke-opacity: (.*?);", document)
    return [(colour, float(opacity)) for colour, opacity in styles]


def test_lines_are_the_weights(view):
    document = picture.svg(view, layer=1, heads=[7, 2])
    colours, weights = head_colours(HEADS), view.layers[0]
    expected = [
        (colours[head], weight)
        for head in (1, 6)
        for weight in weights[head].flat
        if weight >= FAINT
    ]
    assert len(expected) > 8
    found = lines(document)
    assert [colour for colour, _ in found] == [colour for colour, _ in expected]
    # Written with six decimals.
    np.testing.assert_allclose([w for _, w in found], [w for _, w in expected], rtol=0, atol=0.6e-6)


def test_all_heads_of_the_last_layer_unless_others_are_named(view):
    assert picture.svg(view) == picture.svg(view, 2, range(1, HEADS + 1))
    assert {colour for colour, _ in lines(picture.svg(view))} == set(head_colours(HEADS))
    assert len(set(head_colours(16))) == 16


def test_wide_characters_take_the_room_of_two():
    def width(word: str) -> str:
        [one] = make_views({"encoder_decoder": [np.ones((1, 1, 1))]}, [word], ["x"])
        return ET.fromstring(picture.svg(one)).attrib["width"]

    assert width("日本語" * 9) == width("abcdef" * 9)
    assert width("日本語" * 9) != width("abc" * 9)


def test_every_word_is_there_and_inside(view):
    root = ET.fromstring(picture.svg(view))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    shown = ["</svg>", "&", '"quoted"', "\ufffd", "\ufffd", "日本語" * 4]
    legend = [str(head) for head in range(1, HEADS + 1)]
    assert texts == ["Encoder-decoder attention, layer 2", *legend, *TARGET, *shown]
    height = float(root.attrib["height"])
    assert all(0 < float(element.attrib["y"]) < height for element in root.iter(f"{SVG}text"))


def test_no_such_layer_or_head(view):
    with pytest.raises(UsageError, match="--layer=3: the last layer is 2"):
        picture.svg(view, layer=3)
    for head in (0, 9):
        with pytest.raises(UsageError, match=f"no head {head}; expected 1 to 8"):
            picture.svg(view, heads=[1, head])


@pytest.mark.integration
def test_png(view):
    content = picture.png(view, heads=[2])
    size = re.search(r'width="(\d+)" height="(\d+)"', picture.svg(view, heads=[2])).groups()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == tuple(3 * int(pixels) for pixels in size)
    wordless = dataclasses.replace(view, rows=["␣"] * len(TARGET))
    assert content != picture.png(wordless, heads=[2]), "words are drawn"


def test_pictures_are_the_same_every_time(view):
    assert picture.svg(view) == picture.svg(view)
    assert "date>" not in picture.svg(view)
    assert picture.png(view) == picture.png(view)
