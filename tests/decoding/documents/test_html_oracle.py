"""What pages say is what a parser of the whole standard finds in them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite.decoding.documents.html_page import HtmlPage
from t2t_lite.text.tags.kinds import HTML
from t2t_lite.text.tags.segment import parse

justhtml = pytest.importorskip("justhtml")

UNREAD = {"script", "style", "svg", "pre", "textarea", "code", "iframe", "xmp"}
STATES = ("", " translate=no", " TRANSLATE='yes'", " class='x notranslate'", " translate=''")
# Elements whose start tags end others, and that others are in. Formatting elements have no state
# here: those that nobody ended come back in later paragraphs.
NAMES = ("p", "div", "li", "ul", "ol", "dl", "dt", "dd", "h1", "h2", "span", "section", "button")
NAMES += (
    "option",
    "optgroup",
    "address",
    "x-y",
    "label",
    "blockquote",
    "details",
    "summary",
)
OPEN = st.builds("<{}{}>".format, st.sampled_from(NAMES), st.sampled_from(STATES))
CLOSE = st.builds("</{}>".format, st.sampled_from(NAMES))
TABLES = st.sampled_from(
    [
        "<table><tr><td translate=no>w<td>w<tr><th>w<tr translate=no><td>w</table>",
        "<table translate=no><caption>w</caption><tbody translate=yes><tr><td>w",
        "<table><thead translate=no><tr><td>w<tbody><tr><td>w<p translate=no>w",
        "<table><colgroup><col><tfoot><tr><td>w<table translate=no><tr><td>w</table>w",
        "</table>",
    ]
)
INLINE = (
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<br>",
    "<hr>",
    "<img alt='w'>",
    "&amp;",
    "<span title=w'w>",
)
HIDDEN = ("<!-- w -->", "<!-->", "<!--w", "<!-- w --!>", "<?w>", "<!w>", "</ w>", "</script>")
HIDDEN += ("<script>w<b>w</SCRIPT>", "<STYLE>w</style >", "<svg><title>w</title></svg>", "</svg>")
HIDDEN += ("<script><!--<script>w</script>w--></script>", "<pre>w</pre>", "<code>w</code>")
HIDDEN += (
    "<textarea>w<p>w</textarea>",
    "<xmp>w<p></xmp>",
    "<iframe>w</iframe>",
    "<p title='<b>w'>",
)
CHOICES = "<select><option translate=no>w<option>w</select>"
OTHERS = st.sampled_from([*INLINE, *HIDDEN, CHOICES])


def words_of(node, stays=False):
    """Yields the words that a parser finds in a node, and whether they are translated."""
    name, given = getattr(node, "name", ""), getattr(node, "attrs", None) or {}
    if name == "#text":
        yield from () if stays else re.findall(r"w\d+", node.data or "")
    told = {"no": True, "yes": False, "": False}.get((given.get("translate", "?") or "").lower())
    if name in UNREAD or "notranslate" in (given.get("class") or "").split():
        told = True
    for child in getattr(node, "children", None) or ():
        yield from words_of(child, stays if told is None else told)


@settings(max_examples=200, deadline=None)
@given(st.lists(OPEN | CLOSE | TABLES | OTHERS | st.just("w "), max_size=14))
def test_words(pieces):
    numbers = iter(range(1000))
    page = re.sub(
        r"\bw\b", lambda _: f"w{next(numbers)}", "<!DOCTYPE html><body>" + "w".join(pieces)
    )
    expected = sorted(words_of(justhtml.JustHTML(page, sanitize=False).root))
    found = [parse(segment, HTML).text for segment in HtmlPage(page.encode()).segments]
    assert sorted(re.findall(r"w\d+", " ".join(found))) == expected
