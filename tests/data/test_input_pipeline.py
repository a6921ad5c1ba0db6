import collections
import hashlib
import itertools

import numpy as np
import pytest
import tensorflow as tf

from support.corpora import write_corpus
from t2t_lite.data import records
from t2t_lite.data.batching import UNLIMITED, batching_scheme
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.data.input_pipeline import eval_dataset, limited_eval_dataset, train_dataset
from t2t_lite.errors import DataError

SCHEME = batching_scheme(60, max_length=20, min_length_bucket=5, length_bucket_step=1.5)
KEEP_ALL = batching_scheme(
    60, max_length=0, min_length_bucket=5, length_bucket_step=1.5, drop_long_sequences=False
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Paths of ten files, and their examples; the first source id is an example's number."""
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def train(paths, *, scheme=SCHEME, reader=None, parts=1, seed=1, batch_shuffle_size=0):
    return train_dataset(
        paths,
        scheme,
        reader or ExampleReader(),
        parts=parts,
        seed=seed,
        batch_shuffle_size=batch_shuffle_size,
    )


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def pairs(batch):
    """The (source, target) ids of a batch, without padding and empty rows."""
    sides = (batch[name].reshape(-1, batch[name].shape[-1]) for name in ("inputs", "targets"))
    for source, target in zip(*sides, strict=True):
        if source.any() or target.any():
            yield np.trim_zeros(source).tolist(), np.trim_zeros(target).tolist()


def longer_side(example):
    return max(len(example["inputs"]), len(example["targets"]))


def digest(batches):
    """A fingerprint of shapes and contents, in order."""
    hashed = hashlib.sha256()
    for batch in batches:
        for name, ids in sorted(batch.items()):
            hashed.update(f"{name}{ids.shape}{ids.dtype}".encode() + ids.tobytes())
    return hashed.hexdigest()


@pytest.mark.integration
@pytest.mark.parametrize("parts", [1, 3])
def test_training_batches_fit_the_scheme(corpus, parts):
    dataset = train(corpus[0], parts=parts)
    assert dataset.element_spec["inputs"].dtype == tf.int32
    buckets = set()
    for batch in take(dataset, 100):
        rows = list(pairs(batch))
        longest = {
            "inputs": max(len(source) for source, _ in rows),
            "targets": max(len(target) for _, target in rows),
        }
        (bucket,) = {SCHEME.bucket(max(len(s), len(t))) for s, t in rows}
        size = SCHEME.batch_sizes[bucket]
        for name, ids in batch.items():
            assert ids.shape == (parts, size, longest[name])
            assert size * longest[name] <= 60
        buckets.add(bucket)
    assert buckets == set(range(len(SCHEME.batch_sizes)))


@pytest.mark.integration
def test_every_epoch_has_each_example_once_in_another_order(corpus):
    paths, examples = corpus
    emitted = collections.defaultdict(list)
    for batch in take(train(paths, parts=2), 200):
        for source, target in pairs(batch):
            emitted[SCHEME.bucket(max(len(source), len(target)))].append(source[0] - 2)
    members = collections.defaultdict(set)
    for number, example in enumerate(examples):
        if longer_side(example) <= SCHEME.max_length:
            members[SCHEME.bucket(longer_side(example))].add(number)
    assert emitted.keys() == members.keys()
    for bucket, numbers in emitted.items():
        size = len(members[bucket])
        epochs = [numbers[i : i + size] for i in range(0, len(numbers) - size + 1, size)]
        assert len(epochs) >= 3
        assert all(set(epoch) == members[bucket] for epoch in epochs)
        if size > 10:  # so few orders of less exist that some recur
            assert len(set(map(tuple, epochs))) == len(epochs)


def test_lengths_outside_the_scheme_are_dropped(corpus):
    scheme = batching_scheme(60, 20, 5, 1.5, min_length=8)
    batches = take(train(corpus[0], scheme=scheme), 100)
    lengths = {max(len(s), len(t)) for batch in batches for s, t in pairs(batch)}
    expected = {longer_side(example) for example in corpus[1]}
    assert lengths == {length for length in expected if 8 <= length <= 20}


@pytest.mark.integration
def test_seed_decides_the_order(corpus):
    paths = corpus[0]
    orders = [digest(take(train(paths, seed=seed, batch_shuffle_size=8), 60)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@pytest.mark.integration
def test_batch_shuffle_only_reorders_within_its_buffer(corpus):
    # Eight batches of one worker, or four of two.
    for parts, ahead in ((1, 8), (2, 4)):
        plain = [digest([b]) for b in take(train(corpus[0], parts=parts), 60)]
        shuffled = take(train(corpus[0], parts=parts, batch_shuffle_size=8), 60 - ahead)
        shuffled = [digest([batch]) for batch in shuffled]
        assert shuffled != plain[: len(shuffled)]
        for step, batch in enumerate(shuffled):
            assert batch in plain[: step + ahead]


@pytest.mark.integration
def test_workers_share_one_large_batch(corpus):
    doubled = batching_scheme(60, 20, 5, 1.5)
    doubled = type(doubled)(doubled.boundaries, tuple(2 * n for n in doubled.batch_sizes), 0, 20)
    split = take(train(corpus[0], parts=2), 40)
    whole = take(train(corpus[0], scheme=doubled), 40)
    for two, one in zip(split, whole, strict=True):
        for name in one:
            np.testing.assert_array_equal(two[name].reshape(one[name].shape), one[name])


def test_few_examples_still_fill_batches(tmp_path):
    path = str(tmp_path / "tiny")
    records.write_examples(path, [{"inputs": [7, 1], "targets": [8, 1]}] * 3)
    (batch,) = take(train([path], parts=2, batch_shuffle_size=2), 1)
    assert batch["inputs"].shape == (2, SCHEME.batch_sizes[0], 2)


@pytest.mark.integration
def test_reader_applies(corpus):
    reader = ExampleReader(reverse=True, max_target_length=4)
    batch = take(train(corpus[0], reader=reader), 1)[0]
    targets = [target for _, target in pairs(batch)]
    assert max(map(len, targets)) <= 4
    assert all(target[-1] == 1 and target[0] >= 2 for target in targets)


def next_batches(iterator, count):
    return [{name: ids.numpy() for name, ids in next(iterator).items()} for _ in range(count)]


@pytest.mark.integration
def test_restoring_continues_with_the_next_batch(corpus, tmp_path):
    paths = corpus[0]
    tf.random.set_seed(5)  # as the trainer does; whatever another test has set counts, too
    iterator = iter(train(paths, parts=2, batch_shuffle_size=8))
    next_batches(iterator, 7)
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    expected = digest(next_batches(iterator, 40))

    fresh = iter(train(paths, parts=2, batch_shuffle_size=8))
    next_batches(fresh, 3)
    tf.train.Checkpoint(iterator=fresh).restore(saved).assert_consumed()
    assert digest(next_batches(fresh, 40)) == expected


def test_the_examples_of_one_file_are_mixed(tmp_path):
    path, numbers = tmp_path / "shard", list(range(2, 62))
    records.write_examples(path, ({"inputs": [n, 1], "targets": [1]} for n in numbers))
    batches = train([str(path)]).unbatch().unbatch()
    found = [int(example["inputs"][0]) for example in take(batches, len(numbers))]
    assert found != numbers
    assert sorted(found) == numbers


@pytest.mark.parametrize("parts", [1, 3])
def test_evaluation_has_every_example_once(corpus, parts):
    paths, examples = corpus
    batches = take(eval_dataset(paths, KEEP_ALL, ExampleReader(), parts=parts), None)
    seen = [pair for batch in batches for pair in pairs(batch)]
    assert sorted(seen) == sorted((e["inputs"], e["targets"]) for e in examples)
    for batch in batches:
        assert {ids.shape[0] for ids in batch.values()} == {parts}
        # Only what completes the last rank is empty.
        rows = batch["inputs"].reshape(-1, batch["inputs"].shape[-1]).any(axis=1)
        assert (~rows).sum() < parts
        for ids in batch.values():
            assert ids.shape[1] == 1 or ids.shape[1] * ids.shape[2] <= 60


@pytest.mark.integration
@pytest.mark.parametrize("limit", [1, 3, 6, 1000])
def test_a_limited_evaluation_has_the_same_examples_in_any_number_of_parts(corpus, limit):
    paths, examples = corpus

    def seen(parts):
        batches, _ = limited_eval_dataset(
            paths, KEEP_ALL, ExampleReader(), parts=parts, limit=limit
        )
        return sorted(pair for batch in take(batches, None) for pair in pairs(batch))

    unlimited = take(eval_dataset(paths, KEEP_ALL, ExampleReader(), parts=1), limit)
    wanted = sorted(pair for batch in unlimited for pair in pairs(batch))
    assert (len(wanted) < len(examples)) == (limit < 1000)
    assert [seen(parts) for parts in (1, 2, 5)] == [wanted] * 3


@pytest.mark.integration
def test_whether_a_limit_leaves_out_examples_is_known(corpus):
    given = corpus[0], KEEP_ALL, ExampleReader()
    batches = len(take(eval_dataset(*given, parts=1), None))
    limits = 1, batches - 1, batches, 1000
    found = [limited_eval_dataset(*given, parts=1, limit=limit)[1] for limit in limits]
    assert found == [True, True, False, False]


def test_evaluation_can_drop_long_examples(corpus):
    paths, examples = corpus
    batches = take(eval_dataset(paths, SCHEME, ExampleReader(), parts=1), None)
    kept = sum(longer_side(example) <= 20 for example in examples)
    assert 0 < kept < len(examples)
    assert sum(1 for batch in batches for _ in pairs(batch)) == kept
    assert KEEP_ALL.max_length == UNLIMITED


def test_a_damaged_file_is_named_in_training(corpus, tmp_path):
    good, bad = corpus[0][0], tmp_path / "bad"
    records.write_examples(bad, [{"inputs": [7, 1], "targets": [8, 1]}] * 3)
    bad.write_bytes(bad.read_bytes()[:-3])
    with pytest.raises(DataError, match="bad, record 3"), naming_bad_file([good, str(bad)]):
        take(train([good, str(bad)]), 50)
