"""Training batches of a mixture: how often each member comes, and the position in all of them."""

import collections
import hashlib
import itertools
import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from support.mixtures import CZECH, FRENCH, GERMAN, MIXTURE, generate, toys
from t2t_lite import api, registry
from t2t_lite.data import input_pipeline, records
from t2t_lite.data.batching import batching_scheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.example_reader import MOST_EXAMPLES, ExampleReader
from t2t_lite.data.input_pipeline import Mixing, train_dataset
from t2t_lite.data.mixing import MemberFiles, training_files
from t2t_lite.data.mixing import mixing as mixed
from t2t_lite.errors import DataError, UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training import training_data
from t2t_lite.training.training_data import TrainingData

SCHEME = batching_scheme(60, max_length=20, min_length_bucket=5, length_bucket_step=1.5)
SIZES = (600, 60, 150)  # examples of the members, in 3, 2 and 1 files
FILES = (3, 2, 1)
RATES = (0.5, 0.2, 0.3)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The files of three members; a source is the member's number and that of an example."""
    folder = tmp_path_factory.mktemp("members")
    found = []
    for member, (size, files) in enumerate(zip(SIZES, FILES, strict=True)):
        own = [str(folder / f"{member}-{file}") for file in range(files)]
        for file, path in enumerate(own):
            numbers = range(file, size, files)
            examples = (
                {"inputs": [2 + member, 5 + n, *[3] * (n % 12), 1], "targets": [2, 1]}
                for n in numbers
            )
            records.write_examples(path, examples)
        found += own
    return found


def train(paths, rates=RATES, *, parts=1, seed=1, batch_shuffle_size=8, **options):
    return train_dataset(
        paths,
        SCHEME,
        ExampleReader(),
        parts=parts,
        seed=seed,
        batch_shuffle_size=batch_shuffle_size,
        mixing=Mixing(FILES, [rates]),
        **options,
    )


def sources(dataset, count):
    """The (member, example) of each example of some batches, in order."""
    for batch in itertools.islice(dataset.as_numpy_iterator(), count):
        for row in batch["inputs"].reshape(-1, batch["inputs"].shape[-1]):
            yield int(row[0]) - 2, int(row[1]) - 5


def within_sampling_error(count, of, rate):
    """Whether a count is within five standard deviations of the binomial distribution."""
    return abs(count - of * rate) <= 5 * math.sqrt(of * rate * (1 - rate))


@pytest.mark.integration
@pytest.mark.parametrize("rates", [RATES, (1 / 3, 1 / 3, 1 / 3), (0.02, 0.9, 0.08)])
def test_members_come_with_their_rates_in_every_window(paths, rates):
    drawn = [member for member, _ in sources(train(paths, rates), 500)]
    assert len(drawn) > 2000
    for size in (1000, len(drawn)):
        for start in range(0, len(drawn) - size + 1, size):
            counts = collections.Counter(drawn[start : start + size])
            for member, rate in enumerate(rates):
                assert within_sampling_error(counts[member], size, rate), (start, counts)


@pytest.mark.integration
def test_draws_are_of_the_rates_and_independent():
    draws, other = (
        next(input_pipeline._draws(Mixing(FILES, [RATES]), seed).batch(100_000).as_numpy_iterator())
        for seed in (3, 4)
    )
    for member, rate in enumerate(RATES):
        is_own = draws == member
        assert within_sampling_error(is_own.sum(), len(draws), rate)
        pairs = (is_own[1:] & is_own[:-1]).sum()
        assert within_sampling_error(pairs, len(draws) - 1, rate**2)
    assert within_sampling_error((draws == other).sum(), len(draws), sum(r**2 for r in RATES))


@pytest.mark.integration
def test_rates_that_change_lie_on_straight_lines_between_the_points():
    points, rows = (0.0, 100_000.0, 200_000.0), [(0.9, 0.1, 0.0), (0.1, 0.6, 0.3), (0.2, 0.2, 0.6)]
    changing = Mixing(FILES, rows, points)
    draws = next(input_pipeline._draws(changing, 3).batch(300_000).as_numpy_iterator())
    for start in range(0, len(draws), 10_000):
        middle, window = start + 5_000, draws[start : start + 10_000]
        for member in range(3):
            rate = np.interp(middle, points, [row[member] for row in rows])
            assert within_sampling_error((window == member).sum(), len(window), rate), start


@pytest.mark.integration
def test_each_member_has_epochs_of_its_own(paths, monkeypatch):
    monkeypatch.setattr(input_pipeline, "_padded", lambda batches, reader, parts: batches)
    seen = collections.defaultdict(list)
    for origins, examples, _ in train(paths, batch_shuffle_size=0).take(900):
        rows = ExampleReader().parse(examples)["inputs"].to_list()
        for origin, row in zip(origins.numpy().tolist(), rows, strict=True):
            seen[row[0] - 2].append((*divmod(origin, MOST_EXAMPLES), row[1] - 5))
    numbers = [{number for _, number, _ in found} for found in seen.values()]
    assert sum(map(len, numbers)) == len(set.union(*numbers)), "no two members share a number"
    for member, found in seen.items():
        assert len({(epoch, number) for epoch, number, _ in found}) == len(found)
        assert len({(number, example) for _, number, example in found}) == SIZES[member]
        epochs = collections.Counter(epoch for epoch, _, _ in found)
        full = [epoch for epoch in epochs if epoch < max(epochs) - 1]
        assert all(epochs[epoch] == SIZES[member] for epoch in full)
    assert len({max(epoch for epoch, _, _ in found) for found in seen.values()}) > 1


@pytest.mark.integration
def test_members_have_different_orders(tmp_path):
    paths = [str(tmp_path / f"{member}") for member in range(2)]
    for member, path in enumerate(paths):
        rows = [{"inputs": [2 + member, 5 + n, 1], "targets": [2, 1]} for n in range(100)]
        records.write_examples(path, rows)
    own = {"parts": 1, "seed": 1, "batch_shuffle_size": 0}
    halves = Mixing([1, 1], [[0.5, 0.5]])
    dataset = train_dataset(paths, SCHEME, ExampleReader(), **own, mixing=halves)
    orders = collections.defaultdict(list)
    for member, example in sources(dataset, 15):
        orders[member].append(example)
    assert orders[0][:20] != orders[1][:20]


@pytest.mark.integration
def test_parts_share_one_large_batch(paths):
    doubled = type(SCHEME)(SCHEME.boundaries, tuple(2 * n for n in SCHEME.batch_sizes), 0, 20)
    options = {"seed": 1, "batch_shuffle_size": 0}
    mixed = Mixing(FILES, [RATES])
    whole = train_dataset(paths, doubled, ExampleReader(), parts=1, mixing=mixed, **options)
    split = train(paths, parts=2, batch_shuffle_size=0)
    pairs = zip(split.as_numpy_iterator(), whole.as_numpy_iterator(), strict=False)
    for two, one in itertools.islice(pairs, 60):
        for name in one:
            np.testing.assert_array_equal(two[name].reshape(one[name].shape), one[name])


def digest(iterator, count):
    hashed = hashlib.sha256()
    for batch in itertools.islice(iterator, count):
        for name, ids in sorted(batch.items()):
            hashed.update(f"{name}{ids.shape}".encode() + ids.numpy().tobytes())
    return hashed.hexdigest()


@pytest.mark.integration
@pytest.mark.parametrize("taken", [0, 7, 150])  # before, within and across epochs
def test_a_restored_position_goes_on_exactly(paths, taken, tmp_path):
    iterator = iter(train(paths))
    digest(iterator, taken)
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    expected = digest(iterator, 120)
    resumed = iter(train(paths))
    tf.train.Checkpoint(iterator=resumed).read(saved).assert_consumed()
    assert digest(resumed, 120) == expected


@pytest.mark.integration
def test_rates_change_by_updates_and_are_restored(tmp_path):
    """The second member's sentences are longer: its examples take more of an update."""
    lengths, steps = (3, 13), 800
    paths = [str(tmp_path / f"{member}") for member in range(2)]
    for member, path in enumerate(paths):
        row = {"inputs": [2 + member, 5, *[3] * (lengths[member] - 3), 1], "targets": [2, 1]}
        records.write_examples(path, [row] * 500)
    members = [MemberFiles("a", paths[:1], 0.95, 0.2), MemberFiles("b", paths[1:], 0.05, 0.8)]
    counted = [count_examples([path], SCHEME, ExampleReader()) for path in paths]
    mixing = mixed(members, BasicHParams(mixture_annealing_steps=steps), 2, counted)

    def dataset():
        own = {"parts": 2, "seed": 1, "batch_shuffle_size": 0, "mixing": mixing}
        return train_dataset(paths, SCHEME, ExampleReader(), **own)

    iterator, window = iter(dataset()), steps // 4
    saved = []
    for start in range(0, steps + window, window):
        saved.append(tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / f"at{start}")))
        rows = [b["inputs"][..., 0].numpy() for b in itertools.islice(iterator, window)]
        drawn = np.concatenate([row.ravel() for row in rows])
        # A window's examples are not spread evenly over its updates, hence the mean of its updates
        # weighted by how many each takes.
        rates = np.interp(np.arange(start, start + window), [0, steps], [0.05, 0.8])
        taken = 1 / ((1 - rates) * 1 / 12 + rates * 1 / 4)
        rate = (rates * taken).sum() / taken.sum()
        count = (drawn == 3).sum()
        # What waits in the buckets at both ends of the window: at most a batch of each.
        waiting = 2 * (12 + 4)
        deviation = math.sqrt(len(drawn) * rate * (1 - rate))
        assert abs(count - len(drawn) * rate) <= waiting + 5 * deviation, start
    expected = digest(iterator, 50)
    resumed = iter(dataset())
    tf.train.Checkpoint(iterator=resumed).read(saved[2]).assert_consumed()
    for _ in itertools.islice(resumed, 3 * window):
        pass
    assert digest(resumed, 50) == expected


@pytest.mark.integration
def test_batches_are_a_function_of_files_and_seed(paths):
    orders = [digest(iter(train(paths, seed=seed)), 60) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.integration
def test_one_stream_is_the_plain_pipeline(paths):
    own = {"parts": 2, "seed": 3, "batch_shuffle_size": 8}
    plain = train_dataset(paths, SCHEME, ExampleReader(), **own)
    one = train_dataset(paths, SCHEME, ExampleReader(), **own, mixing=Mixing([len(paths)], [[1.0]]))
    assert digest(iter(one), 200) == digest(iter(plain), 200)


# ---- of problems


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data of MIXTURE: 300 examples to German, 60 to French and 100 from Czech."""
    folder = tmp_path_factory.mktemp("mixture")
    generate(folder)
    return str(folder)


@pytest.fixture(scope="module", autouse=True)
def _toys():
    with toys():
        yield


def test_rates_are_by_size_temperature_or_weight(folder):
    def rates(name, temperature=1.0):
        hparams = BasicHParams(mixture_temperature=temperature)
        return [m.rate for m in training_files(registry.problem(name), folder, hparams)]

    assert rates(MIXTURE) == pytest.approx([300 / 460, 60 / 460, 100 / 460])
    powers = [n**0.2 for n in (300, 60, 100)]
    assert rates(MIXTURE, 5.0) == pytest.approx([power / sum(powers) for power in powers])
    assert rates(f"{FRENCH}:1+{GERMAN}:2+{CZECH}_rev:1", 5.0) == [0.25, 0.5, 0.25]


def test_a_temperature_without_effect_is_a_warning(folder, data_dir, caplog):
    hparams = BasicHParams(mixture_temperature=5.0)
    training_files(registry.problem(MIXTURE), folder, hparams)
    training_files(registry.problem("text2text_tmpdir"), str(data_dir), BasicHParams())
    assert not caplog.messages
    weighted = f"{FRENCH}:1+{GERMAN}:2+{CZECH}_rev:1"
    for name, data in ((weighted, folder), ("text2text_tmpdir", data_dir)):
        training_files(registry.problem(name), str(data), hparams)
        assert f"mixture_temperature=5 has no effect on problem {name}: " in caplog.messages[-1]


def test_rates_that_change_need_steps_and_steps_rates_that_change(folder):
    annealed = registry.problem(f"{GERMAN}:3..1+{FRENCH}:1..1+{CZECH}_rev:4..6")
    hparams = BasicHParams(mixture_annealing_steps=100)
    members = training_files(annealed, folder, hparams)
    assert [(m.rate, m.final_rate) for m in members] == [
        (0.375, 0.125),
        (0.125, 0.125),
        (0.5, 0.75),
    ]
    line = next(TrainingData(annealed, folder, hparams, 1).statistics())
    assert line.startswith(f"{GERMAN}, 37.5%, from update 100 on 12.5%, of the examples: 300 ")
    with pytest.raises(UsageError, match=r"its weights change.*set it to the number of updates"):
        training_files(annealed, folder, BasicHParams())
    with pytest.raises(UsageError, match=r"=100: .* has no weights that change: .* a:0\.9"):
        training_files(registry.problem(MIXTURE), folder, hparams)


def test_a_member_without_usable_examples_is_an_error(folder):
    problem = registry.problem(MIXTURE)
    data = TrainingData(problem, folder, BasicHParams(max_length=2, batch_size=8), 1)
    with pytest.raises(DataError, match=r"translate_ende_toy-train.* no usable example"):
        list(data.statistics())
    data = TrainingData(problem, folder, BasicHParams(), 1)
    lines = list(data.statistics())
    assert lines[1].startswith(f"{FRENCH}, 13.0% of the examples: 60 examples with ")


def test_the_largest_batch_is_that_of_the_examples_if_they_are_known(folder, monkeypatch):
    problem = registry.problem(MIXTURE)
    hparams = BasicHParams(batch_size=1024, max_length=256)
    data = TrainingData(problem, folder, hparams, 1)
    longest = max(counted.longest for counted in data._counted)
    assert data.largest_batch == data.scheme.largest_batch(longest, hparams.length_multiple)
    assert data.largest_batch[1] < longest + 8 < data.scheme.worst_bucket[1]
    whole_buckets = TrainingData(problem, folder, hparams.copy(xla_compile=True), 1).largest_batch
    assert whole_buckets[1] in data.scheme.longest
    noisy = TrainingData(problem, folder, hparams.copy(source_typo_noise=0.3), 1)
    assert noisy.largest_batch == data.scheme.worst_bucket
    monkeypatch.setattr(training_data, "_COUNTED", 30)
    assert TrainingData(problem, folder, hparams, 1).largest_batch == data.scheme.worst_bucket


def test_a_member_without_examples_is_an_error(folder, tmp_path):
    problem = registry.problem(MIXTURE)
    for path in map(pathlib.Path, problem.filepaths(folder, "train")):
        contents = b"" if "enfr" in path.name else path.read_bytes()
        (tmp_path / path.name).write_bytes(contents)
    with pytest.raises(DataError, match=r"enfr_toy-train-00000-of-00002 .*have no example"):
        training_files(problem, str(tmp_path), BasicHParams())


@pytest.mark.integration
@pytest.mark.parametrize("noise", [{"bpe_dropout": 0.2}, {"source_typo_noise": 0.3}])
def test_rewriting_keeps_the_tokens_and_is_restored(folder, noise, tmp_path):
    problem = registry.problem(MIXTURE)
    encoders = problem.get_feature_encoders(folder)
    hparams = BasicHParams(batch_size=256, max_length=64, batch_shuffle_size=2, **noise)
    iterator = iter(TrainingData(problem, folder, hparams, 1).batches(1))
    plain = BasicHParams(batch_size=256, max_length=64, batch_shuffle_size=2)
    unchanged = iter(TrainingData(problem, folder, plain, 1).batches(1))
    assert digest(iterator, 5) != digest(unchanged, 5)
    for batch in itertools.islice(iterator, 20):
        for row in batch["inputs"].numpy()[0]:
            assert row[0] in encoders["inputs"].special_ids
            assert not set(row[1:].tolist()) & encoders["inputs"].special_ids
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    expected = digest(iterator, 20)
    resumed = iter(TrainingData(problem, folder, hparams, 1).batches(1))
    tf.train.Checkpoint(iterator=resumed).read(saved).assert_consumed()
    assert digest(resumed, 20) == expected


@pytest.mark.integration
def test_keras_gets_the_same_mixture(folder):
    hparams = {"batch_size": 256, "max_length": 64, "mixture_temperature": 100.0}
    encoder = registry.problem(MIXTURE).get_feature_encoders(folder)["inputs"]

    def firsts(batches) -> list[int]:
        return [n for features, _, _ in batches for n in features["inputs"].numpy()[:, 0].tolist()]

    dataset = api.dataset(MIXTURE, "train", data_dir=folder, seed=1, **hparams)
    epochs = [firsts(dataset) for _ in range(2)]
    assert [len(epoch) for epoch in epochs] == [460, 460]
    assert epochs[0] != epochs[1]
    again = api.dataset(MIXTURE, "train", data_dir=folder, seed=1, **hparams)
    assert [firsts(again) for _ in range(2)] == epochs
    endless = api.dataset(MIXTURE, "train", data_dir=folder, seed=1, repeat=True, **hparams)
    many = firsts(itertools.islice(endless, 100))
    assert len(many) > 2 * 460
    for drawn in (many, epochs[0] + epochs[1]):
        counts = collections.Counter(drawn)
        assert counts.keys() == set(encoder.languages.values())
        for count in counts.values():
            assert within_sampling_error(count, len(drawn), 1 / 3.02)
    evaluated = api.dataset(MIXTURE, "dev", data_dir=folder, batch_size=256, max_length=64)
    assert sum(len(targets) for _, targets, _ in evaluated) == 60


@pytest.mark.integration
def test_epochs_of_a_mixture_differ_in_draws_and_orders(paths):
    """A member of which an epoch has a part gives other examples in the next epoch."""
    rates = (0.1, 0.6, 0.3)
    files = (paths[:3], paths[3:5], paths[5:])
    members = [MemberFiles("", *m) for m in zip(files, rates, rates, SIZES, strict=True)]

    def examples(epoch: int) -> list[tuple[int, int]]:
        epochs = tf.data.Dataset.from_tensors(tf.constant(epoch, tf.int64))
        settings = {"parts": 1, "seed": 1, "batch_shuffle_size": 0, "epochs": epochs}
        mixing = mixed(members, BasicHParams(), 1, ())
        keep_all = batching_scheme(60, max_length=60, min_length_bucket=5, length_bucket_step=1.5)
        dataset = train_dataset(paths, keep_all, ExampleReader(), mixing=mixing, **settings)
        return list(sources(dataset, None))

    epochs = [examples(number) for number in (0, 1, 2)]
    assert [len(epoch) for epoch in epochs] == [810] * 3
    for member, rate in enumerate(rates):
        for epoch in epochs:
            own = [example for of, example in epoch if of == member]
            assert within_sampling_error(len(own), 810, rate)
    rare = [{e for of, e in epoch if of == 0} for epoch in epochs]
    assert len(set.union(*rare)) > 1.8 * max(map(len, rare))
    assert examples(0) == epochs[0]


def test_counting_records(tmp_path):
    paths = [str(tmp_path / f"{n}") for n in range(3)]
    for n, path in enumerate(paths):
        records.write_examples(path, [{"inputs": [2, 1], "targets": [3, 1]}] * (5 * n))
    assert records.count_records(paths) == 15
    assert records.count_records(paths, most_bytes=1) == 15, "estimated from the second file"
    assert records.count_records(paths[:1]) == 0
