"""Markup costs as much as it is long, well-formed or not."""

import re

import numpy as np
import pytest

from support.growth import assert_grows_gently
from t2t_lite.decoding.documents.html_page import HtmlPage
from t2t_lite.decoding.documents.po_file import PoFile
from t2t_lite.decoding.documents.xliff_file import XliffFile
from t2t_lite.text.marks import PLACEHOLDERS
from t2t_lite.text.tags.blocks import padded
from t2t_lite.text.tags.carried import agreeing
from t2t_lite.text.tags.placement import place
from t2t_lite.text.tags.segment import parse

PIECES = [
    *("<!--", "<!-- x", "<![CDATA[", "<?", "<script>", "<style a", "</script ", "<!x"),
    *("<b>", "<b>a", "<b>a</b>", "</b>", "<b>.</b>", "<a '\"", '<a b="', "<b></i>", "<b><code>x"),
    *(
        "{",
        "{{",
        "{,{y}{y}",
        "{a",
        "{,{",
        "%",
        "%1",
        "%(a",
        "$[a",
        "`",
        "`a\n",
        "`a'",
        "{a,plural,{y}",
        "{a:{y}",
        "%<a",
        "%1!",
        "[X1",
        "[a",
        "[a b",
        "[a b] ",
        "[/a] [a]",
        "{linkStart}{",
        "``",
        "`a <b>",
        ":a",
        ":a:`",
        ":.",
        "@a_",
        "|a",
        "$t(",
        "{$a",
        "[%",
        "###a",
        "*|a",
        "&amp;",
        "&",
        "&#1",
    ),
    *(
        "http://.",
        "a@b.",
        "a@b",
        "/a/.",
        "/.",
        "http://a",
        "http://a&amp;.",
        "http://&#38;;&",
        "http://a/(",
        "http://a(b[",
        "http://a/b/東/",
        "http://東.東",
        "http://a/x/東「",
        "http://東.",
        "東/.",
        "./東/",
        "東/-",
        f"http://a/東{'.' * 50}",
        "東",
        "a東@東.",
        "/a/東/",
        "\u200d",
        "\U0001f600\u200d",
        "translate ",
    ),
]


@pytest.mark.integration
@pytest.mark.parametrize("piece", PIECES)
def test_parsing(piece):
    assert_grows_gently(
        lambda n: f"a{piece * n}"[:n], lambda segment: parse(segment, "html", PLACEHOLDERS), 4000
    )


@pytest.mark.integration
@pytest.mark.parametrize("ending", ["<code>x</code></b>", "</b>", ".</b>"])
def test_parsing_nested_elements(ending):
    assert_grows_gently(
        lambda n: "<b>" * n + "a" + ending * n, lambda segment: parse(segment, "html"), 300
    )


def test_a_cut_word_of_many_copies():
    """A word in many parts is compared as one, whatever the words of the target."""
    segment = parse("<b>a</b>" * 30 + "b", "html")
    target = f"{segment.text} x"
    tokens = [segment.text, "<EOS>"]
    found = place(segment, target, tokens, [segment.text, "x", "<EOS>"], np.eye(3, 2))
    assert re.sub("<[^>]*>", "", found) == target
    assert found.count("<b>") == 30


@pytest.mark.integration
def test_marks_that_a_model_repeats():
    segment = parse("a {n} b", "placeholders", PLACEHOLDERS)
    assert_grows_gently(
        lambda n: "a " + PLACEHOLDERS[1] * n, lambda target: agreeing(segment, target), 1000
    )


def test_white_space_around_texts():
    assert padded(" \n a  b\t ") == (" \n ", "a  b", "\t ")
    assert padded(" \n") == (" \n", "", "")


@pytest.mark.integration
def test_white_space_that_is_long():
    assert_grows_gently(lambda n: "a" + " " * n + "b", padded, 1000)


def page(n):
    return b"<p>a <b>b</b> {c}<br>\n" * n


def xliff(n):
    unit = b"<trans-unit id='1'><source>a <g id='1'>b</g></source></trans-unit>\n"
    return b"<xliff version='1.2'><file><body>" + unit * n + b"</body></file></xliff>"


def po(n):
    return b"".join(b'msgid "a %d"\nmsgstr ""\n\n' % i for i in range(n))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "write"),
    [
        (HtmlPage, page),
        (HtmlPage, lambda n: b"<!--" * n),
        (HtmlPage, lambda n: b"<pre>" * n),
        (HtmlPage, lambda n: b"a" + b"<br> " * n),
        (XliffFile, xliff),
        (PoFile, po),
    ],
)
def test_documents(kind, write):
    def work(contents):
        document = kind(contents)
        return document.translated(document.segments)

    assert_grows_gently(write, work, 300)
