"""A stopped generation is completed from the same samples, and what is whole is not made again."""

import json
import logging
import pathlib

import pytest

from support.folders import digests, leftovers
from support.numbered import Small, Stopping, generate
from t2t_lite.data.generation import chunks, generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.text_encoder import ByteTextEncoder


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """The number of the first sample of each encoded chunk."""
    firsts = []

    def encode(self, chunk, shards, original=chunks.ExampleEncoder.encode_chunk):
        firsts.append(chunk.first)
        return original(self, chunk, shards)

    monkeypatch.setattr(chunks.ExampleEncoder, "encode_chunk", encode)
    return firsts


def assert_whole(folder: pathlib.Path, problem: Small) -> None:
    """Compares the files with those of an undisturbed run."""
    undisturbed = folder.with_name("undisturbed")
    undisturbed.mkdir()
    generate(problem, undisturbed, num_workers=1)
    assert digests(folder) == digests(undisturbed)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_a_stopped_run_are_not_encoded_again(data, encoded, caplog):
    with pytest.raises(DataError, match="the next line is bad"):
        generate(Stopping(train=200), data, num_workers=1)
    assert leftovers(data) == []
    caplog.set_level(logging.INFO)
    generate(Small(train=200), data, num_workers=1)
    assert encoded == [0, 50, 100, 150, 0, 0]
    assert "small train: found 2 finished chunks of 50 samples" in caplog.messages
    assert_whole(data, Small(train=200))


@pytest.mark.integration
@pytest.mark.usefixtures("small_chunks")
def test_torn_chunks_are_encoded_again(data, encoded):
    with pytest.raises(DataError, match="the next line is bad"):
        generate(Stopping(train=200), data, num_workers=1)
    _, second = sorted(data.glob("small-train-chunks.incomplete/0*"))
    second.write_bytes(second.read_bytes()[:-1])
    del encoded[:]
    generate(Small(train=200), data, num_workers=1)
    assert encoded == [50, 100, 150, 0, 0]
    assert_whole(data, Small(train=200))


class Louder(ByteTextEncoder):
    def pack_lines(self, lines):
        return super().pack_lines([f"{line}!" for line in lines])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("change", ["text", "files", "chunk", "encoder"])
def test_chunks_of_another_run_are_not_taken(data, encoded, monkeypatch, change):
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
    assert_whole(data, problem)


@pytest.mark.usefixtures("small_chunks")
def test_files_of_a_stopped_run_are_not_made_again(data, encoded, monkeypatch):
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
    assert_whole(data, Small(train=200))


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


def test_chunks_alone_do_not_hold_to_their_samples(data, monkeypatch):
    with monkeypatch.context() as stopping:
        stopping.delattr(chunks.ChunkFolder, "write_shard")
        with pytest.raises(AttributeError, match="write_shard"):
            generate(Ported(), data)
    assert list(data.glob("small-train-chunks.incomplete/0*")) != []
    monkeypatch.setattr(Ported, "text", "b")
    generate(Ported(), data)
    assert_whole(data, Ported())
