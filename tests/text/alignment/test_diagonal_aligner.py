import itertools

import numpy as np
import pytest

from t2t_lite.errors import DataError
from t2t_lite.text.alignment import diagonal_aligner
from t2t_lite.text.alignment.diagonal_aligner import DiagonalAligner


def made_pairs(count, seed, reverse=False):
    """Pairs of 20 words; word i is translated by i + 100, and 7 also makes 150 after it."""
    random = np.random.default_rng(seed)
    pairs, links = [], []
    for _ in range(count):
        source = random.integers(20, size=random.integers(1, 9))
        order = np.arange(len(source))[:: -1 if reverse else 1]
        target, link = [], []
        for i in order:
            target += [source[i] + 100] + [150] * int(source[i] == 7)
            link += [i] * (1 + int(source[i] == 7))
        pairs.append((source, np.array(target)))
        links.append(link)
    return pairs, links


@pytest.mark.parametrize("reverse", [False, True])
def test_finds_the_dictionary_and_the_links(reverse):
    """Some words stand twice in a sentence, so that only their places tell which made which."""
    pairs, links = made_pairs(500, seed=0, reverse=reverse)
    aligner = DiagonalAligner.train(pairs)
    found = list(aligner.align(pairs))
    right = [
        i == j
        for (source, _), a, b in zip(pairs, found, links, strict=True)
        for i, j in zip(a, b, strict=True)
        # In reverse order the diagonal misleads where a word stands twice.
        if not reverse or np.count_nonzero(source == source[j]) == 1
    ]
    assert np.mean(right) > 0.99
    best = {}
    for source, target, probability in zip(*aligner.table(), strict=True):
        best.setdefault(source, []).append((probability, target))
    assert {source: max(entries)[1] for source, entries in best.items() if source != 7} == {
        i: i + 100 for i in range(20) if i != 7
    }
    assert {target for _, target in sorted(best[7])[-2:]} == {107, 150}


def test_the_tension_follows_the_text():
    """It rises where targets are in the order of their sources, and falls where they are not."""
    ordered, mixed = (made_pairs(300, 1, reverse)[0] for reverse in (False, True))
    assert DiagonalAligner.train(mixed).tension < 1 < 5 < DiagonalAligner.train(ordered).tension


def test_one_step_of_expectation_is_that_of_brute_force():
    pairs, _ = made_pairs(6, seed=2)
    aligner = DiagonalAligner.train(pairs, iterations=1)
    codes = sorted(
        {
            (s, t)
            for source, target in pairs
            for s, t in itertools.product([-1, *source.tolist()], target.tolist())
        }
    )
    counts = dict.fromkeys(codes, 0.0)
    for source, target in pairs:
        for j, t in enumerate(target.tolist(), 1):
            prior = np.exp(
                [-4 * abs(i / len(source) - j / len(target)) for i in range(1, len(source) + 1)]
            )
            weights = [0.08, *(0.92 * prior / prior.sum())]
            for s, weight in zip([-1, *source.tolist()], weights, strict=True):
                counts[s, t] += weight
    expected = {}
    for s, t in codes:
        own = [value for (other, _), value in counts.items() if other == s]
        total = diagonal_aligner._digamma(np.array([sum(own) + 0.01 * len(own)]))
        expected[s, t] = np.exp(diagonal_aligner._digamma(np.array([counts[s, t] + 0.01])) - total)
    found = {(s, t): p for s, t, p in zip(*aligner.table(), strict=True)}
    assert len(found) == sum(s >= 0 for s, _ in codes)
    for key, probability in found.items():
        np.testing.assert_allclose(probability, expected[key][0], rtol=1e-9)


def test_pairs_are_aligned_by_themselves(monkeypatch):
    """However they are cut into parts; pairs with an empty side and unknown words included."""
    pairs, _ = made_pairs(40, seed=3)
    aligner = DiagonalAligner.train(pairs)
    nothing = np.zeros(0, np.int64)
    strange = [
        (nothing, np.array([100])),
        (np.array([3]), nothing),
        (np.array([99, 3]), [999, 103]),
    ]
    strange = [(np.asarray(s), np.asarray(t)) for s, t in strange]
    whole = [found.tolist() for found in aligner.align([*pairs, *strange])]
    alone = [found.tolist() for pair in [*pairs, *strange] for found in aligner.align([pair])]
    assert whole == alone
    assert whole[-3:-1] == [[-1], []]
    assert whole[-1][1] == 1
    monkeypatch.setattr(diagonal_aligner, "_CHUNK", 30)
    assert [found.tolist() for found in aligner.align([*pairs, *strange])] == whole
    again = DiagonalAligner.train(pairs)
    np.testing.assert_allclose(again.table()[2], aligner.table()[2], rtol=1e-2, atol=1e-3)


def test_large_corpora_are_sampled(monkeypatch):
    pairs, _ = made_pairs(300, seed=4)
    monkeypatch.setattr(diagonal_aligner, "_MOST_LINKS", 2000)
    found = DiagonalAligner.train(pairs).table()
    links = sum((len(source) + 1) * len(target) for source, target in pairs)
    monkeypatch.undo()
    expected = DiagonalAligner.train(pairs[:: -(-links // 2000)]).table()
    np.testing.assert_array_equal(found, expected)


def test_pairs_too_long_to_align_are_left_out_with_a_warning(caplog):
    pairs, _ = made_pairs(40, seed=3)
    long = np.full(1000, 500), np.full(1000, 600)  # with no source token, more than a million links
    aligner = DiagonalAligner.train([*pairs, long])
    assert 500 not in aligner.table()[0]
    assert "1 pairs, first pair 41, are too long to align" in caplog.text
    short, found, other = aligner.align([pairs[0], long, pairs[1]])
    np.testing.assert_array_equal(found, np.full(1000, -1))
    for pair, alone in ((pairs[0], short), (pairs[1], other)):
        np.testing.assert_array_equal(*aligner.align([pair]), alone)
    with pytest.raises(DataError, match="no pair has text on both sides, and few enough subwords"):
        DiagonalAligner.train([long])


def test_without_pairs_there_is_nothing_to_align():
    with pytest.raises(DataError, match="no pair has text on both sides"):
        DiagonalAligner.train([(np.zeros(0, int), np.array([1]))])


def test_digamma_is_the_derivative_of_the_log_of_gamma():
    """Values of Abramowitz & Stegun, table 6.1, and of ψ(1/2) = -γ - 2 log 2."""
    x = np.array([1.0, 2.0, 0.5, 1.5])
    expected = [-0.5772156649, 0.4227843351, -1.9635100260, 0.0364899740]
    np.testing.assert_allclose(diagonal_aligner._digamma(x), expected, atol=1e-9)
