"""The work of data generation's processes: samples become chunk files, and these become shards.

A chunk file holds the framed records of some consecutive samples, grouped by the shard that each
belongs to: (number of shards + 1) offsets as uint64, then the records. Its name has a digest of the
samples, so that what a killed run left is used again only if nothing has changed. Nobody waits for
it to reach the disk: what a crash of the machine has torn shows by its checksums and is made anew.
"""

import dataclasses
import hashlib
import io
import itertools
import pathlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from t2t_lite.data.records import (
    frame,
    framed_records,
    pack,
    serialize_packed,
    shuffled,
    split_records,
)
from t2t_lite.data.text_encoder import EOS_ID
from t2t_lite.errors import DataError
from t2t_lite.files import whole_file

if TYPE_CHECKING:
    from t2t_lite.data.text_encoder import TextEncoder

_EOS = pack([EOS_ID])
_OFFSET = struct.Struct("<Q")
_SPAN = struct.Struct("<QQ")  # two offsets that follow each other


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive samples, as `Text2TextProblem.prefixed` gives them.

    Attributes:
        first: number of the first one in the whole run, from 0.
        inputs: of each sample.
        targets: of each sample.
    """

    first: int
    inputs: Sequence[str]
    targets: Sequence[str]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.inputs)

    def name(self, shards: int) -> str:
        """Returns the name of its file: other samples or another number of shards, another name."""
        lines = (*self.inputs, *self.targets)
        sizes = repr((shards, self.first, *map(len, lines)))
        contents = sizes.encode() + "".join(lines).encode("utf-8", "surrogatepass")
        return f"{self.first:012d}-{hashlib.blake2b(contents, digest_size=16).hexdigest()}"


class ExampleEncoder:
    """Turns samples into serialized `tf.train.Example`s; picklable if its encoders are.

    Args:
        problem_name: for errors.
        encoders: those of `inputs` and `targets`.
    """

    def __init__(self, problem_name: str, encoders: Mapping[str, "TextEncoder"]) -> None:
        self._problem_name = problem_name
        self._encoders = encoders

    def encode(self, chunk: Chunk) -> list[bytes]:
        """Returns an example for each sample, EOS appended to both sides.

        Raises:
            DataError: a side is empty.
        """
        inputs = self._encoders["inputs"].pack_lines(chunk.inputs)
        targets = self._encoders["targets"].pack_lines(chunk.targets)
        examples = []
        for number, (source, target) in enumerate(zip(inputs, targets, strict=True), 1):
            if not source or not target:
                side = "targets" if source else "inputs"
                raise DataError(
                    f"{self._problem_name}: sample {chunk.first + number}: {side} is empty; "
                    "generate_samples should leave out such pairs"
                )
            examples.append(serialize_packed({"inputs": source + _EOS, "targets": target + _EOS}))
        return examples

    def encode_chunk(self, chunk: Chunk, shards: int) -> list[list[bytes]]:
        """Returns framed records in a list for each shard; samples go to the shards in turn.

        Raises:
            DataError: a side is empty.
        """
        groups: list[list[bytes]] = [[] for _ in range(shards)]
        for number, example in enumerate(self.encode(chunk), chunk.first):
            groups[number % shards].append(frame(example))
        return groups


@dataclasses.dataclass(frozen=True)
class ChunkFile:
    """A chunk on disk.

    Attributes:
        name: of its file.
        samples: how many it holds.
        is_new: whether it was not there before.
        sizes: bytes that it has for each shard.
    """

    name: str
    samples: int
    is_new: bool
    sizes: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Shard:
    """A TFRecord file to make.

    Attributes:
        index: its place in the run.
        path: where it goes.
        size: bytes of its records.
        chunks: names of all chunk files of the run, in order.
        seed: decides its order; None: as the samples came.
    """

    index: int
    path: pathlib.Path
    size: int
    chunks: Sequence[str]
    seed: str | None


@dataclasses.dataclass(frozen=True)
class ChunkFolder:
    """The working folder of a run.

    Attributes:
        encoder: how samples become examples.
        path: the folder.
        shards: to how many files the samples go in turn.
    """

    encoder: ExampleEncoder
    path: pathlib.Path
    shards: int

    def write_chunk(self, chunk: Chunk) -> ChunkFile:
        """Encodes a chunk into its file, unless that is there and sound.

        Raises:
            DataError: a side of a sample is empty.
            OSError: the disk is full, say; the file is not there then.
        """
        name, count = chunk.name(self.shards), len(chunk)
        path = self.path / name
        if path.is_file() and (sizes := self._sound_sizes(path, count)) is not None:
            return ChunkFile(name, count, is_new=False, sizes=sizes)
        groups = self.encoder.encode_chunk(chunk, self.shards)
        sizes = [sum(map(len, group)) for group in groups]
        with whole_file(path, durable=False) as temporary, temporary.open("wb") as out:
            out.writelines(map(_OFFSET.pack, itertools.accumulate(sizes, initial=self._start)))
            out.writelines(itertools.chain.from_iterable(groups))
        return ChunkFile(name, count, is_new=True, sizes=sizes)

    @property
    def _start(self) -> int:
        """Where the records of a chunk file begin."""
        return _OFFSET.size * (self.shards + 1)

    def _sound_sizes(self, path: pathlib.Path, samples: int) -> list[int] | None:
        """Returns the bytes that a chunk file has for each shard; None: it is damaged."""
        contents = path.read_bytes()
        head = contents[: self._start]
        if len(head) < self._start:
            return None
        offsets = [offset for (offset,) in _OFFSET.iter_unpack(head)]
        if offsets[0] != self._start or offsets[-1] != len(contents) or offsets != sorted(offsets):
            return None
        spans = list(itertools.pairwise(offsets))
        segments = (io.BytesIO(contents[begin:end]) for begin, end in spans)
        try:
            records = sum(1 for part in segments for _ in framed_records(part, path.name))
        except DataError:
            return None
        return [end - begin for begin, end in spans] if records == samples else None

    def write_shard(self, shard: Shard) -> None:
        """Puts the records of all chunks that belong to a shard together in its file.

        Raises:
            OSError: the disk is full, say; the file is not there then.
        """
        with whole_file(shard.path) as temporary, temporary.open("wb") as out:
            if shard.seed is None:
                out.writelines(self._segment(chunk, shard.index) for chunk in shard.chunks)
                return
            out.writelines(shuffled(self._records(shard), shard.size, shard.seed, self.path))

    def _records(self, shard: Shard) -> Iterator[bytes]:
        """Yields the framed records of a shard in the order of their samples."""
        for chunk in shard.chunks:
            # This run has written or checked the file; checksums are for those who read the shards.
            yield from split_records(self._segment(chunk, shard.index))

    def _segment(self, chunk: str, index: int) -> bytes:
        """Returns the records of a chunk file that belong to a shard."""
        with (self.path / chunk).open("rb", buffering=0) as file:
            file.seek(_OFFSET.size * index)
            start, end = _SPAN.unpack(file.read(_SPAN.size))
            file.seek(start)
            return file.read(end - start)
