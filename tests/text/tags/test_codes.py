"""Codes of XLIFF that belong together by their ids are around their words in each translation."""

import itertools

import pytest

from support.phrases import PHRASES, capitals, reordered
from t2t_lite.text.tags.codes import in_order
from t2t_lite.text.tags.kinds import XML
from t2t_lite.text.tags.segment import parse

PAIRS = [
    ('<g id="{0}">', "</g>"),
    ('<bpt id="{0}">&lt;b&gt;</bpt>', '<ept id="{0}">&lt;/b&gt;</ept>'),
    ('<bpt id="x{0}" rid="{0}">[</bpt>', '<ept id="y{0}" rid="{0}"/>'),
    ('<bpt i="{0}" x="1">[</bpt>', '<ept i="{0}">]</ept>'),
    ('<bx id="{0}"/>', '<ex id="{0}"/>'),
    ('<x:bx id="{0}"></x:bx>', '<x:ex id="{0}"/>'),
    ('<sc id="{0}"/>', '<ec startRef="{0}"/>'),
    ('<sm id="{0}" type="comment"/>', '<em startRef="{0}"/>'),
    ('<it id="1{0}" rid="{0}" pos="open">[</it>', '<it id="2{0}" rid="{0}" pos="close">]</it>'),
    ('<ph id="1{0}">&lt;a href="/x/{0}"&gt;</ph>', '<ph id="2{0}">&lt;/a&gt;</ph>'),
    ('<ph id="1{0}"><![CDATA[<b>]]></ph>', '<ph id="2{0}"><![CDATA[</b>]]></ph>'),
    ('<x id="START_LINK_{0}"/>', '<x id="CLOSE_LINK_{0}"/>'),
    ('<x id="START_LINK_{0}"/>', '<x id="CLOSE_LINK"/>'),
    ('<x id="START_BOLD_TEXT"/>', '<x id="CLOSE_BOLD_TEXT"/>'),
]


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
@pytest.mark.parametrize("nested", [False, pytest.param(True, marks=pytest.mark.integration)])
def test_pairs_stay_around_their_phrases(opening, closing, nested):
    """In all 120 orders of five phrases, with a second pair beside the first, or in it."""
    marked = [1, 1] if nested else [1, 3]
    phrases = [*PHRASES]
    wanted = []
    for number, i in enumerate(marked):
        phrases[i] = f"{opening.format(number)}{phrases[i]}{closing.format(number)}"
        wanted.append((i, phrases[i].replace(PHRASES[i], PHRASES[i].upper())))
    wrong = []
    for order in itertools.permutations(range(len(PHRASES))):
        output = reordered(" ".join(phrases), XML, order)
        if not all(text in output for i, text in wanted):
            wrong.append(output)
    assert not wrong


def test_emphasis_of_html_is_no_code_of_version_2():
    (em,) = parse('<em>the <bx id="1"/>red<ex id="1"/> key</em>', XML).nodes
    (red,) = em.children
    assert (em.opening, red.opening, red.is_atom) == ("<em>", '<bx id="1"/>', False)


def test_pairs_that_overlap_open_before_they_close():
    first, second = (
        ("<bpt id='1'>[</bpt>", "<ept id='1'/>"),
        ("<sc id='1'/>", "<ec startRef='1'/>"),
    )
    phrases = [*PHRASES]
    phrases[1] = f"{first[0]}{phrases[1]}"
    phrases[2] = f"{second[0]}{phrases[2]}{first[1]}"
    phrases[3] += second[1]
    for order in itertools.permutations(range(len(PHRASES))):
        output = reordered(" ".join(phrases), XML, order)
        for opening, closing in (first, second):
            assert output.count(opening) == output.count(closing) == 1
            assert output.index(opening) < output.index(closing)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [PAIRS[9], ('<it id="1" pos="open">[</it>', '<it id="1" pos="close">]</it>'), PAIRS[13]],
)
def test_what_closes_a_pair_of_the_sentence_before_stays_first(opening, closing):
    opening, closing = opening.format(2), closing.format(2)
    before = closing.replace(">", " x='1'>", 1).replace("/ x='1'", " x='1'/")
    source = f"KEY{before} AND {opening}LOCK{closing}"
    assert capitals(source, XML) == source


@pytest.mark.parametrize(
    ("source", "text", "atoms"),
    [
        ('a <bpt id="1">[</bpt> b', "a b", ['<bpt id="1">[</bpt>']),
        ('<ex id="1"/>a <bx id="1"/>b', "a b", ['<ex id="1"/>', '<bx id="1"/>']),
        ('<bx id="1"/>a<ex id="2"/> b', "a b", ['<bx id="1"/>', '<ex id="2"/>']),
        ('<sc id="1" isolated="yes"/>a<ec id="1" isolated="yes"/>', "a", None),
        ('a <x id="1"/> b <x id="START"/>', "a b ", None),
        ('<sm id="1" translate="no"/>Acme<em startRef="1"/> is', " is", None),
        ('<mrk mtype="protected">Acme</mrk> is', " is", None),
        ('<ph id="1">&lt;b/&gt;</ph>a<ph id="2">&lt;/b&gt;</ph>', "a", None),
        ('<ph id="1">&lt;br&gt;</ph>a <ph id="2">%s</ph>b', "a b", None),
        ('the <it id="1" pos="open">[</it>key', "the key", None),
    ],
)
def test_codes_without_a_partner_and_what_is_protected_are_atoms(source, text, atoms):
    segment = parse(source, XML)
    assert segment.text == text
    assert all(node.is_atom for node in segment.nodes)
    if atoms:
        assert [node.opening for node in segment.nodes] == atoms


def test_a_code_may_say_anything():
    """What stands in a code is no attribute of it."""
    source = '<bpt id="1">&lt;b translate="no"&gt;</bpt>word<ept id="1"/>'
    assert parse(source, XML).text == "word"


def test_a_second_pair_of_one_name_closes_after_it_opens():
    first, second, end = (
        f'<x id="{name}"/>' for name in ("START_LINK", "START_LINK_1", "CLOSE_LINK")
    )
    source = f"{first}red{end} {second}key{end}"
    assert in_order(f"{first}rot{end} {end}Taste{second}", source) == (
        f"{first}rot{end} {second}Taste{end}"
    )
    assert in_order(source, source) == source
