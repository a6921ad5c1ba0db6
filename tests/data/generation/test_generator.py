import hashlib
import logging
import multiprocessing
import random
import subprocess
import sys

import numpy as np
import pytest

from support.folders import digests, leftovers
from support.numbered import Dealt, Small, Stopping, generate, numbers
from t2t_lite.data import records
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.text.text_encoder import ByteTextEncoder, VocabType


@pytest.fixture
def undisturbed(tmp_path) -> dict[str, str]:
    folder = tmp_path / "undisturbed"
    generate(Small(), folder)
    return digests(folder)


@pytest.mark.parametrize(
    ("name", "ours"), [("generate_data", "write_files"), ("get_or_create_vocab", "build_vocab")]
)
def test_members_that_only_t2t_would_call_are_named(data, name, ours):
    problem = type("Ported", (Small,), {name: lambda self, *args: None})()
    with pytest.raises(UsageError, match=f"Ported defines {name}, which is T2T's: define {ours}"):
        generate_data(problem, str(data), str(data))


def test_names_files_as_t2t_and_deals_samples_out_in_turn(data):
    generate(Small(), data)
    files = sorted(data.iterdir())
    train = [f"small-train-0000{number}-of-00004" for number in range(4)]
    dev = ["small-dev-00000-of-00002", "small-dev-00001-of-00002"]
    assert [path.name for path in files] == [*dev, "small-test-00000-of-00001", *train]
    dev0, dev1, test, *train = map(numbers, files)
    assert (dev0, dev1, test) == ([0, 2, 4], [1, 3], [0, 1, 2])
    assert [sorted(shard) for shard in train] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


@pytest.mark.parametrize("prefixes", [("", ""), ("to", "de")])
def test_prefixes_come_before_the_text_and_eos_after_it(data, prefixes):
    members = dict(zip(("inputs_prefix", "targets_prefix"), prefixes, strict=True))
    generate(type("Prefixed", (Small,), members)(), data)
    (first, *_) = records.read_examples([data / "small-test-00000-of-00001"])
    source, target = (
        ByteTextEncoder().encode(x + y) for x, y in zip(prefixes, ("0", "0é"), strict=True)
    )
    assert first == {"inputs": [*source, 1], "targets": [*target, 1]}


def test_one_run_is_dealt_out_over_the_files_of_all_splits(data):
    generate(Dealt(), data)
    held = {path.name.rsplit("-of", 1)[0]: sorted(numbers(path)) for path in data.iterdir()}
    assert held == {
        "small-train-00000": [0, 7],
        "small-train-00001": [1, 8],
        "small-train-00002": [2, 9],
        "small-train-00003": [3],
        "small-dev-00000": [4],
        "small-dev-00001": [5],
        "small-test-00000": [6],
    }


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("count", [100, 103])
def test_more_samples_than_one_chunk_keep_their_order(data, count):
    generate(Small(eval=count), data, num_workers=1)
    assert numbers(data / "small-dev-00001-of-00002") == list(range(1, count, 2))


_LARGE, _DEALT = Small(train=20000, eval=9000), Dealt(train=20000)


# Of the first release: data made once must come out the same for ever.
@pytest.mark.parametrize(
    ("problem", "seed", "digest"),
    [
        (Small(), 429459, "2c5fde3b56bb40ada99b368465ecb1c61a24cdd9af304149f640154bf63b2e3f"),
        (_LARGE, 7, "1624c0f66671402313451c8b7fa47d2926cafc0eaf91aad00faa8a8043b59504"),
        (_DEALT, 429459, "d48c4588846a84550c853b1a7194e731617b511a0824ac2859c49f00ed8cbcb0"),
    ],
)
def test_writes_the_same_bytes_as_ever(data, problem, seed, digest):
    generate(problem, data, random_seed=seed, num_workers=1)
    found = hashlib.sha256()
    for path in sorted(data.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    assert found.hexdigest() == digest


@pytest.mark.integration
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("cls", [Small, Dealt])
def test_bytes_do_not_depend_on_workers_or_chunks(data, monkeypatch, cls):
    found = []
    for workers, chunk in ((1, 50), (2, 50), (3, 70), (1, 10_000)):
        monkeypatch.setattr(generator, "_CHUNK", chunk)
        generate(cls(train=500, eval=120), data / f"{len(found)}", num_workers=workers)
        found.append(digests(data / f"{len(found)}"))
    assert found[1:] == found[:-1]


@pytest.mark.integration
def test_writes_without_tensorflow():
    script = (
        "import sys, t2t_lite.data.generation.generator; assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_trial_has_the_first_samples_of_each_split(data):
    options = DatagenOptions(num_workers=1, max_cases=4)
    generate_data(Small(), str(data), str(data), options)
    splits = {
        split: sorted(n for path in data.glob(f"small-{split}-*") for n in numbers(path))
        for split in ("train", "dev", "test")
    }
    assert splits == {"train": [0, 1, 2, 3], "dev": [0, 1, 2, 3], "test": [0, 1, 2]}
    with pytest.raises(UserError, match=r"generated from something else .*max_cases: 4 -> 0"):
        generate_data(Small(), str(data), str(data), DatagenOptions(num_workers=1))


def test_a_trial_needs_a_sample_for_each_split(data):
    """All splits get samples of one reading in turn."""
    with pytest.raises(DataError, match=r"2 samples are too few: .*; raise --max_cases \(now 2\)"):
        generate(Dealt(), data, max_cases=2)


def test_training_files_are_shuffled_by_seed_and_by_file(data):
    found = {}
    for seed in (1, 1, 2):
        folder = data / f"{len(found)}"
        generate(Small(train=400), folder, random_seed=seed)
        found[folder] = digests(folder)
    first, again, other = found.values()
    assert first == again
    changed = {name for name in first if first[name] != other[name]}
    assert changed == {f"small-train-0000{i}-of-00004" for i in range(4)}

    orders = [numbers(data / "0" / f"small-train-0000{i}-of-00004") for i in range(4)]
    turns = {tuple(number // 4 for number in order) for order in orders}
    assert len(turns) == 4
    assert tuple(range(100)) not in turns


def test_complete_splits_are_skipped(data, caplog):
    generate(Small(), data)
    caplog.set_level(logging.INFO)
    generate(type("Untouchable", (Small,), {"generate_samples": None})(), data)
    assert "small train: all files exist, skipped" in caplog.messages


def test_only_a_missing_file_is_made(data, undisturbed):
    generate(Small(), data)
    (data / "small-train-00000-of-00004").unlink()
    for kept in ("small-train-00003-of-00004", "small-dev-00000-of-00002"):
        (data / kept).write_bytes(b"kept")
        undisturbed[kept] = hashlib.sha256(b"kept").hexdigest()
    generate(Small(), data)
    assert digests(data) == undisturbed


def test_the_sources_of_a_missing_file_are_fetched(data):
    fetched = []

    class Fetching(Small):
        def fetch_sources(self, tmp_dir, dataset_split):
            fetched.append(dataset_split)
            return []

    generate_data(Fetching(), str(data), "")
    assert {"train", "eval", "test"} == set(fetched)
    fetched.clear()
    (data / "small-dev-00001-of-00002").unlink()
    generate_data(Fetching(), str(data), "")
    assert "eval" in fetched
    assert "test" not in fetched


class Drawing(Small):
    """Draws from the global random numbers, as T2T's problems do; its words need a vocabulary."""

    vocab_type = VocabType.SUBWORD
    approx_vocab_size = 300

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for _ in range(self.sizes[dataset_split]):
            yield {"inputs": f"{random.random()}", "targets": f"{np.random.random()}"}


def test_random_samples_do_not_depend_on_what_was_made_before(data):
    options = DatagenOptions(random_seed=-7)
    generate_data(Drawing(), str(data), "", options)
    made = digests(data)
    assert made["small-dev-00000-of-00002"] != made["small-dev-00001-of-00002"]
    train, dev = (data / f"small-{name}" for name in ("train-00001-of-00004", "dev-00000-of-00002"))
    for removed in ([train], [dev], [dev, train], list(data.glob("small-*")), data.iterdir()):
        for path in removed:
            path.unlink()
        generate_data(Drawing(), str(data), "", options)
        assert digests(data) == made


def test_the_vocabulary_is_built_from_the_random_samples_of_training(data):
    seen = {}

    class Noting(Drawing):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            samples = list(super().generate_samples(data_dir, tmp_dir, dataset_split))
            seen.setdefault(dataset_split, []).append(samples)
            return samples

    for seed in (1, 2):
        generate_data(Noting(), str(data / f"{seed}"), "", DatagenOptions(random_seed=seed))
    of_vocabulary, of_training, of_other_vocabulary, _ = seen["train"]
    assert of_vocabulary == of_training != of_other_vocabulary
    assert of_training[:5] != seen["eval"][0]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_error_in_a_sample_leaves_nothing_that_looks_whole(data, num_workers):
    with pytest.raises(DataError, match="the next line is bad"):
        generate(Stopping(train=200), data, num_workers=num_workers)
    assert leftovers(data) == []
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    "sample",
    [{"targets": "b"}, {"inputs": 3, "targets": "b"}, {"inputs": "a", "targets": None}, ("a", "b")],
)
def test_a_sample_other_than_a_pair_of_texts_is_named(data, sample):
    samples = [{"inputs": "1", "targets": "a"}, sample]
    odd = type("Odd", (Small,), {"generate_samples": lambda *_: samples})
    with pytest.raises(DataError) as error:
        generate(odd(), data)
    assert str(error.value) == (
        "small: sample 2 of generate_samples: expected a dictionary with text: "
        f"`inputs` and `targets`; got {sample}"
    )


def test_further_features_need_a_method_that_yields_them(data):
    class Weighted(Small):
        further_features = ("weight",)

    message = r"declares further_features \(weight\), but only generate_encoded_samples can yield"
    with pytest.raises(UsageError, match=message):
        generate_data(Weighted(), str(data), str(data))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("side", ["inputs", "targets"])
def test_a_sample_with_an_empty_side_is_an_error_that_names_it(data, side):
    class Gap(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            samples = list(super().generate_samples(data_dir, tmp_dir, dataset_split))
            samples[156][side] = ""
            return samples

    with pytest.raises(DataError, match=f"small: sample 157: {side} is empty"):
        generate(Gap(train=200), data, num_workers=2)
    assert leftovers(data) == []


@pytest.mark.parametrize(("cls", "size", "split"), [(Small, 0, "train"), (Dealt, 6, "test")])
def test_a_split_without_samples_is_an_error(data, cls, size, split):
    with pytest.raises(DataError, match=f"small train.*: {size} samples .* {split} split would be"):
        generate(cls(train=size), data)
    assert leftovers(data) == []


class Refilling(Small):
    """Yields one dictionary for all samples, and changes it each time."""

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        sample = {}
        for i in range(self.sizes[dataset_split]):
            sample["inputs"], sample["targets"] = f"{i}", f"{i:x}é"
            yield sample


class Relabelled(Refilling):
    """Overrides what is between `generate_samples` and the prefixes, too."""

    def text_samples(self, data_dir, tmp_dir, dataset_split):
        return self.generate_samples(data_dir, tmp_dir, dataset_split)


@pytest.mark.parametrize("cls", [Refilling, Relabelled])
def test_one_dictionary_may_hold_all_samples_in_turn(data, undisturbed, cls):
    generate(cls(), data)
    assert digests(data) == undisturbed


def test_samples_can_be_collected():
    found = list(Refilling(train=3).text_samples("", "", "train"))
    assert [sample["inputs"] for sample in found] == ["0", "1", "2"]


@pytest.mark.parametrize("returned", [None, 3])
def test_a_problem_that_returns_no_samples_is_an_error(data, returned):
    forgetful = type("Forgetful", (Small,), {"generate_samples": lambda *_: returned})
    with pytest.raises(DataError, match=f"small: generate_samples returned {returned}: expected"):
        generate(forgetful(), data)
