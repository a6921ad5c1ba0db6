import hashlib
import itertools
import pathlib
import random
import struct
import tracemalloc
from collections import Counter

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from support.limits import full_disk
from t2t_lite.data import records
from t2t_lite.errors import DataError, UserError

ids = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)
examples = st.lists(st.fixed_dictionaries({"inputs": ids, "targets": ids}), max_size=20)


@given(examples)
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("records") / "shard"
    records.write_examples(path, written)
    assert list(records.read_examples([path])) == written


def test_files_are_read_one_after_the_other(tmp_path):
    for name in "ab":
        records.write_examples(tmp_path / name, [{"inputs": [ord(name)]}] * 2)
    found = records.read_examples([tmp_path / "b", tmp_path / "a"])
    assert [example["inputs"] for example in found] == [[98], [98], [97], [97]]


names = st.sampled_from(["inputs", "targets", "a", "é", "z" * 200])


@given(st.dictionaries(names, ids))
@settings(max_examples=100, deadline=None)
def test_writes_the_bytes_that_tensorflow_writes(features):
    example = tf.train.Example()
    for name, values in features.items():
        example.features.feature[name].int64_list.value.extend(values)
    assert records.serialize(features) == example.SerializeToString(deterministic=True)


@given(st.lists(st.binary(max_size=300), max_size=5))
@settings(max_examples=30, deadline=None)
def test_frames_records_as_tensorflow_does(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("records") / "shard"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in written:
            writer.write(record)
    assert b"".join(map(records.frame, written)) == path.read_bytes()


def test_equal_features_give_equal_bytes_in_any_order():
    assert records.serialize({"inputs": [1], "targets": [2]}) == records.serialize(
        {"targets": [2], "inputs": [1]}
    )


def test_reads_a_file_that_t2t_wrote(golden):
    path = golden / "tfrecord/text2text_tmpdir-dev-00000-of-00001"
    found = list(records.read_examples([path]))
    assert len(found) == 30
    assert all(sorted(example) == ["inputs", "targets"] for example in found)
    assert all(example["targets"][-1] == 1 for example in found)


@pytest.fixture
def shard(tmp_path) -> pathlib.Path:
    path = tmp_path / "shard"
    records.write_examples(path, ({"inputs": [i], "targets": [i, i]} for i in range(50)))
    return path


def shuffle(path: pathlib.Path, seed: str, **memory: int) -> bytes:
    with path.open("rb") as file:
        framed = records.framed_records(file, str(path))
        return b"".join(records.shuffled(framed, path.stat().st_size, seed, path.parent, **memory))


def test_shuffling_keeps_the_records_and_follows_the_seed(shard):
    before = [str(example) for example in records.read_examples([shard])]
    once = shuffle(shard, "seed")
    assert shuffle(shard, "seed") == once
    assert shuffle(shard, "another") != once

    shard.write_bytes(once)
    after = [str(example) for example in records.read_examples([shard])]
    assert after != before
    assert Counter(after) == Counter(before)


def test_shuffling_an_empty_file_leaves_it_empty(tmp_path):
    records.write_examples(tmp_path / "empty", [])
    assert shuffle(tmp_path / "empty", "seed") == b""


# Of the first release: data made once must come out the same for ever.
@pytest.mark.parametrize(
    ("pieces", "digest"),
    [
        (1, "1ed5fc165a14bdceeaf53644cd942cc19ad0e00255071bb8fe085bea0fcf3f8d"),
        (7, "3fb9246f44ede8cc09b4ed570dec75fcda04ff1ea0cc738c783b8da390664312"),
    ],
)
def test_shuffles_as_ever(tmp_path, pieces, digest):
    path = tmp_path / "shard"
    records.write_examples(path, ({"inputs": [i]} for i in range(3000)))
    found = shuffle(path, "seed", memory=path.stat().st_size // pieces)
    assert hashlib.sha256(found).hexdigest() == digest


def offset_of_record(contents: bytes, number: int) -> int:
    start = 0
    for _ in range(number - 1):
        start += 16 + struct.unpack_from("<Q", contents, start)[0]
    return start


@pytest.mark.parametrize("number", [1, 17, 50])
def test_a_changed_byte_is_an_error_that_names_file_and_record(shard, number):
    contents = bytearray(shard.read_bytes())
    contents[offset_of_record(contents, number) + 14] ^= 1
    shard.write_bytes(contents)
    with pytest.raises(DataError, match=f"{shard}, record {number}: damaged"):
        list(records.read_examples([shard]))


@pytest.mark.parametrize("kept", [5, 14, 25])
def test_a_cut_file_is_an_error_that_names_file_and_record(shard, kept):
    contents = shard.read_bytes()
    shard.write_bytes(contents[: offset_of_record(contents, 9) + kept])
    with pytest.raises(DataError, match=f"{shard}, record 9: damaged"):
        list(records.read_examples([shard]))


def test_a_file_of_another_kind_is_an_error(tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(random.Random(1).randbytes(1000))
    with pytest.raises(DataError, match=f"{path}, record 1"):
        list(records.read_examples([path]))


def test_records_that_are_no_examples_are_an_error(tmp_path):
    path = tmp_path / "shard"
    written = [records.serialize({"inputs": [1]}), b"\xff\xff\xff"]
    path.write_bytes(b"".join(map(records.frame, written)))
    with pytest.raises(DataError, match=f"{path}, record 2"):
        list(records.read_examples([path]))


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path / 'absent'}: no such file"):
        list(records.read_examples([tmp_path / "absent"]))


def test_a_full_disk_is_an_os_error(tmp_path):
    with full_disk(10_000), pytest.raises(OSError, match="too large"):
        records.write_examples(tmp_path / "shard", ({"inputs": [i]} for i in range(1000)))


def test_shuffling_in_pieces_keeps_the_records_and_mixes_them_all(tmp_path):
    path, count = tmp_path / "large", 3000
    records.write_examples(path, ({"inputs": [i]} for i in range(count)))
    size = path.stat().st_size
    path.write_bytes(shuffle(path, "seed", memory=size // 7))
    found = [example["inputs"][0] for example in records.read_examples([path])]
    assert sorted(found) == list(range(count))
    assert path.stat().st_size == size
    # Every part of the old order must be found in every part of the new one, evenly.
    for part in range(0, count, 500):
        places = [i for i, number in enumerate(found) if part <= number < part + 500]
        assert count * 0.45 < sum(places) / 500 < count * 0.55
        assert min(places) < 60
        assert max(places) > count - 60
    neighbours = sum(abs(a - b) == 1 for a, b in itertools.pairwise(found))
    assert neighbours < 20


@pytest.mark.integration
def test_memory_of_shuffling_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for count in (10_000, 40_000):
        path = tmp_path / "shard"
        records.write_examples(path, ({"inputs": [i] * 20} for i in range(count)))
        tracemalloc.start()
        with path.open("rb") as file:
            framed = records.framed_records(file, str(path))
            for _ in records.shuffled(framed, path.stat().st_size, "seed", tmp_path, memory=2**17):
                pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]
    assert peaks[1] < 4 * 2**17  # a piece, the objects around its records, and the open files


def test_a_record_that_claims_to_be_huge_is_not_believed(tmp_path):
    for length in (2**40, 2**63 + 1):
        (tmp_path / "a").write_bytes(records._header(length) + b"x")
        with pytest.raises(DataError, match="a, record 1: damaged or truncated file"):
            list(records.read_examples([tmp_path / "a"]))
