"""Samples that cannot be encoded are named."""

import dataclasses
import itertools
import re
from collections.abc import Iterator

import pytest

from t2t_lite.data.generation import chunks, cleaning
from t2t_lite.errors import DataError
from t2t_lite.text.text_encoder import ByteTextEncoder, TokenTextEncoder


def encoder_of_bytes() -> chunks.ExampleEncoder:
    return chunks.ExampleEncoder("small", dict.fromkeys(("inputs", "targets"), ByteTextEncoder()))


def test_a_sample_with_a_lone_surrogate_is_named():
    chunk = chunks.Chunk(10, ["a", "b"], ["c", "d\udcff"])
    with pytest.raises(DataError, match=r"small: sample 12 contains the lone surrogate U\+DCFF"):
        encoder_of_bytes().encode(chunk)
    assert cleaning.SeenPairs().add("b", "d\udcff")


def test_a_sample_with_an_unknown_word_is_named(tmp_path):
    path = tmp_path / "words"
    path.write_text("a\nb\n")
    encoders = dict.fromkeys(("inputs", "targets"), TokenTextEncoder(path))
    encoder = chunks.ExampleEncoder("small", encoders)
    chunk = chunks.Chunk(10, ["a", "b"], ["b a", "a c b"])
    message = f"small: sample 12: targets: token 'c' is not in {path}; add it"
    with pytest.raises(DataError, match=re.escape(message)):
        encoder.encode(chunk)


def torn(contents: bytes) -> Iterator[bytes]:
    """Yields what a crash of the machine may leave of a file: truncated or missing blocks."""
    size = len(contents)
    for end in range(size):
        yield contents[:end]
    for start, length in itertools.product(range(size), (1, 16, size)):
        hole = bytes(len(contents[start : start + length]))
        yield contents[:start] + hole + contents[start + length :]


def test_a_chunk_that_is_torn_while_it_is_used_is_an_error(tmp_path):
    folder = chunks.ChunkFolder(encoder_of_bytes(), tmp_path, shards=1)
    made = folder.write_chunk(chunks.Chunk(0, ["a"], ["b"]))
    path = tmp_path / made.name
    path.write_bytes(path.read_bytes()[:-6] + bytes(6))
    for seed in (None, "1"):
        shard = chunks.Shard(0, tmp_path / "shard", made.sizes[0], [made.name], seed)
        with pytest.raises(DataError, match=f"{made.name} is damaged; run the command again"):
            folder.write_shard(shard)
        assert not shard.path.exists()


@pytest.mark.integration
def test_no_torn_chunk_is_taken_for_a_sound_one(tmp_path):
    folder = chunks.ChunkFolder(encoder_of_bytes(), tmp_path, shards=3)
    chunk = chunks.Chunk(0, ["a", "b", "c", "d"], ["e", "f", "g", "h"])
    made = folder.write_chunk(chunk)
    path = tmp_path / made.name
    whole = path.read_bytes()
    assert folder.write_chunk(chunk) == dataclasses.replace(made, is_new=False)
    for contents in torn(whole):
        path.write_bytes(contents)
        assert folder.write_chunk(chunk).is_new or contents == whole
        assert path.read_bytes() == whole
