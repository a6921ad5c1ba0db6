"""Raw corpora: their upstream files, downloading them, and reading their pairs as a stream.

    EUROPARL = RemoteFile("https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz")
    corpus = AlignedCorpus(
        "europarl-v7.de-en",
        Text(EUROPARL, "training/europarl-v7.de-en.en"),
        Text(EUROPARL, "training/europarl-v7.de-en.de"),
    )
    for sample in corpus.pairs(tmp_dir): ...

Corpora are values: a problem lists some, and `chained` reads them in sequence. Errors in the text
go to a `BadInput`; if it skips one side of a pair, the whole pair is skipped.
"""

import abc
import contextlib
import dataclasses
import functools
import itertools
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from t2t_lite.data.corpora import segments, xml_files
from t2t_lite.data.corpora.archives import iterate_members, member_name, open_member
from t2t_lite.data.corpora.download import download
from t2t_lite.data.corpora.segments import Pair
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.bad_input import STRICT, BadInput
from t2t_lite.text.sample import Sample
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_files import (
    decoded_lines,
    iterate_lines,
    open_file,
    raw_lines,
    raw_pieces,
)

log = logging.getLogger(__name__)


# ---- upstream files


@dataclasses.dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    Attributes:
        url: the address.
        size: the expected size in bytes, if known; downloads are checked against it.
        file_hash: the expected SHA-256 or MD5, hexadecimal, if known; likewise.
        name: the file's name in `tmp_dir`; empty: the last part of the address.
    """

    url: str
    size: int | None = None
    file_hash: str | None = None
    name: str = ""

    def path(self, tmp_dir: str) -> pathlib.Path:
        """Returns the file's local path: `tmp_dir/name`."""
        return pathlib.Path(tmp_dir) / (self.name or self.url.rpartition("/")[2])

    def fetch(self, tmp_dir: str) -> pathlib.Path:
        """Downloads the file unless it exists, and returns its path.

        An existing file is used as it is; a warning is logged if its size differs from `size`.

        Raises:
            UserError: the download failed; the message says where to put the file by hand.
        """
        path = self.path(tmp_dir)
        if not path.is_file():
            download(self.url, path, self.file_hash, self.size)
        elif self.size is not None and path.stat().st_size != self.size:
            log.warning(
                "%s has %d bytes, %s has %d", path, path.stat().st_size, self.url, self.size
            )
        return path


@dataclasses.dataclass(frozen=True)
class Text:
    """An upstream text: a file, or one member of an archive.

    Attributes:
        file: the file or the archive.
        member: the path inside the archive; None if `file` is not an archive.
    """

    file: RemoteFile
    member: str | None = None

    @property
    def is_xml(self) -> bool:
        """Whether this is a test set in XML."""
        name = self.member or self.file.name or self.file.url
        return name.removesuffix(".gz").endswith(".xml")

    def name(self, tmp_dir: str) -> str:
        """Returns the name of the text in messages."""
        path = self.file.path(tmp_dir)
        return str(path) if self.member is None else member_name(path, self.member)

    def open(self, tmp_dir: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Returns a context manager that opens the downloaded text, decompressed."""
        path = self.file.path(tmp_dir)
        return open_file(path) if self.member is None else open_member(path, self.member)

    def pieces(self, tmp_dir: str, bad: BadInput = STRICT) -> Iterator[bytes]:
        """Yields the raw bytes, in pieces."""
        return raw_pieces(self.open(tmp_dir), self.name(tmp_dir), bad)

    def lines(self, tmp_dir: str, bad: BadInput = STRICT) -> Iterator[str]:
        """Yields the lines as text; for a `.sgm` or `.xml` file, the segments."""
        name = self.name(tmp_dir)
        if self.is_xml:
            return xml_files.xml_segments(self.pieces(tmp_dir, bad), name, bad)
        lines = decoded_lines(raw_lines(self.open(tmp_dir), name, bad), name, bad)
        is_sgm = name.removesuffix(".gz").endswith(".sgm")
        return segments.sgm_segments(lines, name, bad) if is_sgm else lines


# ---- corpora


@dataclasses.dataclass(frozen=True)
class Corpus(abc.ABC):
    """Pairs of text from upstream.

    Attributes:
        name: the corpus's name in the log.
    """

    name: str

    def pairs(self, tmp_dir: str, bad: BadInput = STRICT) -> Iterator[Sample]:
        """Downloads missing files, then returns an iterator over the pairs.

        Surrounding white space is stripped; pairs with an empty side are dropped and counted in
        the log. Memory does not grow with the corpus.

        Args:
            tmp_dir: folder of the upstream files.
            bad: receives unreadable lines and segments, and truncated files.

        Raises:
            UserError: a file is missing and cannot be downloaded.
            DataError: an error that `bad` does not skip; different numbers of lines, unless the
                shorter file is truncated and `bad` skips; no pair at all.
        """
        for file in self.files:
            file.fetch(tmp_dir)
        return with_text(self._raw_pairs(tmp_dir, bad), self.name, bad)

    @property
    @abc.abstractmethod
    def texts(self) -> Sequence[Text]:
        """The texts of the corpus."""

    @property
    def files(self) -> Sequence[RemoteFile]:
        """The files that contain the texts, each once."""
        return list(dict.fromkeys(text.file for text in self.texts))

    @abc.abstractmethod
    def _raw_pairs(self, tmp_dir: str, bad: BadInput) -> Iterator[Pair]:
        """Yields source and target unchanged."""


@dataclasses.dataclass(frozen=True)
class AlignedCorpus(Corpus):
    """Two texts, aligned line by line (or segment by segment, SGM and XML).

    An XML test set with sources and references is both texts.
    """

    inputs: Text
    targets: Text

    @property
    def texts(self) -> Sequence[Text]:
        """Sources and targets."""
        return self.inputs, self.targets

    def _raw_pairs(self, tmp_dir: str, bad: BadInput) -> Iterator[Pair]:
        if self.inputs == self.targets and self.inputs.is_xml:
            pieces = self.inputs.pieces(tmp_dir, bad)
            return xml_files.xml_pairs(pieces, self.inputs.name(tmp_dir), bad)
        names = f"{self.inputs.name(tmp_dir)} and {self.targets.name(tmp_dir)}"
        return aligned(
            self.inputs.lines(tmp_dir, bad), self.targets.lines(tmp_dir, bad), names, bad
        )


@dataclasses.dataclass(frozen=True)
class TsvCorpus(Corpus):
    """Two columns of a table, counted from 0."""

    text: Text
    columns: tuple[int, int] = (0, 1)

    @property
    def texts(self) -> Sequence[Text]:
        """The table."""
        return (self.text,)

    def _raw_pairs(self, tmp_dir: str, bad: BadInput) -> Iterator[Pair]:
        name = self.text.name(tmp_dir)
        return segments.tsv_pairs(self.text.lines(tmp_dir, bad), name, self.columns, bad)


@dataclasses.dataclass(frozen=True)
class TsvArchive(Corpus):
    """Two columns of every table of an archive; tables have names that end in `suffix`."""

    file: RemoteFile
    suffix: str
    columns: tuple[int, int]

    @property
    def texts(self) -> Sequence[Text]:
        """None that are known without reading the archive."""
        return ()

    @property
    def files(self) -> Sequence[RemoteFile]:
        """The archive."""
        return (self.file,)

    def _raw_pairs(self, tmp_dir: str, bad: BadInput) -> Iterator[Pair]:
        for name, lines in iterate_members(self.file.path(tmp_dir), (self.suffix,), bad):
            yield from segments.tsv_pairs(lines, name, self.columns, bad)


@dataclasses.dataclass(frozen=True)
class TmxCorpus(Corpus):
    """Two languages, such as `("en", "de")`, of a translation memory."""

    text: Text
    languages: tuple[str, str]

    @property
    def texts(self) -> Sequence[Text]:
        """The translation memory."""
        return (self.text,)

    def _raw_pairs(self, tmp_dir: str, bad: BadInput) -> Iterator[Pair]:
        name = self.text.name(tmp_dir)
        return xml_files.tmx_pairs(self.text.pieces(tmp_dir, bad), name, self.languages, bad)


def chained(corpora: Iterable[Corpus], tmp_dir: str, bad: BadInput = STRICT) -> Iterator[Sample]:
    """Downloads all corpora, then returns an iterator over their pairs in sequence."""
    return itertools.chain.from_iterable([corpus.pairs(tmp_dir, bad) for corpus in corpora])


def spread_sample(samples: Iterable[Sample], max_characters: int) -> list[Sample]:
    """Returns every n-th pair, n the least power of 2 that fits into `max_characters`.

    Takes one pass and memory for `max_characters`. The result is deterministic.

    Args:
        samples: any number of pairs.
        max_characters: limit for both sides together; the first pair is kept even if it is longer.
    """
    kept: list[Sample] = []
    step, characters = 1, 0
    for number, sample in enumerate(samples):
        if number % step:
            continue
        kept.append(sample)
        characters += _characters(sample)
        while characters > max_characters and len(kept) > 1:
            step *= 2
            del kept[1::2]
            characters = sum(map(_characters, kept))
    return kept


def _characters(sample: Sample) -> int:
    return len(sample["inputs"]) + len(sample["targets"])


# ---- local files


def find_file(path: str | os.PathLike[str]) -> pathlib.Path | None:
    """Returns the first of `path`, `path.gz` and `path.bz2` that exists, or None."""
    plain = pathlib.Path(path)
    candidates = (plain.with_name(plain.name + suffix) for suffix in ("", ".gz", ".bz2"))
    there = [file for file in candidates if file.is_file()]
    if len(there) > 1:
        _warn_of_others(*there)
    return there[0] if there else None


@functools.cache  # once
def _warn_of_others(found: pathlib.Path, *others: pathlib.Path) -> None:
    names = " and ".join(one.name for one in others)
    log.warning("reading %s and ignoring %s beside it", found, names)


def require_file(path: str | os.PathLike[str], remedy: str) -> pathlib.Path:
    """Returns the result of `find_file`.

    Args:
        path: as in `find_file`.
        remedy: how the message goes on.

    Raises:
        UserError: the file is missing.
    """
    found = find_file(path)
    if found is None:
        raise UserError(f"{path} is missing; {remedy}")
    return found


def existing_files(paths: Iterable[str | os.PathLike[str]]) -> list[pathlib.Path]:
    """Returns the results of `find_file` for those paths that it finds."""
    return [found for path in paths if (found := find_file(path))]


def aligned_pairs(
    inputs_path: str | os.PathLike[str],
    targets_path: str | os.PathLike[str],
    bad: BadInput = STRICT,
) -> Iterator[Sample]:
    """Yields the pairs of two files that are aligned line by line.

    Surrounding white space is stripped. Pairs with an empty side are dropped and counted in the
    log.

    Args:
        inputs_path: UTF-8 file of sources, plain or compressed (`.gz`, `.bz2`).
        targets_path: the same for targets.
        bad: as for `Corpus.pairs`.

    Raises:
        DataError: as `Corpus.pairs`.
    """
    names = f"{os.fspath(inputs_path)} and {os.fspath(targets_path)}"
    inputs, targets = (iterate_lines(path, bad) for path in (inputs_path, targets_path))
    return with_text(aligned(inputs, targets, names, bad), names, bad)


def aligned(
    inputs: Iterator[str], targets: Iterator[str], names: str, bad: BadInput = STRICT
) -> Iterator[Pair]:
    """Yields line n of `inputs` with line n of `targets`.

    Args:
        inputs: lines of sources.
        targets: lines of targets.
        names: the names of both files, for messages.
        bad: receives the errors of both readers; if it skipped the rest of a truncated file, the
            pairs end there.

    Raises:
        DataError: different numbers of lines. Never skipped: a line is missing at an unknown
            place, and every pair after it would be wrong.
    """
    cuts = bad.cuts
    lines = itertools.zip_longest(inputs, targets)
    for number, (source, target) in enumerate(lines, 1):
        if source is None or target is None:
            if bad.cuts > cuts:
                return
            shorter, longer = number - 1, number + sum(1 for _ in lines)
            counts = (longer, shorter) if target is None else (shorter, longer)
            raise DataError(
                f"{names}: {counts[0]} and {counts[1]} lines; both must have the same number, "
                "line n of one belonging to line n of the other"
            )
        yield source, target


def with_text(pairs: Iterable[Pair], name: str, bad: BadInput) -> Iterator[Sample]:
    """Strips white space; drops pairs with an empty or skipped side, and logs their number.

    Raises:
        DataError: no pair is left.
    """
    kept = empty = 0
    for source, target in bad.counted(pairs, name):
        inputs, targets = source.strip(), target.strip()
        if not (has_text(inputs) and has_text(targets)):
            empty += 1
        elif bad.is_usable(source, target):
            kept += 1
            yield {"inputs": inputs, "targets": targets}
    if not kept:
        raise DataError(f"{name}: no pair has text on both sides")
    if empty:
        dropped = f"{empty:,} of {kept + empty:,}"
        log.warning("%s: dropped %s pairs: one side is empty", name, dropped)
    log.info("%s: %s pairs", name, f"{kept:,}")
