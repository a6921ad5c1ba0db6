"""HTML pages: text is found by the rules of the standard, and all else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from support.phrases import capitals
from t2t_lite.decoding.documents.html_page import HtmlPage
from t2t_lite.errors import DataError
from t2t_lite.text.tags.kinds import HTML, XML


def upper(text: str, is_xml: bool = False) -> str:
    page = HtmlPage(text.encode(), is_xml)
    found = page.translated([capitals(segment, page.kind) for segment in page.segments])
    return found.decode()


@pytest.mark.parametrize(
    "page",
    [
        "<SCRIPT>var s = 'a<b>';</SCRIPT><P>TEXT</P>",
        "<script>a</SCRIPT ><p>TEXT",
        '<script data-x="<b>">a</script><p>TEXT',
        "<script><!-- <script> </script> a --></script><p>TEXT",
        "<script><!--> </script><p>TEXT",
        "<Style>a {} </style\n><p>TEXT",
        "<textarea><p>a</textarea><p>TEXT",
        "<iframe><p>a</iframe>TEXT",
        "<xmp><p>a</xmp>TEXT",
        "<plaintext>a</plaintext><p>b",
        "<!-- <p>a --><p>TEXT",
        "<!--><p>TEXT<!-- a -->",
        "<!---><p>TEXT<!-- a -->",
        "<!-- a --!><p>TEXT<!-- a",
        "<p>TEXT<!-- <p>a",
        "<p>TEXT<script>a",
        "<?import a><p>TEXT",
        "<?php a(); ?><p>TEXT<?php echo 'a>b'; ",
        "<![if !IE]><p>TEXT<![endif]>",
        "</ a>TEXT</>",
        "<p title=it's>DON'T</p>",
        "<p title='a>b'>TEXT",
        "<a href=x/>TEXT</a>",
        "<p class='x notranslate'>a</p>TEXT",
        "<p translate=no>a<p>TEXT",
        "<p TRANSLATE=NO>a</P>TEXT",
        "<div translate='no'>a<p translate=yes>TEXT</p>a<p translate>TEXT</p><p>a</div>TEXT",
        "<ul><li translate=no>a<div>a<li>TEXT<ul><li>TEXT</ul><li translate=no>a</ul>TEXT",
        "<dl><dt translate=no>a<dd>TEXT<dt>TEXT</dl>",
        "<table><tr><td translate=no>a<td>TEXT<tr translate=no><th>a<tr><td>TEXT</table>TEXT",
        "<table><thead translate=no><tr><td>a<tbody><tr><td>TEXT</table>",
        "<table translate=no><tr><td><table><tr><td>a</table>a</table>TEXT",
        "---\ntitle: a\n---\n<h1>TEXT</h1>\n---\n",
        "---\r\na: b\r\n---\r\nTEXT",
        "+++\na = 'b'\n+++",
        "<h1>TEXT</h1>\n\nTEXT\n \n\nTEXT",
        "TEXT [a b='c']TEXT[/a]\n\n[d e='f']",
        "<ac:structured-macro ac:name='code'><ac:parameter>a</ac:parameter><ac:rich-text-body>TEXT"
        "</ac:rich-text-body></ac:structured-macro><ac:task><ac:task-status>a</ac:task-status>"
        "<ac:task-body>TEXT</ac:task-body></ac:task>",
        "<select><option translate=no>a<option>TEXT<optgroup translate=no><option>a</select>TEXT",
        "<p translate=no>a<table><tr><td>TEXT</table>",
        "<p translate=no>a<button><p>a</button>a<div>TEXT</div>",
        "<h1 translate=no>a</h2>TEXT",
        "<p translate=no>a<i translate=yes>TEXT</i>a<i translate=yes>TEXT</i>a<p>TEXT",
        "<div translate=no>a</p>a</div>TEXT",
        "<div translate=no>a</span>a</div>TEXT",
        "<p translate=no>a<hr>TEXT",
        "<head translate=no><title>a</title><body>TEXT",
        "<p>TEXT <span translate=no>a<p>TEXT",
        "<span translate=no>a<p>a</p></span>TEXT",
        "<span translate=no>a<p translate=yes>TEXT</p>a</span>TEXT",
        "<p>TEXT <span class=notranslate>a <b>a</b></span> TEXT",
        "<p>TEXT <span translate=no>a <b translate=yes>TEXT</b> a</span> TEXT",
        "<p>TEXT <b><span translate=no>a</b> TEXT",
        "<p>TEXT <button translate=no>a<button>TEXT",
        "TEXT <button translate=no>a<button translate=no>a</button> TEXT",
        "<p>TEXT <svg><title>a</title><foreignObject><p>a</p></foreignObject></svg> TEXT",
        "<object><p>a</p></object>TEXT",
        "<noscript><p>TEXT</p></noscript><template><p>TEXT</template>",
        "{% comment %}a <b>{% if a %}{% endcomment %}TEXT{%- highlight c -%}a{%- endhighlight -%}",
        "{% schema %}{'a': 'b'}{% endschema %}TEXT",
        "{% commenting %}TEXT",
        "<{{ a|b:'c' }} d='e'>TEXT</{{ a|b:'c' }}>",
        "<pre>a\n  a</pre><p>TEXT</p><code>a</code>",
        "<p><%= a %> TEXT <%# a > b %><b>TEXT</b><?= $a->b ?>",
        '<a href="<%= url("a") %>" <% if a > b %>x<% end %>>TEXT</a>',
        '<div {% if a > 1 %}class="a"{% endif %}>TEXT</div>{% if a %}{# a #}{{ a }}TEXT',
        "<p title=' translate=no '>TEXT",
        "<p data-translate=no translate=no-results x-class=notranslate class=notranslated>TEXT",
        "<P><A\n HREF='x'>TEXT</A> <CODE\n>a</CODE>",
        "<p>&nbsp;TEXT&nbsp;</p><p>&nbsp;</p>",
    ],
)
def test_what_is_translated(page):
    """Small letters are in what is not translated, and capitals stand for text that is."""
    document = HtmlPage(page.encode())
    assert upper(page) == page
    assert sum(segment.count("TEXT") + segment.count("DON'T") for segment in document.segments) == (
        page.count("TEXT") + page.count("DON'T")
    )


@pytest.mark.parametrize(
    ("page", "segments"),
    [
        ("<p>One<p>Two", ["One", "Two"]),
        ("a<br><br>\n b<br>c <br>\n<!-- --><BR/> d", ["a", "b<br>c", "d"]),
        ("<font>a<br><br>b</font>", ["a", "b"]),
        ("<p>Click <svg><path d=''/></svg> to <label>save</label>.</p>", None),
        ("<p>A <x-y>custom</x-y> <button>element</button> <input> here.</p>", None),
        ("<p><b>One</b> <!-- c --> <i>two</i>", ["<b>One</b> <!-- c --> <i>two</i>"]),
        ("<a href='x'><h3>One</h3><p>Two</p></a>", ["One", "Two"]),
        ("<p>\n One\n two <b>\n three</b>\n</p>", ["One two <b> three</b>"]),
        ("<img src='x'> One <img src='y'>", ["One"]),
        ("One<p>", ["One"]),
        ("<option>One<option>Two", ["One", "Two"]),
        ("<details><summary>One</summary>Two</details>", ["One", "Two"]),
        ("<p>a &lt;b&gt; &copy; b", ["a &lt;b&gt; &copy; b"]),
        ("<p>\u200b<p>{name}<p>https://example.org/", []),
        ("<p>One<ac:task><ac:task-body>Two<p>Three", ["One", "Two", "Three"]),
        ("---\na: b\n", ["--- a: b"]),
        ("<title><?= $a ?> - Shop</title>", ["<?= $a ?> - Shop"]),
    ],
)
def test_segments(page, segments):
    if segments is None:
        segments = [page.removeprefix("<p>").removesuffix("</p>")]
    assert HtmlPage(page.encode()).segments == segments


DECLARED = '<?xml version="1.0"?>\n'


@pytest.mark.parametrize(
    "page",
    [
        '<html><head><script src="a"/><title>TEXT</title></head><body><p>TEXT</p></body></html>',
        "<html><script>//<![CDATA[\na < b //]]>\n</script><p>TEXT <br/>TEXT</p></html>",
        '<!DOCTYPE html [<!ENTITY a "b">]><html><body><p translate="no">a</p>TEXT</body></html>',
        "<h:html xmlns:h='x'><h:p>TEXT</h:p><h:pre>a</h:pre></h:html>",
        "<ac:rich-text-body><p>TEXT</p></ac:rich-text-body><ac:task-id>a</ac:task-id>",
        "<p>TEXT <parameter>TEXT</parameter> <x:parameter>TEXT</x:parameter></p>",
        "<html><svg:svg><svg:text>a</svg:text></svg:svg><p>&a; TEXT &#8203;</p></html>",
    ],
)
def test_xhtml(page):
    assert upper(DECLARED + page) == DECLARED + page
    assert upper(page, is_xml=True) == page
    document = HtmlPage(page.encode(), is_xml=True)
    assert document.kind == XML
    assert "".join(document.segments).count("TEXT") == page.count("TEXT")
    assert HtmlPage(b"<p>a<br>b</p>").kind == HTML


def test_tags_of_xhtml_stay_in_order_where_their_partner_is_in_another_block():
    page = b"<html><b>One<p>two</p>three</b> four <i>five</i></html>"
    segments = HtmlPage(page, is_xml=True).segments
    assert segments == ["One", "two", "three", "four <i>five</i>"]


def test_entities_of_xhtml_are_read():
    page = b"<html><p>&Eacute;t&eacute;&nbsp;&amp; <b>x</b> &c;</p></html>"
    assert HtmlPage(page, is_xml=True).segments == ["Été\xa0&amp; <b>x</b> &c;"]


@pytest.mark.parametrize(
    ("head", "charset", "written"),
    [
        ("<meta charset=iso-8859-1>", "cp1252", "&#1046; ß €"),
        ('<META http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r", None),
        ("<!-- <meta charset=koi8-r> --><meta charset='Shift_JIS'>", "cp932", "Ж &#223; &#8364;"),
        ("<meta charset=us-ascii>", "cp1252", "&#1046; ß €"),
        ("<meta charset=euc-jp>", "euc_jp", "Ж ß &#8364;"),
        ("<meta charset=Big5>", "big5hkscs", "Ж &#223; &#8364;"),
        ("<meta charset=X-SJIS>", "cp932", "Ж &#223; &#8364;"),
        ("<meta charset=iso-8859-8-i>", "iso8859-8", "&#1046; &#223; &#8364;"),
        ("<meta charset=utf-16>", "utf-8", "Ж ß €"),
        ("<script>'<meta charset=koi8-r>'</script>", "utf-8", "Ж ß €"),
        ("<meta charset=koi8-r>", "utf-8-sig", "Ж ß €"),
        ("<meta charset=koi8-r>", "utf-16", "Ж ß €"),
        ("<meta charset=utf-16>", "utf-16-le", "Ж ß €"),
        (f"<!-- {'x' * 2000} --><meta charset=koi8-r>", "koi8-r", None),
        ("<meta charset=' koi8-r '>", "koi8-r", None),
        ("<meta content='text/html;charset=\"koi8-r\"' http-equiv=CONTENT-TYPE />", "koi8-r", None),
        ("<meta name=a charset='' content=b><meta charset=koi8-r>", "koi8-r", None),
        ("<meta charset=koi8-r><meta charset=iso-8859-1>", "koi8-r", None),
        ('<?xml version="1.0" encoding="iso-8859-1"?>', "iso-8859-1", "&#1046; ß &#8364;"),
    ],
)
def test_pages_stay_in_their_charset(head, charset, written):
    written = written or "Ж &#223; &#8364;"
    text = {"cp932": "日", "big5hkscs": "恒"}.get(charset) or ("Ж" if charset == "koi8-r" else "x")
    page = f"{head}\r\n<p title='{text}'>TEXT</p>\r\n"
    found = HtmlPage(page.encode(charset)).translated(["Ж ß €"])
    assert found == page.replace("TEXT", written).encode(charset)


@pytest.mark.parametrize(
    "meta",
    [
        '<meta name="description" content="Why charset=iso-8859-1 is obsolete">',
        '<META CONTENT="About charset=foo things" NAME="description">',
        "<meta name='charset=koi8-r'>",
        "<meta property=og:title content='<meta charset=koi8-r>'>",
        '<meta http-equiv="refresh" content="0; url=?charset=koi8-r">',
        '<meta http-equiv="x-content-type" content="text/html; charset=koi8-r">',
        '<meta content="text/html; charset=koi8-r">',
        '<meta data-charset="koi8-r" x:charset="koi8-r">',
        '<meta http-equiv="Content-Type" content="text/html" title="charset=koi8-r">',
    ],
)
def test_text_about_charsets_declares_none(meta):
    for charset, rest in [
        ("utf-8", ""),
        ("utf-8", "<meta charset=utf-8>"),
        ("cp1251", "<meta charset=windows-1251>"),
        ("cp1251", '<meta http-equiv="content-type" content="text/html; charset=windows-1251">'),
    ]:
        page = f"{meta}{rest}<p title='Ж'>TEXT</p>"
        found = HtmlPage(page.encode(charset)).translated(["Привет"])
        assert found == page.replace("TEXT", "Привет").encode(charset)


def test_a_byte_order_mark_is_no_text():
    document = HtmlPage("\ufeffHello".encode())
    assert document.segments == ["Hello"]
    assert document.translated(["x"]) == "\ufeffx".encode()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"\xff", "not in UTF-8"),
        (b"<meta charset=klingon>", "klingon"),
        (b"<meta charset=utf-8>\xe9", "not in UTF-8"),
    ],
)
def test_pages_that_are_refused(contents, message):
    with pytest.raises(DataError, match=message):
        HtmlPage(contents)


def test_icu_messages_are_left():
    message = "{n, plural, one {# file} other {# files}}"
    document = HtmlPage(f"<p>{message}</p><p>You have {message}</p><p>One</p>".encode())
    assert document.segments == ["One"]
    assert str(document.report) == "1 translated, 0 kept, 2 left (ICU messages: 2)"


WORDS = ("a", " ", "\n", "TEXT ", "&amp;", "&nbsp;", "é")
MARKS = ("<!--", "-->", "<?", ">", "<%", "%>", "{%", "%}", "{{", "'", '"', "<", "</", "=", "]]>")
TAGS = ("<p>", "</p>", "<b>", "</b>", "<br>", "<li translate=no>", "<span class=notranslate>")
MORE = (
    "</span>",
    "<script>",
    "</script>",
    "<table>",
    "<td>",
    "</table>",
    "<pre>",
    "</pre>",
    "<a/>",
)


@given(st.lists(st.sampled_from(WORDS + MARKS + TAGS + MORE), max_size=16), st.booleans())
def test_all_but_white_space_stays(pieces, is_xml):
    text = "".join(pieces)
    page = HtmlPage(text.encode(), is_xml)
    found = page.translated(page.segments).decode()
    assert "".join(found.replace("&nbsp;", " ").split()) == (
        "".join(text.replace("&nbsp;", " ").split())
    )
    marked = HtmlPage(page.translated(page.segments), is_xml)
    assert marked.translated(marked.segments) == page.translated(page.segments)


GROWING = ["<!--", "<?", "<?php ", "<script>", "<script><!-- <script>", "<%", "{%", "{{", "<a b='"]
GROWING += ["<div>", "<p translate=no>", "<b>", "</b>", "<li>", "<td>", "<br>", "a<br><br>", "<a "]
GROWING += ["{{ {a} ", "%a%", "<#a ", "{% a %}a", "<a>a</a>"]
GROWING += ["<span class=notranslate>", "</", "<a {%", '<a b="{%', "<textarea>", "<a =", "<p><svg>"]


@pytest.mark.integration
@pytest.mark.parametrize("piece", GROWING)
def test_growth(piece):
    def work(contents):
        page = HtmlPage(contents)
        page.translated(page.segments)

    assert_grows_gently(lambda n: b"<p>a" + piece.encode() * n, work, 200)


@pytest.mark.integration
@pytest.mark.parametrize("closing", ["</p>", "</b>", "</div>", "<p>", "<li>"])
def test_growth_of_what_is_nested(closing):
    def work(contents):
        HtmlPage(contents)

    assert_grows_gently(lambda n: b"<b><p><i>" + b"<div>" * n + closing.encode() * n, work, 200)
