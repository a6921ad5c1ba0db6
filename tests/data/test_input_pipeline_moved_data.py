"""The position in the training data: numbered examples, in files that may move."""

import hashlib
import itertools
import os

import pytest
import tensorflow as tf

from support.corpora import write_corpus
from t2t_lite.data import input_pipeline
from t2t_lite.data.batching import batching_scheme
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.errors import UserError

SCHEME = batching_scheme(60, max_length=20, min_length_bucket=5, length_bucket_step=1.5)


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "corpus").mkdir()
    return write_corpus(tmp_path / "corpus")[0]


def train(paths, seed=1):
    return input_pipeline.train_dataset(
        paths, SCHEME, ExampleReader(), parts=2, seed=seed, batch_shuffle_size=8
    )


def digest(iterator, count):
    hashed = hashlib.sha256()
    for batch in itertools.islice(iterator, count):
        for name, ids in sorted(batch.items()):
            hashed.update(f"{name}{ids.shape}{ids.numpy().dtype}".encode() + ids.numpy().tobytes())
    return hashed.hexdigest()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("of_all", "seed", "expected"),
    [(5, 1, "a10f34156badf3b7"), (5, 7, "7ebdabfe6b0251b4"), (9, 7, "79966e1f2787bcf6")],
)
def test_the_order_is_that_of_the_first_release(paths, of_all, seed, expected):
    tf.random.set_seed(of_all)
    assert digest(train(paths, seed), 200)[:16] == expected


@pytest.mark.integration
@pytest.mark.parametrize("taken", [0, 7, 45])  # before, within and across epochs
def test_a_position_holds_wherever_the_files_are(paths, taken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tf.random.set_seed(5)
    iterator = iter(train([os.path.relpath(path) for path in paths]))
    digest(iterator, taken)
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    assert b"shard" not in (tmp_path / "saved.data-00000-of-00001").read_bytes()
    expected = digest(iterator, 80)

    moved = (tmp_path / "corpus").rename(tmp_path / "renamed")
    monkeypatch.chdir("/")
    resumed = iter(train([str(moved / os.path.basename(path)) for path in paths]))
    tf.train.Checkpoint(iterator=resumed).read(saved).assert_consumed()
    assert digest(resumed, 80) == expected


@pytest.fixture
def origins_alone(monkeypatch):
    """Makes the pipelines end before parsing: batches of (origins, records, buckets)."""
    monkeypatch.setattr(input_pipeline, "_padded", lambda batches, reader, parts: batches)


def origins(dataset, count=None):
    """Yields (epoch, example, first source id) for each record of a dataset."""
    for numbers, examples, _ in itertools.islice(dataset, count):
        ids = ExampleReader().parse(examples)["inputs"].to_list()
        for origin, source in zip(numbers.numpy().tolist(), ids, strict=True):
            yield *divmod(origin, input_pipeline.MOST_EXAMPLES), source[0]


@pytest.mark.integration
def test_examples_keep_their_numbers_through_all_epochs(paths, origins_alone):
    seen = list(origins(train(paths), 200))
    assert len({(epoch, number) for epoch, number, _ in seen}) == len(seen), "each once an epoch"
    assert {epoch for epoch, _, _ in seen} >= {0, 1, 2, 3}
    # The corpus was dealt out over its files in turn, as examples are numbered.
    assert all(first == number + 2 for _, number, first in seen)
    dataset = input_pipeline.eval_dataset(paths, SCHEME, ExampleReader(), parts=1)
    evaluated = list(origins(dataset))
    assert {epoch for epoch, _, _ in evaluated} == {0}
    assert all(first == number + 2 for _, number, first in evaluated)


def test_a_file_that_is_gone_is_named(paths):
    os.remove(paths[3])
    with pytest.raises(UserError, match=r"corpus/shard3: no such file"), naming_bad_file(paths):
        digest(train(paths), 20)
