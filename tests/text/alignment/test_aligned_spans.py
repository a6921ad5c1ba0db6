"""Spans that are consistent with an alignment, against all spans that there are."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.text.alignment.aligned_spans import aligned_spans, equal_spans
from t2t_lite.text.alignment.units import units_of

WORDS = st.lists(st.sampled_from(["a", "bc", "d", ",", "("]), min_size=1, max_size=6)


def span_of(words, first, last):
    return words[first].start, words[last].end


def by_force(texts, words, links):
    """The definition, with all pairs of spans."""
    found = set()
    ranges = [
        [(a, b) for a in range(len(side)) for b in range(a, min(len(side), a + longest))]
        for side, longest in zip(words, (3, 4), strict=True)
    ]
    for (a, b), (c, d) in itertools.product(*ranges):
        inside = {(i, j) for i, j in links if a <= i <= b or c <= j <= d}
        is_consistent = all(a <= i <= b and c <= j <= d for i, j in inside)
        edges = {a, b} <= {i for i, _ in inside} and {c, d} <= {j for _, j in inside}
        spans = span_of(words[0], a, b), span_of(words[1], c, d)
        shown = "".join(text[slice(*span)] for text, span in zip(texts, spans, strict=True))
        is_text = not {*",("} & {*shown}
        if inside and is_consistent and edges and is_text:
            found.add(spans)
    return found


@given(WORDS, WORDS, st.data())
def test_they_are_all_that_no_link_leaves(source, target, data):
    texts = " ".join(source), " ".join(target)
    words = units_of(texts[0]), units_of(texts[1])
    pairs = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    links = data.draw(st.sets(pairs, max_size=8))
    found = aligned_spans(texts[0], words[0], texts[1], words[1], links)
    assert found == sorted(found)
    assert {(tuple(one), tuple(other)) for one, other in found} == by_force(texts, words, links)


def test_equal_words_stand_once_on_both_sides():
    texts = "run x1 or run 42, y", "y und 42, 42 x1"
    found = equal_spans(texts[0], units_of(texts[0]), texts[1], units_of(texts[1]))
    sources = [texts[0][slice(*source)] for source, _ in found]
    assert sources == [texts[1][slice(*target)] for _, target in found] == ["x1", "y"]
