"""The work of data generation's processes: samples become chunk files, and these become shards.

A chunk file contains the framed records of consecutive samples, grouped by shard: (number of
shards + 1) offsets as uint64, then the records of each shard in turn; the offsets and each shard's
records are followed by their checksum. The file's name contains a digest of the samples, so that
the chunks of a killed run are reused only if these have not changed; some samples are encoded again
to see whether the encoders have. Chunks are not synced to disk: if a crash of the machine damages
one, the checksum shows it, and the chunk is regenerated.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import pathlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from t2t_lite.data.records import frame, masked_crc, serialize_packed, shuffled, split_records
from t2t_lite.errors import DataError, quoted
from t2t_lite.files import whole_file
from t2t_lite.protocol_buffers import int64, pack, pack_floats
from t2t_lite.text.number_encoder import parsed_numbers, text_of
from t2t_lite.text.sample import TARGETS_AS_SOURCE, Sample
from t2t_lite.text.text_encoder import EOS_ID, require_characters

if TYPE_CHECKING:
    from t2t_lite.text.text_encoder import TextEncoder

_SIDES = ("inputs", "targets")
# Of so many samples, one is encoded again before a chunk is reused.
_SAMPLES_PER_PROBE = 32
_EOS = pack([EOS_ID])
_OFFSET = struct.Struct("<Q")
_SPAN = struct.Struct("<QQ")  # two offsets that follow each other
_CHECKSUM_SIZE = len(masked_crc(b""))


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive samples, as `Text2TextProblem.prefixed` yields them.

    Attributes:
        first: number of the first sample within its group of files, from 0.
        inputs: the input of each sample.
        targets: the target of each sample.
        may_be_empty: the sides that may be, as in a test split without references.
        further: what else each sample has as text, by name: `ALIGNMENT`, or lists of integers.
    """

    first: int
    inputs: Sequence[str]
    targets: Sequence[str]
    may_be_empty: Sequence[str] = ()
    further: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.inputs)

    def name(self, shards: int) -> str:
        """Returns the name of its file, which depends on the samples and the number of shards."""
        lines = (*self.inputs, *self.targets, *itertools.chain.from_iterable(self.further.values()))
        sizes = repr((shards, self.first, *map(len, lines)))
        contents = sizes.encode() + "".join(lines).encode("utf-8", "surrogatepass")
        return f"{self.first:012d}-{hashlib.blake2b(contents, digest_size=16).hexdigest()}"


class ExampleEncoder:
    """Converts samples to serialized `tf.train.Example`s; picklable if its encoders are.

    Args:
        problem_name: the problem's name, for errors.
        encoders: the encoders of `inputs` and `targets`; only of those sides that examples have.
        floats: the sides that are numbers.

    Attributes:
        encoders: the same.
        unlinked: the pairs so far whose links were ignored, as their ids show other words.
    """

    unlinked = 0

    def __init__(
        self,
        problem_name: str,
        encoders: Mapping[str, "TextEncoder"],
        floats: Sequence[str] = (),
    ) -> None:
        self._problem_name = problem_name
        self.encoders = encoders
        self._floats = floats
        self._sides = tuple(side for side in _SIDES if side in encoders)

    def encode(self, chunk: Chunk) -> list[bytes]:
        """Returns an example for each sample, with EOS at the end of both sides.

        Raises:
            DataError: a side of a sample has no ids.
        """
        for number, texts in enumerate(zip(chunk.inputs, chunk.targets, strict=True), 1):
            name = f"{self._problem_name}: sample {chunk.first + number}"
            require_characters("".join(texts), name)
        lines = {"inputs": self._sources(chunk), "targets": chunk.targets}
        try:
            by_side = {side: self._packed(side, lines[side]) for side in self._sides}
        except DataError as error:
            raise self._located(error, chunk.first, lines) from error
        may_be_empty = {*chunk.may_be_empty}.difference(self._floats)
        packed = [
            [ids or _EOS for ids in own] if side in may_be_empty else own
            for side, own in by_side.items()
        ]
        examples = []
        features = self._targets_as_sources(chunk), self._further(chunk)
        rows = zip(zip(*packed, strict=True), *features, strict=True)
        for number, (ids, as_source, further) in enumerate(rows, 1):
            if not all(ids):
                raise DataError(
                    f"{self._problem_name}: sample {chunk.first + number}: "
                    f"{self._sides[ids.index(b'')]} is empty; generate_samples should skip such "
                    "pairs"
                )
            sides = dict(zip(self._sides, ids, strict=True))
            examples.append(serialize_packed({**sides, **as_source, **further}, self._floats))
        return examples

    def _sources(self, chunk: Chunk) -> Sequence[str]:
        """Returns the inputs as models read them."""
        encoder = self.encoders.get("inputs")
        return chunk.inputs if encoder is None else encoder.as_sources(chunk.inputs)

    def _targets_as_sources(self, chunk: Chunk) -> Iterable[Mapping[str, bytes]]:
        """Returns how each target would be read as a source, if otherwise than it is written."""
        encoder = self.encoders.get("targets")
        if encoder is None or not encoder.reads_source_form or "inputs" not in self._sides:
            return itertools.repeat({}, len(chunk))
        read = encoder.as_sources(chunk.targets)
        changed = [text for text, target in zip(read, chunk.targets, strict=True) if text != target]
        packed = dict(zip(changed, self._packed("targets", changed), strict=True))
        return [{TARGETS_AS_SOURCE: ids} if (ids := packed.get(text)) else {} for text in read]

    def _further(self, chunk: Chunk) -> Iterable[Mapping[str, bytes]]:
        """Returns further features of each sample, packed."""
        return itertools.repeat({}, len(chunk))

    def _packed(self, side: str, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line with EOS, or numbers; nothing for an empty line."""
        packed = self.encoders[side].pack_lines(lines)
        return packed if side in self._floats else [ids and ids + _EOS for ids in packed]

    def _located(
        self, error: DataError, first: int, lines: Mapping[str, Sequence[str]]
    ) -> DataError:
        """Returns the error of the first line that cannot be encoded, with the sample's number."""
        for number, texts in enumerate(zip(*map(lines.__getitem__, self._sides), strict=True), 1):
            for side, text in zip(self._sides, texts, strict=True):
                try:
                    self._packed(side, [text])
                except DataError as own:
                    name = f"{self._problem_name}: sample {first + number}"
                    return DataError(f"{name}: {side}: {own}")
        return error

    def encode_chunk(self, chunk: Chunk, shards: int) -> list[list[bytes]]:
        """Returns a list of framed records for each shard; samples are dealt round-robin."""
        groups: list[list[bytes]] = [[] for _ in range(shards)]
        for number, example in enumerate(self.encode(chunk), chunk.first):
            groups[number % shards].append(frame(example))
        return groups


class IdExampleEncoder(ExampleEncoder):
    """Converts samples of `ids_as_text`, which have been encoded before.

    Args:
        problem_name: the problem's name, for errors.
        sides: those that the examples have.
        floats: those that are numbers.
    """

    def __init__(
        self, problem_name: str, sides: tuple[str, ...] = _SIDES, floats: Sequence[str] = ()
    ) -> None:
        super().__init__(problem_name, {}, floats)
        self._sides = sides

    def _packed(self, side: str, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line, which has EOS already, or its packed numbers."""
        if side in self._floats:
            return [pack_floats(parsed_numbers(line)) for line in lines]
        return list(map(_packed_ids, lines))

    def _further(self, chunk: Chunk) -> Iterator[Mapping[str, bytes]]:
        """Yields the further lists of integers of each sample, packed."""
        for i in range(len(chunk)):
            yield {name: _packed_ids(texts[i]) for name, texts in chunk.further.items()}


def _packed_ids(text: str) -> bytes:
    return pack(map(int, text.split()))


def ids_as_text(
    samples: Iterable[Mapping[str, Sequence[int]]],
    problem_name: str,
    sides: tuple[str, ...] = _SIDES,
    floats: Sequence[str] = (),
    further: Sequence[str] = (),
) -> Iterator[Sample]:
    """Yields samples whose text is their ids, as numbers, for `IdExampleEncoder`.

    Args:
        samples: ids by side.
        problem_name: the problem's name, for errors.
        sides: those that the samples have.
        floats: those whose ids are numbers.
        further: lists of integers that they may have beside.
    """
    for number, sample in enumerate(samples, 1):
        try:
            ids = {
                side: text_of(sample[side]) if side in floats else _id_text(sample[side])
                for side in sides
            }
            ids |= {name: _id_text(sample.get(name, ())) for name in further}
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            names = *sides, *further
            kinds = [f"{'numbers' if name in floats else 'integers'} `{name}`" for name in names]
            raise DataError(
                f"{problem_name}: sample {number} of generate_encoded_samples: expected lists of "
                f"{' and '.join(kinds)}, got {quoted(sample)} ({error})"
            ) from None
        yield {"inputs": "", **ids}


def _id_text(ids: Iterable[int]) -> str:
    return " ".join([str(int64(id_)) for id_ in ids])


@dataclasses.dataclass(frozen=True)
class ChunkFile:
    """A chunk on disk.

    Attributes:
        name: name of the file.
        samples: number of samples.
        is_new: whether the file did not exist before.
        sizes: bytes of records for each shard.
        unlinked: the pairs whose links were ignored.
    """

    name: str
    samples: int
    is_new: bool
    sizes: Sequence[int]
    unlinked: int = 0


@dataclasses.dataclass(frozen=True)
class Shard:
    """A TFRecord file to write.

    Attributes:
        index: its index in the group of files.
        path: its path.
        size: bytes of its records.
        chunks: names of all chunk files of the group, in order.
        seed: seed of its order; None: the order of the samples.
    """

    index: int
    path: pathlib.Path
    size: int
    chunks: Sequence[str]
    seed: str | None


@dataclasses.dataclass(frozen=True)
class ChunkFolder:
    """The working folder of a group of files.

    Attributes:
        encoder: converts samples to examples.
        path: the folder.
        shards: number of files to which samples are dealt.
    """

    encoder: ExampleEncoder
    path: pathlib.Path
    shards: int

    def write_chunk(self, chunk: Chunk) -> ChunkFile:
        """Encodes a chunk into its file, unless one exists that is whole and encoded alike."""
        name, count = chunk.name(self.shards), len(chunk)
        path = self.path / name
        if path.is_file():
            with contextlib.suppress(DataError):
                found = [self._segment(name, index) for index in range(self.shards)]
                if self._is_encoded_alike(chunk, found):
                    sizes = list(map(len, found))
                    return ChunkFile(name, count, is_new=False, sizes=sizes)
        before = self.encoder.unlinked
        groups = [b"".join(group) for group in self.encoder.encode_chunk(chunk, self.shards)]
        segments = [_sealed(group) for group in groups]
        offsets = itertools.accumulate(map(len, segments), initial=self._header_size)
        header = _sealed(b"".join(map(_OFFSET.pack, offsets)))
        with whole_file(path, durable=False) as temporary, temporary.open("wb") as out:
            out.write(header)
            out.writelines(segments)
        unlinked = self.encoder.unlinked - before
        return ChunkFile(name, count, True, [*map(len, groups)], unlinked)

    def _is_encoded_alike(self, chunk: Chunk, found: Sequence[bytes]) -> bool:
        """Whether the encoders, perhaps changed since, give some samples the records in `found`."""
        probes = slice(None, None, _SAMPLES_PER_PROBE)
        numbers = range(len(chunk))[probes]
        probe = dataclasses.replace(
            chunk,
            inputs=chunk.inputs[probes],
            targets=chunk.targets[probes],
            further={name: texts[probes] for name, texts in chunk.further.items()},
        )
        records = [list(split_records(segment)) for segment in found]
        return all(
            records[(chunk.first + number) % self.shards][number // self.shards] == frame(example)
            for number, example in zip(numbers, self.encoder.encode(probe), strict=True)
        )

    def write_shard(self, shard: Shard) -> None:
        """Writes a shard from its records in all chunks."""
        with whole_file(shard.path) as temporary, temporary.open("wb") as out:
            if shard.seed is None:
                out.writelines(self._segment(chunk, shard.index) for chunk in shard.chunks)
                return
            out.writelines(shuffled(self._records(shard), shard.size, shard.seed, self.path))

    def _records(self, shard: Shard) -> Iterator[bytes]:
        """Yields the framed records of a shard in the order of their samples."""
        for chunk in shard.chunks:
            yield from split_records(self._segment(chunk, shard.index))

    def _segment(self, chunk: str, index: int) -> bytes:
        """Returns a shard's records in a chunk file."""
        path = self.path / chunk
        with path.open("rb", buffering=0) as file:
            header = _read_sealed(file, self._header_size, path)
            start, end = _SPAN.unpack_from(header, _OFFSET.size * index)
            file.seek(start)
            return _read_sealed(file, end - start, path)

    @property
    def _header_size(self) -> int:
        """Bytes of a chunk file's offsets and their checksum."""
        return _OFFSET.size * (self.shards + 1) + _CHECKSUM_SIZE


def _sealed(contents: bytes) -> bytes:
    return contents + masked_crc(contents)


def _read_sealed(file: IO[bytes], size: int, path: pathlib.Path) -> bytes:
    """Reads the next bytes of a file and verifies their checksum."""
    sealed = file.read(size)
    contents = sealed[:-_CHECKSUM_SIZE]
    if len(sealed) != size or sealed != _sealed(contents):
        raise DataError(f"{path} is damaged; run the command again to regenerate it")
    return contents
