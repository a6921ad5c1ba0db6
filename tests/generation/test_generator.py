import dataclasses
import hashlib
import itertools
import json
import logging
import multiprocessing
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from support.folders import digests, leftovers
from t2t_lite.data import records
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, UserError
from t2t_lite.generation import chunks, generator
from t2t_lite.generation.config import DatagenOptions
from t2t_lite.generation.generator import generate_data
from t2t_lite.text.text_encoder import ByteTextEncoder, VocabType


class Small(Text2TextProblem):
    """Numbers as text in bytes, without a vocabulary file; 4 training files."""

    vocab_type = VocabType.CHARACTER
    base_name = "small"
    train_files = 4

    def __init__(self, **sizes: int):
        super().__init__()
        self.sizes = {"train": 10, "eval": 5, "test": 3, **sizes}

    @property
    def dataset_splits(self):
        return [
            {"split": DatasetSplit.TRAIN, "shards": self.train_files},
            {"split": DatasetSplit.EVAL, "shards": 2},
            {"split": DatasetSplit.TEST, "shards": 1},
        ]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for i in range(self.sizes[dataset_split]):
            yield {"inputs": f"{i}", "targets": f"{i:x}é"}


class Dealt(Small):
    is_generate_per_split = False


def generate(problem: Text2TextProblem, folder: pathlib.Path, **options) -> None:
    generator.write_records(problem, str(folder), "", DatagenOptions(**options))


def numbers(path: pathlib.Path) -> list[int]:
    """The samples in a file, in order."""
    decode = ByteTextEncoder().decode
    return [int(decode(example["inputs"])) for example in records.read_examples([path])]


@pytest.fixture
def undisturbed(tmp_path) -> dict[str, str]:
    folder = tmp_path / "undisturbed"
    generate(Small(), folder)
    return digests(folder)


def test_names_files_as_t2t_and_deals_samples_out_in_turn(data):
    generate(Small(), data)
    files = sorted(data.iterdir())
    assert [path.name for path in files] == [
        "small-dev-00000-of-00002",
        "small-dev-00001-of-00002",
        "small-test-00000-of-00001",
        "small-train-00000-of-00004",
        "small-train-00001-of-00004",
        "small-train-00002-of-00004",
        "small-train-00003-of-00004",
    ]
    dev0, dev1, test, *train = map(numbers, files)
    assert (dev0, dev1, test) == ([0, 2, 4], [1, 3], [0, 1, 2])
    assert [sorted(shard) for shard in train] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


def test_appends_eos_to_both_sides(data):
    generate(Small(), data)
    (first, *_) = records.read_examples([data / "small-test-00000-of-00001"])
    encode = ByteTextEncoder().encode
    assert first == {"inputs": [*encode("0"), 1], "targets": [*encode("0é"), 1]}


def test_puts_prefixes_before_the_text(data):
    class Prefixed(Small):
        inputs_prefix = "to"
        targets_prefix = "de"

    generate(Prefixed(), data)
    (first, *_) = records.read_examples([data / "small-test-00000-of-00001"])
    decode = ByteTextEncoder().decode
    assert (decode(first["inputs"]), decode(first["targets"])) == ("to0", "de0é")


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


# Of the first release: data made once must come out the same for ever.
@pytest.mark.parametrize(
    ("problem", "seed", "digest"),
    [
        (Small(), 429459, "2c5fde3b56bb40ada99b368465ecb1c61a24cdd9af304149f640154bf63b2e3f"),
        (
            Small(train=20000, eval=9000),
            7,
            "1624c0f66671402313451c8b7fa47d2926cafc0eaf91aad00faa8a8043b59504",
        ),
        (
            Dealt(train=20000),
            429459,
            "d48c4588846a84550c853b1a7194e731617b511a0824ac2859c49f00ed8cbcb0",
        ),
    ],
)
def test_writes_the_same_bytes_as_ever(data, problem, seed, digest):
    generate(problem, data, random_seed=seed, num_workers=1)
    found = hashlib.sha256()
    for path in sorted(data.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    assert found.hexdigest() == digest


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
        "import sys, t2t_lite.generation.generator as _; assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


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
    class Untouchable(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            raise AssertionError("generated again")

    generate(Small(), data)
    caplog.set_level(logging.INFO)
    generate(Untouchable(), data)
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


class Stopping(Small):
    """Stops after a number of samples of a split."""

    stop = 120

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        samples = super().generate_samples(data_dir, tmp_dir, dataset_split)
        yield from itertools.islice(samples, self.stop)
        raise DataError("the next line is bad")


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """The number of the first sample of each encoded chunk."""
    firsts = []

    def encode(self, chunk, shards, original=chunks.ExampleEncoder.encode_chunk):
        firsts.append(chunk.first)
        return original(self, chunk, shards)

    monkeypatch.setattr(chunks.ExampleEncoder, "encode_chunk", encode)
    return firsts


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_a_stopped_run_are_not_encoded_again(data, tmp_path, encoded, caplog):
    generate(Small(train=200), tmp_path / "undisturbed", num_workers=1)
    del encoded[:]
    with pytest.raises(DataError, match="the next line is bad"):
        generate(Stopping(train=200), data, num_workers=1)
    assert leftovers(data) == []
    caplog.set_level(logging.INFO)
    generate(Small(train=200), data, num_workers=1)
    assert encoded == [0, 50, 100, 150, 0, 0]
    assert "small train: found 2 finished chunks of 50 samples" in caplog.messages
    assert digests(data) == digests(tmp_path / "undisturbed")


def torn(contents: bytes) -> Iterator[bytes]:
    """Yields what a crash of the machine may leave of a file: truncated or missing blocks."""
    size = len(contents)
    for end in range(size):
        yield contents[:end]
    for start, length in itertools.product(range(size), (1, 16, size)):
        hole = bytes(len(contents[start : start + length]))
        yield contents[:start] + hole + contents[start + length :]


@pytest.mark.usefixtures("small_chunks")
def test_torn_chunks_are_encoded_again(data, tmp_path, encoded):
    generate(Small(train=200), tmp_path / "undisturbed", num_workers=1)
    with pytest.raises(DataError, match="the next line is bad"):
        generate(Stopping(train=200), data, num_workers=1)
    _, second = sorted(data.glob("small-train-chunks.incomplete/0*"))
    second.write_bytes(second.read_bytes()[:-1])
    del encoded[:]
    generate(Small(train=200), data, num_workers=1)
    assert encoded == [50, 100, 150, 0, 0]
    assert digests(data) == digests(tmp_path / "undisturbed")


def test_a_chunk_that_is_torn_while_it_is_used_is_an_error(tmp_path):
    encoder = ByteTextEncoder()
    examples = chunks.ExampleEncoder("small", {"inputs": encoder, "targets": encoder})
    folder = chunks.ChunkFolder(examples, tmp_path, shards=1)
    made = folder.write_chunk(chunks.Chunk(0, ["a"], ["b"]))
    path = tmp_path / made.name
    path.write_bytes(path.read_bytes()[:-6] + bytes(6))
    for seed in (None, "1"):
        shard = chunks.Shard(0, tmp_path / "shard", made.sizes[0], [made.name], seed)
        with pytest.raises(DataError, match=f"{made.name} is damaged; run the command again"):
            folder.write_shard(shard)
        assert not shard.path.exists()


def test_no_torn_chunk_is_taken_for_a_sound_one(tmp_path):
    encoder = ByteTextEncoder()
    examples = chunks.ExampleEncoder("small", {"inputs": encoder, "targets": encoder})
    folder = chunks.ChunkFolder(examples, tmp_path, shards=3)
    chunk = chunks.Chunk(0, ["a", "b", "c", "d"], ["e", "f", "g", "h"])
    made = folder.write_chunk(chunk)
    path = tmp_path / made.name
    whole = path.read_bytes()
    assert folder.write_chunk(chunk) == dataclasses.replace(made, is_new=False)
    for contents in torn(whole):
        path.write_bytes(contents)
        assert folder.write_chunk(chunk).is_new or contents == whole
        assert path.read_bytes() == whole


class Louder(ByteTextEncoder):
    def pack_lines(self, lines):
        return super().pack_lines([f"{line}!" for line in lines])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("change", ["text", "files", "chunk", "encoder"])
def test_chunks_of_another_run_are_not_taken(data, tmp_path, encoded, monkeypatch, change):
    with pytest.raises(DataError):
        generate(Stopping(train=200), data, num_workers=1)
    if change == "chunk":
        monkeypatch.setattr(generator, "_CHUNK", 40)
    else:
        encoders = {"inputs": Louder(), "targets": ByteTextEncoder()}
        changed = {
            "text": ("inputs_prefix", "1"),
            "files": ("train_files", 3),
            "encoder": ("feature_encoders", lambda self, data_dir: encoders),
        }[change]
        monkeypatch.setattr(Small, *changed)
    problem = Small(train=200)
    del encoded[:]
    generate(problem, data, num_workers=1)
    assert encoded[:3] == [0, generator._CHUNK, 2 * generator._CHUNK]
    generate(problem, tmp_path / "undisturbed", num_workers=1)
    assert digests(data) == digests(tmp_path / "undisturbed")


@pytest.mark.usefixtures("small_chunks")
def test_files_of_a_stopped_run_are_not_made_again(data, tmp_path, encoded, monkeypatch):
    generate(Small(train=200), tmp_path / "undisturbed", num_workers=1)
    with monkeypatch.context() as stopping:
        write = chunks.ChunkFolder.write_shard

        def write_two(self, shard):
            if shard.index == 2:
                raise OSError("stopped")
            write(self, shard)

        stopping.setattr(chunks.ChunkFolder, "write_shard", write_two)
        with pytest.raises(OSError, match="stopped"):
            generate(Small(train=200), data, num_workers=1)
    made = {path.name: path.stat().st_mtime_ns for path in data.glob("small-train-*-of-*")}
    assert sorted(made) == ["small-train-00000-of-00004", "small-train-00001-of-00004"]
    del encoded[:]
    generate(Small(train=200), data, num_workers=1)
    assert encoded == [0, 0]  # dev and test
    assert {name: (data / name).stat().st_mtime_ns for name in made} == made
    assert digests(data) == digests(tmp_path / "undisturbed")


class Ported(Small):
    """Does not declare which files it reads."""

    text = "a"

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for sample in super().generate_samples(data_dir, tmp_dir, dataset_split):
            yield sample | {"targets": self.text}


class PortedDealt(Ported):
    is_generate_per_split = False


@pytest.mark.parametrize(
    ("cls", "to_delete"),
    [(Ported, r"small-train-\*"), (PortedDealt, r"small-train-\*, small-dev-\*, small-test-\*")],
)
def test_files_are_not_completed_from_other_samples(data, monkeypatch, cls, to_delete):
    generate_data(cls(), str(data), "", DatagenOptions())
    made = digests(data)
    (data / "small-train-00002-of-00004").unlink()
    with monkeypatch.context() as changing:
        changing.setattr(Ported, "text", "b")
        with pytest.raises(UserError, match=f"other samples than .* delete {to_delete} there"):
            generate_data(cls(), str(data), "", DatagenOptions())
    assert not (data / "small-train-00002-of-00004").exists()
    generate_data(cls(), str(data), "", DatagenOptions())
    assert digests(data) == made


def test_files_of_which_the_samples_are_not_known_are_not_completed(data):
    generate_data(Ported(), str(data), "", DatagenOptions())
    path = data / "small.fingerprint.json"
    entries = json.loads(path.read_text())
    for entry in entries.values():
        del entry["samples"]
    path.write_text(json.dumps(entries))
    (data / "small-dev-00000-of-00002").unlink()
    with pytest.raises(UserError, match="a part of small eval generated from other samples"):
        generate_data(Ported(), str(data), "", DatagenOptions())


def test_chunks_alone_do_not_hold_to_their_samples(data, tmp_path, monkeypatch):
    with monkeypatch.context() as stopping:
        stopping.delattr(chunks.ChunkFolder, "write_shard")
        with pytest.raises(AttributeError, match="write_shard"):
            generate_data(Ported(), str(data), "", DatagenOptions())
    assert list(data.glob("small-train-chunks.incomplete/0*")) != []
    monkeypatch.setattr(Ported, "text", "b")
    generate_data(Ported(), str(data), "", DatagenOptions())
    (tmp_path / "undisturbed").mkdir()
    generate_data(Ported(), str(tmp_path / "undisturbed"), "", DatagenOptions())
    assert digests(data) == digests(tmp_path / "undisturbed")


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
    class Odd(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            yield {"inputs": "1", "targets": "a"}
            yield sample

    with pytest.raises(DataError) as error:
        generate(Odd(), data)
    assert str(error.value) == (
        "small: sample 2 of generate_samples: expected a dictionary with text: "
        f"`inputs` and `targets`; got {sample}"
    )


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
    class Forgetful(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            return returned

    with pytest.raises(DataError, match=f"small: generate_samples returned {returned}: expected"):
        generate(Forgetful(), data)
