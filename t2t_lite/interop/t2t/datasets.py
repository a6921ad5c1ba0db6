"""T2T's lists of data sets, as corpora of this package, and its cleaning of their pairs.

An entry is a list of an address and what it holds, one of

    (member, member)                    two aligned texts, plain, compressed, SGM or XML
    ("tsv", column, column, pattern)    tables: the columns, counted from 0
    ("tmx", member)                     a translation memory of two languages

Members that are in `tmp_dir` already are read from there; others from the archive, which is
looked for in `tmp_dir` and else downloaded. Nothing is unpacked.
"""

import dataclasses
import fnmatch
import functools
import glob
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.data.corpora import archives
from t2t_lite.data.corpora.corpora import (
    AlignedCorpus,
    Corpus,
    RemoteFile,
    Text,
    TmxCorpus,
    TsvCorpus,
    spread_sample,
)
from t2t_lite.errors import DataError, UsageError, UserError, quoted
from t2t_lite.interop.t2t.text_iterators import receiver
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_files import decoded_lines, raw_lines

__all__ = ["clean_en_xx_pairs"]


Entry = Sequence[Any]

_LANGUAGE = re.compile(rb"<tuv\b[^>]*?\blang\s*=\s*[\"']([\w-]+)")
_TABLE, _MEMORY = "tsv", "tmx"


@dataclasses.dataclass(frozen=True)
class LocalFile(RemoteFile):
    """A file that cannot be downloaded: `url` is its path, within `tmp_dir` unless absolute."""

    def path(self, tmp_dir: str) -> pathlib.Path:
        """Returns the path; for an absolute one, T2T's, if there is such a file in `tmp_dir`."""
        copy = pathlib.Path(tmp_dir) / os.path.basename(self.url)
        if os.path.isabs(self.url) and copy.is_file():
            return copy
        return pathlib.Path(tmp_dir) / self.url

    def fetch(self, tmp_dir: str) -> pathlib.Path:
        """Returns the path."""
        path = self.path(tmp_dir)
        if not path.is_file():
            raise UserError(
                f"{path} is missing, and has no address to download it from: put it there"
            )
        return path


class WebFile(RemoteFile):
    """A file whose address may end in a query, such as `?raw=true` or `?f=corpus.zip`."""

    def path(self, tmp_dir: str) -> pathlib.Path:
        """Returns the path: T2T's, with the query, if that exists or says what the file is."""
        folder = pathlib.Path(tmp_dir)
        whole = folder / os.path.basename(self.url)
        if whole.is_file() or archives.is_archive(whole.name) or whole.suffix in (".gz", ".bz2"):
            return whole
        return folder / os.path.basename(self.url.partition("?")[0])


@functools.cache
def _known_files() -> Mapping[str, RemoteFile]:
    """Returns the files whose size or digest is known, by address without its scheme."""
    from t2t_lite.problems import multi30k, translate, wmt

    found = (value for module in (wmt, multi30k, translate) for value in vars(module).values())
    return {file.url.partition("://")[2]: file for file in found if isinstance(file, RemoteFile)}


def remote_file(url: str) -> RemoteFile:
    """Returns the file at an address, with its size and digest if they are known."""
    if not url.startswith(("http://", "https://")):
        return LocalFile(url if os.path.isabs(url) else os.path.basename(url))
    return _known_files().get(url.partition("://")[2]) or WebFile(url)


def text(url: str, member: str, tmp_dir: str) -> Text:
    """Returns a member of the archive at an address, or the file in `tmp_dir`."""
    local = LocalFile(member)
    file = remote_file(url)
    if local.path(tmp_dir).is_file():
        return Text(local)
    name = file.path(tmp_dir).name
    if archives.is_archive(name):
        return Text(file, member)
    return Text(file if name == os.path.basename(member) else local)


def kind_of(entry: Entry) -> str:
    """Returns "tsv", "tmx" or "txt"."""
    match entry:
        case [str(), ["tmx", str()], *_]:
            return _MEMORY
        case [str(), ["tsv", int(), int(), str()], *_]:
            return _TABLE
        case [str(), [str(), str()], *_]:  # T2T, too, reads no more
            return "txt"
    raise UsageError(
        f"data set {quoted(entry)}: expected an address and (file, file), "
        "('tsv', column, column, pattern) or ('tmx', file)"
    )


def listed(entries: Any) -> list[Entry]:
    """Returns the data sets that a problem's method returned, as a list."""
    if not isinstance(entries, Iterable) or isinstance(entries, str | bytes):
        raise UsageError(
            f"source_data_files or vocab_data_files returned {quoted(entries)}: expected a list of "
            "data sets, each an address and its files; return [] for none"
        )
    return list(entries)


def corpora(entry: Entry, tmp_dir: str) -> list[Corpus]:
    """Returns the corpora of an entry; for a table or translation memory, downloads it."""
    kind, (url, content, *_) = kind_of(entry), entry
    if kind == _TABLE:
        _, source, target, pattern = content
        tables = _matching(url, pattern, tmp_dir)
        return [TsvCorpus(table.name(tmp_dir), table, (source, target)) for table in tables]
    texts = [text(url, member, tmp_dir) for member in content[kind == _MEMORY :]]
    if kind == _MEMORY:
        return [TmxCorpus(content[1], texts[0], _languages(texts[0], tmp_dir))]
    return [AlignedCorpus(f"{content[0]} and {content[1]}", *texts)]


def files(entry: Entry, tmp_dir: str) -> list[RemoteFile]:
    """Returns the files that an entry is read from, as far as they are known without reading."""
    kind, (url, content, *_) = kind_of(entry), entry
    if kind == _TABLE:
        return _local(content[3], tmp_dir) or [remote_file(url)]
    members = content[kind == _MEMORY :]
    return list(dict.fromkeys(text(url, member, tmp_dir).file for member in members))


def pairs(entries: Iterable[Entry], tmp_dir: str, clean: Collection[str] = ()) -> Iterator[Sample]:
    """Yields the pairs of data sets in sequence, without those that have an empty side.

    Args:
        entries: the data sets.
        tmp_dir: folder of the files.
        clean: kinds of data set whose pairs are cleaned by `clean_en_xx_pairs`.
    """
    for entry in listed(entries):
        for corpus in corpora(entry, tmp_dir):
            found = corpus.pairs(tmp_dir, receiver())
            if kind_of(entry) not in clean:
                yield from found
                continue
            sides = ((pair["inputs"], pair["targets"]) for pair in found)
            for source, target in clean_en_xx_pairs(sides):
                yield {"inputs": source, "targets": target}


def lines_for_vocab(
    sources: Iterable[Entry], tmp_dir: str, file_byte_budget: float = 1e6
) -> Iterator[str]:
    """Yields lines from which a vocabulary is built: of each text, T2T's sample.

    From texts larger than the budget, every (n + 1)-th line is taken, n the size over twice the
    budget, until the characters taken exceed it.

    Args:
        sources: addresses, each with a list of any number of members, or entries of other kinds.
        tmp_dir: folder of the files.
        file_byte_budget: characters from each text.
    """
    for url, members, *_ in sources:
        if members[0] in (_TABLE, _MEMORY):
            sample = spread_sample(pairs([(url, members)], tmp_dir), int(2 * file_byte_budget))
            yield from (line for pair in sample for line in pair.values())
            continue
        for member in members:
            found = text(url, member, tmp_dir)
            found.file.fetch(tmp_dir)
            yield from _sampled(found, tmp_dir, file_byte_budget)


def _sampled(found: Text, tmp_dir: str, budget: float) -> Iterator[str]:
    name = found.name(tmp_dir)
    skipped = int(sum(map(len, found.pieces(tmp_dir, receiver()))) / budget / 2)
    bad = receiver()
    lines = decoded_lines(raw_lines(found.open(tmp_dir), name, bad), name, bad)
    for number, line in enumerate(lines):
        if number % (skipped + 1) == skipped:
            if budget <= 0:
                return
            budget -= len(line.strip())
            if bad.is_usable(line):
                yield line.strip()


def _local(pattern: str, tmp_dir: str) -> list[RemoteFile]:
    """Returns the files in `tmp_dir` that a pattern names."""
    return [LocalFile(name) for name in sorted(glob.glob(pattern, root_dir=tmp_dir))]


def _matching(url: str, pattern: str, tmp_dir: str) -> list[Text]:
    """Returns the tables that a pattern names in `tmp_dir`, or else in the archive."""
    if local := _local(pattern, tmp_dir):
        return [Text(file) for file in local]
    file = remote_file(url)
    path = file.fetch(tmp_dir)
    if not archives.is_archive(path.name):
        return [Text(file)]
    members = sorted(fnmatch.filter(archives.members(path), pattern))
    if not members:
        raise DataError(f"{path}: no member matches {pattern!r}")
    return [Text(file, member) for member in members]


def _languages(memory: Text, tmp_dir: str) -> tuple[str, str]:
    """Returns the first two languages of a translation memory, which is downloaded.

    Variants such as en_US and en-GB are one language, unless there is no other.
    """
    memory.file.fetch(tmp_dir)
    variants: dict[str, None] = {}
    languages: dict[str, None] = {}
    rest = b""
    for piece in memory.pieces(tmp_dir, receiver()):
        text = rest + piece.replace(b"\0", b"")  # in UTF-16, every other byte of a tag is 0
        tags = (tag.decode().lower().replace("_", "-") for tag in _LANGUAGE.findall(text))
        variants |= dict.fromkeys(tags)
        rest = text[-200:]
        languages = dict.fromkeys(tag.partition("-")[0] for tag in variants)
        if len(languages) >= 2:
            break
    found = list(languages if len(languages) >= 2 else variants)
    if len(found) < 2:
        raise DataError(f"{memory.name(tmp_dir)}: expected text in two languages, got {found}")
    return found[0], found[1]


# ---- cleaning of pairs whose sources are English (`datatypes_to_clean`)

# A pair is kept if its source looks like whole sentences of prose. Where a full stop, question or
# exclamation mark is followed by a capital on both sides equally often, the pair is cut there.
_DOUBLE = '["“”]'
# What a sentence must look like.
_WANTED = (
    re.compile(rf"^{_DOUBLE}?[A-Z]"),  # begins with a capital
    re.compile(r'\w[.?!]["”]?$'),  # ends as a sentence
)
# What it must not contain.
_UNWANTED = (
    re.compile(r"^\w+\.?( \w+)?: "),  # a label, as of a speaker
    re.compile(r"\d +\d"),  # numbers side by side
    re.compile(rf"^[^\"“”]*{_DOUBLE}[^\"“”]*$"),  # a single quotation mark
    re.compile(rf"^{_DOUBLE}.*{_DOUBLE}$"),  # nothing but a quotation
    re.compile(rf"({_DOUBLE}.*){{3,}}"),  # three quotation marks or more
    re.compile(r"(['‘’][^st].*){3,}"),  # three apostrophes that are not 's or 't
    re.compile(r"[\"“”'‘’]\s*[\"“”'‘’]"),  # marks side by side
    re.compile(r"\s[\"“”'‘’,:;]\s"),  # punctuation between spaces
    re.compile(r"©|^Copyright|^\(C\)"),
    re.compile(r"[(][^)]*$"),  # an open bracket
    re.compile(r"^[^(]*[)]"),  # a closing one without
    re.compile(r"^[A-Z]{2,}(\s+[A-Z]+)*\s+-"),  # the place of a news item
    re.compile(r"^[A-Z]+[a-z]*_"),  # an identifier
)
_ENGLISH_BREAK = re.compile(r"(?:(?<=\w[A-Z][.!?])|(?<=[0-9a-z][.!?])) (?=[A-Z])")
_OTHER_BREAK = re.compile(r"(?<=[^0-9][.!?]) (?=[A-Z])")


def clean_en_xx_pairs(en_xx_pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields the clean pairs, cut into sentences; T2T stops with an error where it cuts one."""
    for source, target in en_xx_pairs:
        if not _is_clean(source):
            continue
        sources, targets = _ENGLISH_BREAK.split(source), _OTHER_BREAK.split(target)
        if len(sources) == 1 == len(targets):
            yield source, target
        elif len(sources) == len(targets):
            kept = zip(sources, targets, strict=True)
            yield from ((one, other) for one, other in kept if _is_clean(one))


def _is_clean(sentence: str) -> bool:
    return all(pattern.search(sentence) for pattern in _WANTED) and not any(
        pattern.search(sentence) for pattern in _UNWANTED
    )
