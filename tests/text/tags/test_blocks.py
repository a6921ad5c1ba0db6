"""HTML is translated block by block, and put together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.data.problem import Output
from t2t_lite.decoding.hypotheses import Hypothesis
from t2t_lite.decoding.long_lines import join_lines
from t2t_lite.text.tags.blocks import Blocks


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("<p>One thing</p><p>Two things</p>", ["One thing", "Two things"]),
        ("<li>Save</li><li>Open</li>", ["Save", "Open"]),
        ("<td>1</td><td>2</td>", ["1", "2"]),
        ("<h1>Title</h1>Text", ["Title", "Text"]),
        ("One<br><br>two", ["One", "two"]),
        ("<p>a\nb</p>", ["a b"]),
        ("a <b>b</b> c", ["a <b>b</b> c"]),
        ("<img> a<br>b\nc <br> ", ["<img> a<br>b c <br> "]),
        ("<p></p><hr>", []),
        ("<a>One</a><a>Two</a> <a>three</a>", ["<a>One</a>", "<a>Two</a> <a>three</a>"]),
        ("<button>a</button><button>b</button>", ["<button>a</button>", "<button>b</button>"]),
        ("<label>a</label><label>b</label>", ["<label>a</label>", "<label>b</label>"]),
        ("<button>a</button><label>b</label>", ["<button>a</button>", "<label>b</label>"]),
        ("<button>a</button> <button>b</button>", ["<button>a</button>", "<button>b</button>"]),
        (
            "<label>a</label> <input> <b><label>b</label></b>",
            ["<label>a</label>", "<label>b</label>"],
        ),
        ("<a>a</a>&nbsp;| <a>b</a> &bull;\n<a>c</a>", ["<a>a</a>", "<a>b</a>", "<a>c</a>"]),
        ("<a>a</a> | <a>b</a> or", ["<a>a</a> | <a>b</a> or"]),
        ("<label>a</label> {b} <label>c</label>", ["<label>a</label> {b} <label>c</label>"]),
        (
            "<label>a <button>b</button></label> <i> </i>",
            ["<label>a <button>b</button></label> <i> </i>"],
        ),
        (
            "<a><p>a</p> <button>b</button> <label>c</label></a> d <a><p>e</p></a>",
            ["a", "<button>b</button> <label>c</label></a> d", "e"],
        ),
        ("One\n\ntwo\n  \n three", ["One", "two", "three"]),
        ("<p>one\n\ntwo</p>", ["one two"]),
        ("One <b>two\n\nthree</b>", ["One <b>two three</b>"]),
        ("[a]\nOne\n[/a]\n\n[b x='1']\n\ntwo", ["[a] One [/a]", "two"]),
        ("<p>[a]</p><p>One [b]two[/b]</p><p>[/a]</p>", ["One [b]two[/b]"]),
        ("<b>a</b><a>b</a><b>c</b>", ["<b>a</b><a>b</a><b>c</b>"]),
        ("<select><option>a<option>b</select> c", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_segments(text, segments):
    blocks = Blocks(text)
    assert blocks.segments == segments
    assert blocks.joined(segments).split() == text.split()


@pytest.mark.parametrize(
    "text",
    ["<img src='b'>\n\nWords", "Words\r\n\r\n", "\n \n<b>Words</b>", "{x}\n\n\n{y}\n\nWords here"],
)
def test_empty_lines_stay_around_a_single_paragraph(text):
    blocks = Blocks(text)
    assert len(blocks.segments) == 1
    assert blocks.joined(blocks.segments) == text


@pytest.mark.parametrize(
    "template",
    [
        "{% if a > b %}ONE{% elif c %}TWO{% else %}THREE{% endif %}",
        "{%- for a in b -%}ONE{%- endfor -%}TWO",
        "<% if a %>ONE<% else %>TWO<% end %>",
        "<?php if ($a): ?>ONE<?php elseif ($b) : ?>TWO<?php else: ?>THREE<?php endif; ?>",
        "<?php foreach ($a as $b) { ?>ONE<?php } ?>TWO",
        "{{#if a}}ONE{{else}}TWO{{/if}}THREE",
        "{{^a}}ONE{{/a}}TWO{{~#each b~}}THREE{{~/each~}}",
        "{{ if .A }}ONE{{- else -}}TWO{{ end }}",
        "<#if a?? && b>ONE<#else>TWO</#if><#list a as b>THREE</#list>",
        "<b>ONE{% if a %}TWO</b>{% endif %}",
        "<%= form_for @a do |f| -%>ONE<% end %>TWO",
        "<%= a.b do %>ONE<% end %>",
        '{{ define "a" }}ONE{{ block "b" . }}TWO{{ end }}{{ end }}',
        "ONE<![if !vml]>TWO<![endif]>THREE",
        "ONE<!--[if !mso]><!-->TWO<!--<![endif]-->THREE",
        "ONE<!--[if !mso]>-->TWO<!--<![endif]-->",
    ],
)
def test_statements_of_templates_keep_their_parts(template):
    words = [word for word in ("ONE", "TWO", "THREE") if word in template]
    blocks = Blocks(f"<p>{template}</p>")
    assert blocks.segments == words
    assert blocks.joined(words) == f"<p>{template}</p>"


@pytest.mark.parametrize(
    "output",
    [
        "{{ a }}",
        "<%= a %>",
        "<%# a %>",
        "<?= $a ?>",
        "<?php echo $a; ?>",
        "{# a #}",
        "{{ with_a }}",
        "<@a/>",
    ],
)
def test_outputs_of_templates_are_within_sentences(output):
    assert Blocks(f"<p>a {output} b</p>").segments == [f"a {output} b"]


@given(st.lists(st.sampled_from(["<p>", "</p>", "<b>", "</b>", "a", " ", "<br>", "<li\nid='1'>"])))
def test_nothing_is_lost(pieces):
    text = "".join(pieces)
    blocks = Blocks(text)
    assert "".join(blocks.joined(blocks.segments).split()) == "".join(text.split())
    assert not any("\n" in segment for segment in blocks.segments)


_INLINE = ["<b>", "</b>", "<code>", "</code>", "<svg>", "</svg>", "<br>", "a", "{x}", "&amp;"]
_BLOCKS = ["<p>", "</p>", "<title>", "</title>", "<li>", "<pre>", "</pre>", "<td>"]
_INLINE += ["<a>", "</a>", "{% if %}", "{{#if}}", "<% a %>"]
_TOLD = ["<i translate=no>", "<i translate=yes>", "</i>", " ", "\n"]


@given(st.lists(st.sampled_from([*_INLINE, *_BLOCKS, *_TOLD])))
def test_a_block_is_not_cut_again(pieces):
    """Documents are cut by themselves, and their segments are lines of HTML."""
    for segment in Blocks("".join(pieces)).segments:
        again = Blocks(segment)
        assert again.is_line or again.segments == [segment]


def _hypotheses(*texts):
    return [Hypothesis(Output(text), [number], -number) for number, text in enumerate(texts, 1)]


def test_hypotheses_are_joined_by_rank():
    blocks = Blocks("<p>One</p>\n<p><b>Two</b></p><p>Three</p>")
    found = [_hypotheses("Eins", "Ein"), _hypotheses("<b>Zwei</b>", "<b>Zwo</b>", "<b>2</b>"), []]
    joined = join_lines(found, blocks.joined)
    assert [one.output.text for one in joined] == [
        "<p>Eins</p>\n<p><b>Zwei</b></p><p></p>",
        "<p>Ein</p>\n<p><b>Zwo</b></p><p></p>",
    ]
    assert [one.score for one in joined] == [-2, -4]
    assert join_lines([[], [], []], blocks.joined) == []
