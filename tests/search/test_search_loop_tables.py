"""Searches over probabilities written by hand: every output, and its score, is known."""

import itertools
import math

import numpy as np
import pytest

from support.rounding import assert_close
from support.small_models import ByHand
from t2t_lite.errors import UsageError
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.constraints import EndAtLimit, FixedLength, MinLength, NoRepeatedNgrams
from t2t_lite.search.parts import DEAD
from t2t_lite.search.penalties import NO_PENALTY, Penalty
from t2t_lite.search.sampling import RandomSearch
from t2t_lite.search.stopping import T2TStopping

pytestmark = pytest.mark.usefixtures("eager_searches")

EOS, A, B = 1, 2, 3
# For CI alone: one row of each kind is for every change.
SELDOM = pytest.mark.integration
NEVER = [0.0, 0.0, 0.0, 0.0]

# [step, last, next]: what comes at step 3 is the same after all.
TABLE = [
    [[0.0, 0.0, 0.6, 0.4], NEVER, NEVER, NEVER],
    [NEVER, NEVER, [0.0, 0.55, 0.0, 0.45], [0.0, 0.1, 0.9, 0.0]],
    [NEVER, NEVER, [0.0, 0.8, 0.0, 0.2], [0.0, 0.7, 0.3, 0.0]],
    [NEVER, NEVER, [0.0, 0.9, 0.1, 0.0], [0.0, 0.9, 0.1, 0.0]],
]
# After nothing and after B the first of two source words is attended to, after A the second.
ATTENTION = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]

# Outputs, and the probability of each token.
A_ = ([A, EOS], [0.6, 0.55])
B_ = ([B, EOS], [0.4, 0.1])
BA = ([B, A, EOS], [0.4, 0.9, 0.8])
AB = ([A, B, EOS], [0.6, 0.45, 0.7])
BAB = ([B, A, B, EOS], [0.4, 0.9, 0.2, 0.9])
ABA = ([A, B, A, EOS], [0.6, 0.45, 0.3, 0.9])


def log(probabilities):
    return math.log(math.prod(probabilities))


def check(found, expected):
    """Compares with pairs of an output and its score, best first."""
    for k, (output, score) in enumerate(expected):
        assert found.ids[0, k].tolist() == output + [0] * (found.ids.shape[2] - len(output))
        assert_close(found.scores[0, k], score, len(output) * len(NEVER))  # softmaxes, a sum


@pytest.fixture(scope="module")
def table():
    return ByHand(np.array(TABLE)[:, None], ATTENTION)


def search(model, penalty=NO_PENALTY, limit=4, constraints=(), prefix=None, is_prompt=False):
    found = made(model, penalty, constraints, is_prompt)
    return found(np.array([[1, 5]]), [limit], None if prefix is None else np.array([prefix]))


def made(model, penalty, constraints=(), is_prompt=False):
    settings = {"constraints": constraints, "is_prompt": is_prompt}
    return BeamSearch(model, 2, penalty, stopping=T2TStopping(early=False), **settings)


@pytest.mark.parametrize(
    ("penalty", "divisor", "best"),
    [
        pytest.param(Penalty(), lambda n: 1, (A_, BA), id="none"),
        pytest.param(Penalty(1.0), lambda n: (5 + n) / 6, (BA, A_), id="t2t"),
        pytest.param(Penalty(1.0, "average"), lambda n: n, (BA, A_), id="average", marks=SELDOM),
        pytest.param(Penalty(3.0, "average"), lambda n: n**3, (ABA, BAB), id="long", marks=SELDOM),
        pytest.param(Penalty(-3.0, "average"), lambda n: n**-3, (A_, B_), id="short"),
        pytest.param(
            Penalty(-9.0), lambda n: ((5 + n) / 6) ** -9, (A_, B_), id="short-t2t", marks=SELDOM
        ),
    ],
)
def test_length_penalties(table, penalty, divisor, best):
    expected = [(output, log(probs) / divisor(len(output))) for output, probs in best]
    check(search(table, penalty), expected)


def test_coverage_penalty(table):
    """The second word is attended to by 0.1 + 0.8 after A, by 0.1 + 0.1 + 0.8 after B, A."""
    penalty = Penalty(coverage_penalty=2.0)
    expected = [(BA[0], log(BA[1])), (A_[0], log(A_[1]) + 2.0 * math.log(0.9))]
    check(search(table, penalty), expected)


def test_greatest_length(table):
    check(search(table, limit=2), [(A_[0], log(A_[1])), (B_[0], log(B_[1]))])
    # None has ended: the alive ones, with their log-probability, whatever the penalty.
    check(search(table, Penalty(2.0), limit=1), [([A], math.log(0.6)), ([B], math.log(0.4))])


def test_least_length(table):
    found = search(table, constraints=(MinLength(2),))
    check(found, [(BA[0], log(BA[1])), (AB[0], log(AB[1]))])


def test_least_length_above_the_greatest(table):
    found = search(table, limit=2, constraints=(MinLength(5),))
    check(found, [([B, A], math.log(0.36)), ([A, B], math.log(0.27))])


def test_least_length_after_a_prompt(table):
    found = search(table, constraints=(MinLength(2),), prefix=[B], is_prompt=True)
    check(found, [(BAB[0], log(BAB[1][1:]))])
    assert found.scores[0, 1] == DEAD


@pytest.mark.parametrize(
    ("penalty", "divisor"),
    [
        (Penalty(2.0, "average"), lambda n: n**2),
        pytest.param(Penalty(-1.5, "average"), lambda n: n**-1.5, marks=SELDOM),
        pytest.param(Penalty(1.0), lambda n: (5 + n) / 6, marks=SELDOM),
    ],
)
def test_the_length_penalty_leaves_prompts_out(table, penalty, divisor):
    """Whatever the prompts of the other sentences."""
    prompts = [[B, 0, 0], [A, B, 0], [A, B, A]]
    outputs = [(B_, BA, BAB), (AB, ABA), (ABA,)]
    search = made(table, penalty, is_prompt=True)
    found = search(np.array([[1, 5]] * 3), [4] * 3, np.array(prompts))
    for row, (prompt, all_outputs) in enumerate(zip(prompts, outputs, strict=True)):
        start = np.count_nonzero(prompt)
        scored = [(log(p[start:]) / divisor(len(ids) - start), ids) for ids, p in all_outputs]
        for k, (score, ids) in enumerate(sorted(scored, reverse=True)[:2]):
            assert found.ids[row, k, : len(ids)].tolist() == ids
            assert_close(found.scores[row, k], score, len(ids) * len(NEVER))


def test_exact_length(table):
    """EOS at the end alone; its probability counts."""
    exact = (FixedLength(),)
    check(search(table, limit=2, constraints=exact), [(A_[0], log(A_[1])), (B_[0], log(B_[1]))])
    found = search(table, limit=3, constraints=exact)
    check(found, [(BA[0], log(BA[1])), (AB[0], log(AB[1]))])


@pytest.mark.integration
def test_eos_at_the_limit(table):
    """It does not count, and overrides the other constraints; ends before the limit do count."""
    ends = (EndAtLimit(),)
    found = search(table, Penalty(1.0, "average"), limit=3, constraints=ends)
    cut = [([B, A, EOS], math.log(0.36) / 3), ([A, B, EOS], math.log(0.27) / 3)]
    check(found, cut)
    long = (MinLength(5), NoRepeatedNgrams(1), EndAtLimit())
    check(
        search(table, limit=2, constraints=long), [([A, EOS], log([0.6])), ([B, EOS], log([0.4]))]
    )
    greedy = greedy_search(table, ends)
    check(greedy(np.array([[1, 5]]), [2]), [([A, EOS], math.log(0.6))])


@pytest.mark.integration
def test_other_ids_may_end_an_output():
    """They stay in the output; the least length and an exact one hold for them, too."""
    model = ByHand(np.array(TABLE)[:, None], ATTENTION)
    model.other_ends = (B,)
    found = BeamSearch(model, 2, NO_PENALTY, stopping=T2TStopping(early=False))(
        np.array([[1, 5]]), [4]
    )
    check(found, [([B], math.log(0.4)), ([A, EOS], log([0.6, 0.55]))])
    long = (MinLength(1, (B,)),)
    found = BeamSearch(model, 2, NO_PENALTY, T2TStopping(False), long)(np.array([[1, 5]]), [4])
    check(found, [([A, EOS], log([0.6, 0.55])), ([A, B], log([0.6, 0.45]))])
    exact = (FixedLength((B,)),)
    found = BeamSearch(model, 2, NO_PENALTY, T2TStopping(False), exact)(np.array([[1, 5]]), [1])
    check(found, [([B], math.log(0.4))])
    samples = RandomSearch(model, 8, seed=0)(np.array([[1, 5]]), [4]).ids[0].tolist()
    assert {tuple(ids) for ids in samples} <= {(B, 0, 0, 0), (A, EOS, 0, 0), (A, B, 0, 0)}


def test_no_token_twice(table):
    found = search(table, Penalty(3.0, "average"), constraints=(NoRepeatedNgrams(1),))
    check(found, [(BA[0], log(BA[1]) / 27), (AB[0], log(AB[1]) / 27)])


def test_prefix(table):
    """Its probability counts, and where only one output has it there is but one."""
    check(search(table, prefix=[B]), [(BA[0], log(BA[1])), (BAB[0], log(BAB[1]))])
    found = search(table, limit=3, prefix=[A, B])
    check(found, [(AB[0], log(AB[1]))])
    assert found.scores[0, 1] == DEAD
    assert not found.ids[0, 1].any()


def test_a_prefix_overrides_the_constraints(table):
    """Whether it has a token twice."""
    once = (NoRepeatedNgrams(1),)
    check(search(table, constraints=once, prefix=[A, B, A]), [(ABA[0], log(ABA[1]))])


def test_a_prefix_must_leave_room(table):
    with pytest.raises(ValueError, match="room for the prefix and EOS"):
        search(table, limit=2, prefix=[A, B])


@pytest.mark.parametrize(
    ("penalty", "least", "size", "prefix"),
    [
        pytest.param(Penalty(), 0, 0, [], marks=SELDOM),
        pytest.param(Penalty(0.6), 2, 0, [], marks=SELDOM),
        pytest.param(Penalty(-1.0), 0, 2, [], marks=SELDOM),
        pytest.param(Penalty(1.0, "average"), 0, 1, [], marks=SELDOM),
        (Penalty(-0.5, "average", 0.5), 0, 0, [3]),
        (Penalty(0.6, "t2t", 0.3), 3, 2, [3, 3]),
    ],
)
def test_a_beam_of_all_hypotheses_is_exhaustive_search(penalty, least, size, prefix):
    vocabulary, limit = 5, 4
    draw = np.random.default_rng(0)
    table = draw.dirichlet(np.ones(vocabulary), (limit, 2, vocabulary))
    attention = draw.dirichlet(np.ones(3), vocabulary)
    model = ByHand(table, attention)
    constraints = [
        *([MinLength(least)] if least else []),
        *([NoRepeatedNgrams(size)] if size else []),
    ]
    search = BeamSearch(model, vocabulary**limit, penalty, T2TStopping(False), constraints)
    # The second sentence has a padded source and no prefix.
    inputs, prefixes = np.array([[1, 4, 4], [2, 4, 0]]), np.array([prefix, [0] * len(prefix)])
    ids, scores = search(inputs, [limit] * 2, prefixes)
    for b, start in enumerate((prefix, [])):
        expected = []
        for output in outputs(vocabulary, limit):
            if not obeys(output, least, size, start):
                continue
            lasts = [0, *output[:-1]]
            log_prob = sum(np.log(table[i, b, lasts[i], output[i]]) for i in range(len(output)))
            base = (5 + len(output)) / 6 if penalty.length_penalty == "t2t" else len(output)
            attended = np.minimum(attention[lasts].sum(axis=0), 1)[inputs[b] != 0]
            coverage = penalty.coverage_penalty * np.log(attended).sum()
            expected.append((log_prob / base**penalty.alpha + coverage, output))
        expected.sort(reverse=True)
        assert len(expected) >= 3
        for k, (_, output) in enumerate(expected):
            assert tuple(ids[b, k]) == output + (0,) * (limit - len(output))
        assert_close(
            scores[b, : len(expected)], [score for score, _ in expected], limit * vocabulary
        )
        assert (scores[b, len(expected) :] == DEAD).all()


def outputs(vocabulary, limit):
    """Yields all outputs that end within the limit."""
    others = [token for token in range(vocabulary) if token != EOS]
    for length in range(limit):
        for body in itertools.product(others, repeat=length):
            yield (*body, EOS)


def obeys(output, least, n, prefix):
    """Whether the output has the prefix, and obeys the constraints after it."""
    if output[: len(prefix)] != tuple(prefix):
        return False
    if len(output) - 1 < max(least, len(prefix)):
        return False
    grams = [output[i : i + n] for i in range(len(output) - n + 1)] if n else []
    return not any(gram in grams[:i] for i, gram in enumerate(grams) if i + n - 1 >= len(prefix))


@pytest.mark.integration
@pytest.mark.parametrize(
    "penalty",
    [Penalty(1.0, "t2t", 0.1), pytest.param(Penalty(-2.0, "average"), marks=SELDOM)],
)
def test_stopping_early_finds_the_same_best(penalty):
    """200 sentences of 12 steps at most."""
    draw = np.random.default_rng(1)
    table = np.broadcast_to(draw.dirichlet(np.full(7, 0.3), (200, 7)), (12, 200, 7, 7))
    model = ByHand(table, draw.dirichlet(np.ones(2), 7))
    inputs = np.stack([np.arange(1, 201), np.ones(200)], axis=1)
    early, late = (
        BeamSearch(model, 3, penalty, T2TStopping(stop_early))(inputs, [12] * 200)
        for stop_early in (True, False)
    )
    np.testing.assert_array_equal(early.ids[:, 0], late.ids[:, 0])
    # The place of a row in a batch, which one search shrinks earlier, may change its last bit.
    assert_close(early.scores[:, 0], late.scores[:, 0], 12 * 7)
    assert (late.scores[:, 1:] > early.scores[:, 1:]).any()  # or nothing was stopped


def test_unknown_penalties():
    with pytest.raises(UsageError, match="length_penalty='gnmt': expected t2t or average"):
        Penalty(1.0, "gnmt")
    with pytest.raises(UsageError, match=r"coverage_penalty=-1\.0 is less than 0"):
        Penalty(coverage_penalty=-1.0)
