"""The page holds the weights, shows them in a browser, and escapes every word."""

import dataclasses
import json
import re

import numpy as np
import pytest

from t2t_lite.study.insights.page import page
from t2t_lite.study.insights.views import FAINT, View, head_colours, make_views

SOURCE = ["</script><script>document.title='stolen'</script>", "<!--", "größer", "\x00\x1b", " "]
TARGET = ["&amp;", "<b>", "日本", "<EOS>"]
LAYERS, HEADS = 2, 3
# Weights have four decimals on the page (and some 1e-9 of rounding in the browser).
HALF_A_DIGIT = 0.5001e-4


def softmax(random: np.random.Generator, *shape: int) -> np.ndarray:
    odds = np.exp(3 * random.normal(size=shape))
    return (odds / odds.sum(axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def views() -> list[View]:
    random = np.random.default_rng(0)
    s, t = len(SOURCE), len(TARGET)
    maps = {
        "encoder": [softmax(random, HEADS, s, s) for _ in range(LAYERS)],
        "decoder": [softmax(random, HEADS, t, t) for _ in range(LAYERS)],
        "encoder_decoder": [softmax(random, HEADS, t, s) for _ in range(LAYERS)],
    }
    return make_views(maps, SOURCE, TARGET)


@pytest.fixture
def opened(views, browser, tmp_path):
    """The browser with the page; the mouse points elsewhere."""
    path = tmp_path / "page.html"
    path.write_text(page("a run", SOURCE[0], TARGET[0], views), encoding="utf-8")
    browser.requested.clear()
    browser.open(path.as_uri())
    browser.point("h1")
    yield browser
    assert browser.requested == [path.as_uri()]


def words(browser, side: str) -> list[str]:
    script = f"[...document.querySelectorAll('#{side} button')].map(b => b.textContent)"
    return browser.evaluate(script)


def lines(browser) -> list[list]:
    """The lines as [colour, row, column, opacity]; ends tell the words, 24 pixels each."""
    return browser.evaluate(
        "[...document.querySelectorAll('#lines line')].map(l => [l.getAttribute('stroke'),"
        "Math.floor(l.getAttribute('y1') / 24), Math.floor(l.getAttribute('y2') / 24),"
        "Number(l.getAttribute('stroke-opacity'))])"
    )


def expected(weights: np.ndarray, heads=range(HEADS), row=None, column=None) -> list[list]:
    rounded, colours = np.round(weights.astype(float), 4), head_colours(HEADS)
    return [
        [colours[h], q, n, rounded[h, q, n]]
        for h, q, n in np.ndindex(rounded.shape)
        if h in heads and rounded[h, q, n] >= FAINT and row in (None, q) and column in (None, n)
    ]


def strip(browser, side: str) -> np.ndarray:
    """The shades beside the words of a side: [words, heads]."""
    script = (
        f"[...document.querySelectorAll('#{side} li')].map(item =>"
        "[...item.querySelectorAll('i')].map(cell => Number(cell.style.opacity)))"
    )
    return np.array(browser.evaluate(script))


def test_the_page_holds_the_weights(views):
    text = page("a run", SOURCE[0], TARGET[0], views)
    assert text.count("</script>") == 2, "one of the data, one of the program"
    data = json.loads(re.search(r'<script id="data".*?>(.*?)</script>', text)[1])
    assert (data["source"], data["target"]) == (SOURCE[0], TARGET[0])
    for view, held in zip(views, data["views"], strict=True):
        assert (held["rows"], held["columns"]) == (view.rows, view.columns)
        np.testing.assert_allclose(held["layers"], view.layers, rtol=0, atol=HALF_A_DIGIT)


def test_every_head_has_a_colour_where_kinds_differ_in_heads(views):
    """The Evolved Transformer's decoder has more heads than its encoder."""
    encoder, decoder, _ = views
    wide = [np.concatenate([weights, weights]) for weights in decoder.layers]
    text = page("a run", "a", "b", [encoder, dataclasses.replace(decoder, layers=wide)])
    data = json.loads(re.search(r'<script id="data".*?>(.*?)</script>', text)[1])
    assert data["colours"] == head_colours(2 * HEADS)


@pytest.mark.integration
def test_words_are_shown_as_words(opened, views):
    assert words(opened, "rows") == TARGET
    assert words(opened, "columns") == [*SOURCE[:3], "\ufffd\ufffd", "␣"]
    assert opened.evaluate("document.title") == "Attention"
    assert opened.evaluate("document.querySelectorAll('b, script').length") == 2
    assert lines(opened) == expected(views[2].layers[1]), "first: the last layer, all heads"


@pytest.mark.integration
def test_pointing_shows_one_word_and_a_click_keeps_it(opened, views):
    weights = views[2].layers[1]
    opened.point("#rows li:nth-child(2) button")
    assert lines(opened) == expected(weights, row=1)
    np.testing.assert_allclose(strip(opened, "columns"), weights[:, 1].T, rtol=0, atol=HALF_A_DIGIT)
    assert not strip(opened, "rows").any()
    opened.point("#columns li:nth-child(3) button", click=True)
    assert lines(opened) == expected(weights, column=2)
    np.testing.assert_allclose(strip(opened, "rows"), weights[:, :, 2].T, rtol=0, atol=HALF_A_DIGIT)
    opened.point("#rows li:nth-child(1) button")
    assert lines(opened) == expected(weights, column=2), "kept"
    opened.press("Escape", 27)
    assert lines(opened) == expected(weights, row=0)
    opened.point("h1")
    assert lines(opened) == expected(weights)


@pytest.mark.integration
def test_heads_layers_and_kinds_are_chosen(opened, views):
    opened.point("#heads button:nth-child(2)", click=True)
    assert lines(opened) == expected(views[2].layers[1], heads=(0, 2))
    script = "document.querySelectorAll('#heads button')[2].dispatchEvent(new Event('dblclick'))"
    opened.evaluate(script)
    assert lines(opened) == expected(views[2].layers[1], heads=(2,))
    opened.evaluate(
        "document.getElementById('layer').value = 0;"
        "document.getElementById('layer').dispatchEvent(new Event('change'))"
    )
    assert lines(opened) == expected(views[2].layers[0], heads=(2,))
    opened.point("#kinds button:nth-child(2)", click=True)
    assert words(opened, "columns") == ["<start>", *TARGET[:-1]]
    assert lines(opened) == expected(views[1].layers[0], heads=(2,)), "layer and heads stay"
