import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite.data.batching import UNLIMITED, BatchingScheme, batch_parts, batching_scheme
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams


def test_equals_t2t(golden):
    entries = json.loads((golden / "bucketing.json").read_text(encoding="utf-8"))
    assert entries
    for entry in entries:
        # T2T's two multipliers are products of its plain scheme, so they need no option here.
        stretch, shards = entry["length_multiplier"], entry["shard_multiplier"]
        arguments = {
            "batch_size": entry["batch_size"] // stretch,
            "max_length": entry["max_length"],
            "min_length_bucket": entry["min_length_bucket"],
            "length_bucket_step": entry["length_bucket_step"],
            "min_length": entry["min_length"],
        }
        scheme = batching_scheme(**arguments)
        expected = entry["train"]
        assert [b * stretch for b in scheme.boundaries] == expected["boundaries"]
        assert [size * shards for size in scheme.batch_sizes] == expected["batch_sizes"]
        assert scheme.min_length == expected["min_length"]
        assert scheme.max_length * stretch == expected["max_length"]
        for length, size in entry["batch_size_of_length"].items():
            bucket = scheme.bucket(int(length) // stretch)
            assert scheme.batch_sizes[bucket] * shards == size, (arguments, length)
        kept_all = batching_scheme(**arguments, drop_long_sequences=False)
        assert kept_all.max_length == entry["eval"]["max_length"]
        assert kept_all.batch_sizes == scheme.batch_sizes


def test_a_scheme_worked_out_by_hand():
    # 64 // (4, 8, 16, 20) = 16, 8, 4, 3; window 48 = most divisible up to 3 * 16.
    scheme = batching_scheme(64, max_length=20, min_length_bucket=4, length_bucket_step=2.0)
    assert scheme == BatchingScheme((4, 8, 16), (16, 8, 4, 3), min_length=0, max_length=20)
    assert [scheme.bucket(length) for length in (1, 3, 4, 7, 8, 15, 16, 20)] == [
        *(0, 0, 1, 1, 2, 2, 3, 3)
    ]
    # Cells: 16 * 3, 8 * 7, 4 * 15, 3 * 20; of two with 60 cells the longer costs more attention.
    assert scheme.worst_bucket == (3, 20)


def test_sizes_are_rounded_down_to_divisors_of_the_window():
    # 100 // (10, 20, 40, 50) = 10, 5, 2, 2; window 24, whose divisors up to 10 are 8, 4 and 2.
    scheme = batching_scheme(100, max_length=50, min_length_bucket=10, length_bucket_step=2.0)
    assert scheme.batch_sizes == (8, 4, 2, 2)


@settings(deadline=None)
@given(
    batch_size=st.integers(1, 5000),
    max_length=st.integers(0, 600),
    first=st.integers(1, 40),
    step=st.floats(0.5, 3.0),
)
def test_no_batch_exceeds_its_budget(batch_size, max_length, first, step):
    scheme = batching_scheme(batch_size, max_length, first, step)
    assert list(scheme.boundaries) == sorted(set(scheme.boundaries))
    shapes = [
        (scheme.batch_sizes[scheme.bucket(length)], length)
        for length in range(1, scheme.max_length + 1)
    ]
    assert all(size == 1 or size * length <= batch_size for size, length in shapes)
    worst_size, worst_length = scheme.worst_bucket
    assert max(size * length for size, length in shapes) <= worst_size * worst_length


@settings(deadline=None)
@given(
    batch_size=st.integers(1, 3000),
    max_length=st.integers(1, 300),
    longest=st.integers(1, 300),
    multiple=st.sampled_from([1, 8, 1000]),
)
def test_the_largest_batch_is_that_of_the_longest_example(
    batch_size, max_length, longest, multiple
):
    longest = min(longest, max_length)
    scheme = batching_scheme(batch_size, max_length, min_length_bucket=8, length_bucket_step=1.1)
    shapes = []
    for length in range(1, longest + 1):
        bucket = scheme.bucket(length)
        padded = min(-(-length // multiple) * multiple, scheme.longest[bucket])
        shapes.append((scheme.batch_sizes[bucket], padded))
    largest = max(shapes, key=lambda shape: (shape[0] * shape[1], shape[1]))
    assert scheme.largest_batch(longest, multiple) == largest


def test_from_hparams():
    hparams = BasicHParams(batch_size=1024, max_length=64, min_length=3)
    training = BatchingScheme.from_hparams(hparams, training=True)
    assert training == batching_scheme(1024, 64, 8, 1.1, min_length=3)
    evaluation = BatchingScheme.from_hparams(hparams, training=False)
    assert (evaluation.min_length, evaluation.max_length) == (0, UNLIMITED)
    # Long sentences keep within the budget, down to one that fills it alone.
    for length in (65, 100, 500, 1024, 5000):
        size = evaluation.batch_sizes[evaluation.bucket(length)]
        assert size == 1 or size * length <= 1024
    dropping = hparams.copy(eval_drop_long_sequences=True)
    assert BatchingScheme.from_hparams(dropping, training=False) == training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"min_length_bucket": 0}, "min_length_bucket=0"),
        ({"max_length": 10, "min_length": 11}, "min_length=11 exceeds max_length=10"),
    ],
)
def test_contradictions_are_usage_errors(changes, message):
    with pytest.raises(UsageError, match=message):
        BatchingScheme.from_hparams(BasicHParams(**changes), training=True)


@pytest.mark.parametrize(
    ("hparams", "replicas", "parts"),
    [
        ("", 1, 1),
        ("", 8, 8),
        ("optimizer_multistep_accumulate_steps=4", 2, 8),
        # 25,000 tokens in parts of 4,096: 7 of them, on each device as many.
        ("effective_batch_size=25000", 1, 7),
        ("effective_batch_size=25000", 2, 8),
        ("effective_batch_size=25000", 8, 8),
        ("effective_batch_size=32768", 1, 8),
        ("effective_batch_size=32769", 1, 9),
        ("effective_batch_size=25000,batch_size=1000000", 4, 4),
    ],
)
def test_parts_of_an_effective_batch(hparams, replicas, parts):
    assert batch_parts(BasicHParams().override(hparams), replicas) == parts


@given(
    batch_size=st.integers(1, 10_000), effective=st.integers(1, 10**6), replicas=st.integers(1, 9)
)
def test_the_effective_batch_is_reached_and_hardly_exceeded(batch_size, effective, replicas):
    hparams = BasicHParams(batch_size=batch_size, effective_batch_size=effective)
    parts = batch_parts(hparams, replicas)
    assert parts % replicas == 0
    assert 0 <= parts * batch_size - effective < replicas * batch_size


@pytest.mark.parametrize(
    "hparams",
    ["optimizer_multistep_accumulate_steps=2", "optimizer=multistep_adam"],
)
def test_an_effective_batch_leaves_no_say_to_others(hparams):
    with pytest.raises(UsageError, match="effective_batch_size=9 sets the accumulation itself"):
        batch_parts(BasicHParams(effective_batch_size=9).override(hparams), 1)
