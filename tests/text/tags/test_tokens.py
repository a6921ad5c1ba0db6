"""Cutting segments into tags, protected pieces and text."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.text.tags.kinds import HTML, KINDS, PLACEHOLDERS, XML
from t2t_lite.text.tags.tokens import TokenKind, has_icu_message, tokens_of


def _kinds(segment: str, kind: str = HTML) -> list[tuple[TokenKind, str]]:
    return [(token.kind, token.raw) for token in tokens_of(segment, kind)]


def test_tags_comments_entities_and_text():
    assert _kinds("a <B class='x>y'>b</B ><br><!-- <i> -->&lt;&shy;</>") == [
        (TokenKind.TEXT, "a "),
        (TokenKind.OPEN, "<B class='x>y'>"),
        (TokenKind.TEXT, "b"),
        (TokenKind.CLOSE, "</B >"),
        (TokenKind.VOID, "<br>"),
        (TokenKind.HIDDEN, "<!-- <i> -->"),
        (TokenKind.ENTITY, "&lt;"),
        (TokenKind.PROTECTED, "&shy;"),
        (TokenKind.HIDDEN, "</>"),
    ]


def test_xml_has_no_void_elements_and_five_entities():
    assert _kinds("<br>&eacute;&amp;<x/><![CDATA[<b>]]>", XML) == [
        (TokenKind.OPEN, "<br>"),
        (TokenKind.PROTECTED, "&eacute;"),
        (TokenKind.ENTITY, "&amp;"),
        (TokenKind.VOID, "<x/>"),
        (TokenKind.HIDDEN, "<![CDATA[<b>]]>"),
    ]


_ENTITIES = [
    *("&quot;", "&lt;", "&gt;", "&apos;", "&nbsp;", "&mdash;", "&hellip;", "&frac12;"),
    *("&own;", "&#39;", "&#10;", "&#160;", "&#x27;", "&#XA0;", "&#x20ac;"),
]


@pytest.mark.parametrize("kind", [HTML, XML])
@pytest.mark.parametrize("entity", _ENTITIES)
@pytest.mark.parametrize("address", ["http://a.b/", "https://a.b/c?d=1&amp;e", "ftp://a.b/c&d=[2"])
def test_urls_end_before_entities(address, entity, kind):
    for end in ("", ".", ");"):
        found = _kinds(f"Open {entity}{address}{end}{entity}more {entity} now.", kind)
        assert [raw for _, raw in found] == [
            *("Open ", entity, address, *filter(None, [end]), entity, "more ", entity, " now."),
        ]
        assert found[2][0] is TokenKind.PROTECTED


@pytest.mark.parametrize("kind", [HTML, XML])
@pytest.mark.parametrize("ampersand", ["&", "&amp;", "&amp;amp;", "&#38;", "&#038;", "&#x26;"])
@pytest.mark.parametrize("rest", ["", "b", "b=1", "nbsp="])
def test_ampersands_in_urls(ampersand, rest, kind):
    address = f"http://a.b/?c{ampersand}{rest}"
    for end in (" ", ". ", ", ", "&quot; ", "</a> ", "&nbsp;"):
        assert _kinds(f"See {address}{end}more", kind)[1] == (TokenKind.PROTECTED, address)


def _protected(text: str, kind: str = PLACEHOLDERS) -> list[str]:
    return [raw for found, raw in _kinds(text, kind) if found is TokenKind.PROTECTED]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("手順はhttps://a.example/docs/を参照。", ["https://a.example/docs/"]),
        ("訪問http://a.example，然後登入", ["http://a.example"]),
        ("ดูhttps://a.example/xได้เลย", ["https://a.example/x"]),
        ("문서는 https://a.example/에서 확인", ["https://a.example/"]),
        ("連絡先：a.b@mail.example.orgへ、c@例え.jpまで", ["a.b@mail.example.org", "c@例え.jp"]),
        ("jörg@bücher.example, я@почта.рф.", ["jörg@bücher.example", "я@почта.рф"]),
        ("見るhttps://例え.テスト/図/a.htmlと", ["https://例え.テスト/図/a.html"]),
        ("https://例え.jp。", ["https://例え.jp"]),
        ("https://a.example/Größe, https://a.example/Путь.", None),
        ("https://a.example/می\u200cروم، x", ["https://a.example/می\u200cروم"]),
        ("see https://a.example/w/東京都, or", ["https://a.example/w/東京都"]),
        ("見https://a.example/w/东京 吧", ["https://a.example/w/"]),
        ("https://a.example/w/をどうぞ", ["https://a.example/w/"]),
        ("it’s https://a.example’s page", ["https://a.example"]),
        ("連絡は a@b.exampleまで", ["a@b.example"]),
    ],
)
def test_addresses_beside_words_of_any_script(text, pieces, kind):
    found = _protected(text, kind)
    assert found == (pieces or ["https://a.example/Größe", "https://a.example/Путь"])


@pytest.mark.parametrize(
    "address",
    [
        "http://a.example/x_(y)",
        "http://a.example/(x)_y",
        "http://a.example/x_(y_(z))",
        "http://a.example/x(y[1])",
        "http://a.example/?x[]",
    ],
)
@pytest.mark.parametrize(
    "around",
    ["{}", "({})", "[{}].", "“{}”", "„{}“", "»{}«", "{}’s", "{}…", "{}—x", "（{}）", "[x]({})"],
)
def test_urls_keep_their_brackets_and_no_others(address, around):
    assert _protected(around.format(address)) == [address]


@pytest.mark.parametrize(
    "address",
    [
        "http://www.例え.テスト",
        "https://a.例え.テスト/x",
        "https://a.example/w/図書#一覧",
        "https://a.example/w/カー・レース",
        "https://a.example/w/上海_(曖昧)",
        "https://a.example/w/甲,乙",
        "https://a.example/s?q=甲+乙",
        "https://a.example/Bose–Einstein",
        "https://a.example/Sant·Boi",
        "https://a.example/L’Isle",
        "https://a.example/5€b",
        "帳票@例え.テスト",
        "/home/利用者/a.txt",
        "/srv/帳票",
        "a@例え.テスト",
    ],
)
def test_addresses_between_spaces_are_whole(address):
    assert _protected(f"see {address}, or {address}") == [address, address]


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "%title%",
            "%user.title%",
            "$LANG",
            "@count",
            ":min_value",
            "`cd ~`",
            ":wave:",
            "%n",
            "%3",
        ),
        *("/usr/lib/x", "[2]_", "@:a.b", "%%name%%"),
    ],
)
@pytest.mark.parametrize("around", ["名前は{}です", "点击{}按钮", "กด{}เพื่อ", "이것은 {}입니다"])
def test_placeholders_beside_letters_of_scripts_without_spaces(piece, around):
    assert _protected(around.format(piece)) == [piece]


@pytest.mark.parametrize("text", ["$LANGé @countés :min_valueö %été", "甲/乙/丙 甲/乙/b"])
def test_letters_make_no_placeholders(text):
    assert _protected(text) == []


def test_percentages_are_not_arguments_of_qt():
    assert _protected("%4,5 arttı, %1.75 azaldı") == []
    assert _protected("%1, %2. %3.%4,") == ["%1", "%2", "%3", "%4"]


def test_entities_of_joiners_are_read_and_those_of_emoji_are_protected():
    assert _kinds("a&zwnj;b &#8205;") == [
        (TokenKind.TEXT, "a"),
        (TokenKind.ENTITY, "&zwnj;"),
        (TokenKind.TEXT, "b "),
        (TokenKind.ENTITY, "&#8205;"),
    ]
    assert _protected("x 👩&zwj;🚀", HTML) == ["👩&zwj;🚀"]


def test_variation_selectors_belong_to_their_symbols():
    assert _kinds("a \U0001f50e\ufe0e b \u2764\ufe0e") == [
        (TokenKind.TEXT, "a "),
        (TokenKind.PROTECTED, "\U0001f50e\ufe0e"),
        (TokenKind.TEXT, " b "),
        (TokenKind.PROTECTED, "\u2764\ufe0e"),
    ]


@pytest.mark.parametrize("path", ["/etc/hosts", "/text/guide/arrange_chapters.xhp"])
def test_absolute_paths_are_protected(path):
    assert _kinds(f"See {path}.")[1] == (TokenKind.PROTECTED, path)


@pytest.mark.parametrize("text", ["and/or he/she 1/2/3 km/h", "a / b / c", "// note", "/or"])
def test_other_slashes_are_text(text):
    assert _kinds(text) == [(TokenKind.TEXT, text)]


def test_the_text_of_a_script_is_hidden():
    script = "<script>if (a < b) { c = '<b>'; }</script>"
    assert _kinds(script) == [(TokenKind.HIDDEN, script)]


@pytest.mark.parametrize(
    "piece",
    [
        "https://example.org/a?b=1&c=(2",
        "jane.doe+x@mail.example.org",
        "{name}",
        "{0}",
        "${user.name}",
        "{{ count }}",
        "{n, plural, one {# file} other {# files}}",
        "{VAR, select, other {{n, plural, =1 {# file} other {{b} files}}}}",
        "{n, number}",
        "{0,number,#.#}",
        "{0,-10:N2}",
        "{price:.2f}",
        "{x!r:>{width}}",
        "%s",
        "%1$d",
        "%-5.2f",
        "%(total)d",
        "%%",
        "%1",
        "%99",
        "%L1",
        "%n",
        "%Ln",
        "%&lt;total&gt;.2f",
        "%1!s!",
        "%2!-10.10ls!",
        "[X5X]",
        "%PRODUCTNAME",
        "%APPDATA%",
        "%count%",
        "%user_name",
        "%#@files@",
        "{{{ raw }}}",
        "{{ f({a: 1}) }}",
        "{{\n  count\n}}",
        "@count",
        "@node_type",
        "!user_name",
        ":attribute",
        ":Count",
        ":min_value",
        ":smile:",
        ":thumbs_up:",
        "@:message.hello",
        "@.lower:(message.hello)",
        "{$a->name}",
        "{$total|escape:'html'}",
        "$(ARG1)",
        "$t(common.name)",
        "$USER_NAME",
        "$USER$",
        "$USD",
        "$A_B",
        "$A1",
        "[% name %]",
        "[%1$s:name]",
        "[%i]",
        "[[${user}]]",
        "###FIRST_NAME###",
        "*|FNAME|*",
        "%%name%%",
        "%recipient.name%",
        "%kernel.project_dir%",
        "%H",
        "%-e",
        "%(a.b)s",
        "${ total.toFixed(2) }",
        "#{user['name']}",
        "]1,19]",
        "[20, Inf[",
        "]-Inf,-1]",
        '[gallery id="3"]',
        "[gallery id=3 /]",
        "[color=red]",
        "[order_number]",
        "[/caption]",
        "``a `b` c``",
        "`` `a` ``",
        "``a = ''``",
        ":ref:`a-b`",
        ":py:class:`~a.B`",
        "|version|",
        "[1]_",
        "[site:name]",
        "[user:display-name:x]",
        "`phrase`_",
        "../img/logo.png",
        "~/.bashrc",
        r"\n",
        "$[officename]",
        "`rm -r x`",
        "`d['a'] = f('x', '')`",
        "`don't`",
        "😀",
        "👩\u200d👩\u200d👧",
        "👍🏽",
        "🇩🇪",
        "1\ufe0f\u20e3",
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_protected(piece, kind):
    assert _kinds(f"see {piece}, too", kind) == [
        (TokenKind.TEXT, "see "),
        (TokenKind.PROTECTED, piece),
        (TokenKind.TEXT, ", too"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "100% sure, 50%discount, 5%nice",
        "{see below, please} {b, and c: d} {note: that}",
        "a < b > c",
        "x © y ™",
        "R&D; 5 & 6",
        "cannot open `a': it is not a `regular' file",
        "`one'/`two' (`three')",
        "[X] [XIX] X5X",
        "work @home: so what :D at 10:30:15, or 1:20",
        "call @acme! yes !important (:so)",
        "[sic] [1] [see below] [Enter] [a, b] x[i] [i][j] [délka_periody]",
        r"C:\new\table .5 a./b ... \nabla [note: this]",
        "std::my_func costs $5 or US$ 5 a | b |c",
        "one||two $a #4 ### title ### *|* a |b c|",
        "50 % B, 5%B, 100%b [a,1] ] 1, 2 [",
        "a $US50 fee, $A1.5 million, $NZ20m, $C20, $US 100",
        "``He said'' and ``she said'', or `` so '' and `` no '' .",
    ],
)
def test_text_is_text(text):
    assert _kinds(text, PLACEHOLDERS) == [(TokenKind.TEXT, text)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("[b]", "[/b]"),
        ("[B]", "[/b]"),
        ('[button class="a" large]', "[/button]"),
        ("[url=https://example.org/a]", "[/url]"),
        ("%{linkStart}", "%{linkEnd}"),
        ("%{docs_link_start}", "%{docs_link_end}"),
        ("{linkopen}", "{linkclose}"),
        ("{{ start_bold }}", "{{ end_bold }}"),
        ("%{openTag}", "%{closeTag}"),
        ("#{em-begin}", "#{em-end}"),
    ],
)
def test_codes_that_open_and_close_are_tags(opening, closing, kind):
    (name, *_), (other, *_) = (
        [token.name for token in tokens_of(f"{opening}x{closing}", kind)][i::2] for i in (0, 2)
    )
    assert name == other != ""
    assert _kinds(f"a {opening}x [sic]{closing} y", kind) == [
        (TokenKind.TEXT, "a "),
        (TokenKind.OPEN, opening),
        (TokenKind.TEXT, "x [sic]"),
        (TokenKind.CLOSE, closing),
        (TokenKind.TEXT, " y"),
    ]


@pytest.mark.parametrize(
    "text", ["from {start} to {end}", "{date_start}-{date_end}", "{linkStart} {boldEnd}"]
)
def test_codes_that_mark_no_text_are_not_tags(text):
    found = {kind for kind, _ in _kinds(text, PLACEHOLDERS)}
    assert found == {TokenKind.TEXT, TokenKind.PROTECTED}


def test_words_in_brackets_may_hold_pieces():
    assert _kinds("[see https://example.org/x]", PLACEHOLDERS)[1] == (
        TokenKind.PROTECTED,
        "https://example.org/x",
    )


@pytest.mark.parametrize("role", ["", ":ref:", ":std:doc:"])
@pytest.mark.parametrize("ending", ["`", "`_", "`__"])
def test_links_of_restructured_text_are_tags_in_plain_text(role, ending):
    assert _kinds(f"see {role}`a page <x/y>{ending}.", PLACEHOLDERS) == [
        (TokenKind.TEXT, "see "),
        (TokenKind.OPEN, f"{role}`"),
        (TokenKind.TEXT, "a page"),
        (TokenKind.CLOSE, f" <x/y>{ending}"),
        (TokenKind.TEXT, "."),
    ]


def test_templates_in_plain_text():
    assert _kinds("a <%- name %>", PLACEHOLDERS)[1] == (TokenKind.PROTECTED, "<%- name %>")


def test_gnu_quotes_of_placeholders_are_text():
    text = "`%s' is not in `%s', nor in `%s'"
    found = [raw for kind, raw in _kinds(text, PLACEHOLDERS) if kind is TokenKind.PROTECTED]
    assert found == ["%s"] * 3


def test_placeholders_side_by_side():
    for text in ("%s%%", "%ld%%", "%dx%.2f", "%s%s", "%lu%-5d"):
        assert all(kind is TokenKind.PROTECTED for kind, _ in _kinds(text, PLACEHOLDERS))
        assert _kinds(text, PLACEHOLDERS)[1][1][0] == "%"


def test_placeholders_of_ruby():
    assert _kinds("up %<total>.2f", PLACEHOLDERS)[1] == (TokenKind.PROTECTED, "%<total>.2f")
    assert _kinds("10%<b>x</b>")[1] == (TokenKind.OPEN, "<b>")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("&copy2024", "©2024"),
        ("&COPY;2024", "©2024"),
        ("&AMP x", "& x"),
        ("&notin; &notit; &not it", "∉ ¬it; ¬ it"),
        ("&#8364x &#8364;5 &#x20acx", "€x €5 €x"),
        ("R&D AT&T &hellip", "R&D AT&T &hellip"),
    ],
)
def test_entities_are_read_as_browsers_read_them(text, read):
    assert "".join(token.text for token in tokens_of(text, HTML)) == read
    assert not any(kind is TokenKind.ENTITY for kind, _ in _kinds("&copy &#65 &AMP", XML))


@pytest.mark.parametrize("kind", [HTML, XML])
def test_numbers_are_names_of_tags(kind):
    assert [found for found, _ in _kinds("<0>a</0><1/>", kind)] == [
        TokenKind.OPEN,
        TokenKind.TEXT,
        TokenKind.CLOSE,
        TokenKind.VOID,
    ]
    assert _kinds("1 <2 and 3> 2") == [(TokenKind.TEXT, "1 <2 and 3> 2")]


@pytest.mark.parametrize("output", ["<?= $a ?>", "<?= $a->b ?>", "<%= a %>", "<%- a > b %>"])
def test_outputs_of_templates_stand_for_words(output):
    assert _kinds(f"a {output}")[1] == (TokenKind.PROTECTED, output)
    hidden = output.replace("=", "", 1).replace("<%-", "<%").replace("<? ", "<?php ")
    assert _kinds(f"a {hidden}")[1] == (TokenKind.HIDDEN, hidden)


def test_icu_messages():
    assert has_icu_message("You have {n, plural, one {# file} other {# files}}.")
    assert has_icu_message("{g,select,other{x}} {")
    assert not has_icu_message("{n, number} {plural} {a, b: c}")


@given(st.text(alphabet="<>/&;!-?'\"= abr{}%$#x1@.:`[]_|*\n", max_size=40), st.sampled_from(KINDS))
def test_nothing_is_lost(segment, kind):
    assert "".join(token.raw for token in tokens_of(segment, kind)) == segment


@given(
    st.lists(st.sampled_from(["a", "/", ".", ";", "&", "amp", "quot", "&amp;", *_ENTITIES])),
    st.sampled_from([HTML, XML]),
)
def test_urls_split_no_entities(pieces, kind):
    segment = "".join(["http://a", *pieces])
    entities = [
        match.span() for match in re.finditer("&(?:#\\d+|#[xX][0-9a-fA-F]+|[a-z0-9]+);", segment)
    ]
    ends = itertools.accumulate(len(token.raw) for token in tokens_of(segment, kind))
    assert not any(start < end < stop for end in ends for start, stop in entities)
