"""Fingerprints: record what data was generated from, so that stale files are never used.

They are the part of kept_work.py's mechanism for data, which many sources and options make.
`{data_dir}/{problem}.fingerprint.json` has an entry for the vocabulary and one for each split (one
for all splits if a problem spreads its samples over them). An entry is written before the first of
its files, so that the files of a killed run are guarded, too. The entry of a split has a digest of
the samples themselves, for problems that do not declare which files they read. Files without an
entry, such as T2T's own data or a vocabulary supplied by the user, are used as they are; deleting
the fingerprint turns all existing files into such files.
"""

import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import logging
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite import files, json_files
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.extended_vocabulary import vocabulary_to_extend
from t2t_lite.data.generation.file_groups import ALL_SPLITS, FileGroup, file_groups
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, Problem
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, UserError
from t2t_lite.kept_work import Fingerprint, contents
from t2t_lite.text import text_files
from t2t_lite.text.text_encoder import VocabType
from t2t_lite.version import __version__

log = logging.getLogger(__name__)

_PACKED = (".gz", ".bz2")  # what the name of a source may end in as well
_PIECE = 2**20  # bytes of a source that are read at once


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file that data is generated from."""

    size: int  # bytes
    sha256: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """What some files are generated from."""

    sources: dict[str, SourceFile]  # by path, relative to tmp_dir if inside it
    options: dict[str, Any]
    vocabulary: dict[str, str]  # SHA-256 of the vocabulary files, by name; "": not built yet
    versions: dict[str, str]  # of the packages that affect the data
    samples: str = ""  # digest of the samples; "": not known yet


_SOURCE_KINDS = {"size": int, "sha256": str}
_ENTRY_KINDS = {
    "sources": dict,
    "options": dict,
    "vocabulary": dict,
    "versions": dict,
    "samples": str,
}


@dataclasses.dataclass(frozen=True)
class _Part:
    """The files that one entry describes.

    Attributes:
        name: name of the entry.
        patterns: glob patterns of these files in the data folder, finished or not.
        is_complete: whether all of them exist.
        sources: the files they are generated from, as far as these exist.
        options: the options they are generated with.
        vocabulary: the vocabulary they are encoded with, as in `Entry`.
        dependents: glob patterns of the files that are generated from these.
        takes_incomplete: whether an incomplete set of files without an entry is accepted.
    """

    name: str
    patterns: Sequence[str]
    is_complete: bool
    sources: Sequence[pathlib.Path]
    options: dict[str, Any]
    vocabulary: dict[str, str] = dataclasses.field(default_factory=dict)
    dependents: Sequence[str] = ()
    takes_incomplete: bool = False


def guard_vocabulary(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, options: DatagenOptions
) -> Fingerprint:
    """Records what the vocabulary is built from; call it before building or using one.

    Downloads the vocabulary's sources if it is missing. For a problem that uses another's
    vocabulary, the entry belongs to the other.

    Returns:
        The fingerprint of the files that it is built from; of none if it is not built here.

    Raises:
        UserError: it was built from other sources or with other options; the message names them.
    """
    generated_by = problem.generated_by
    while other := problem.use_vocab_from_other_problem:
        problem = other
    names = problem.vocab_files()
    is_complete = all((pathlib.Path(data_dir) / name).is_file() for name in names)
    if not is_complete:
        problem.fetch_sources(tmp_dir, DatasetSplit.TRAIN)
    sources = problem.vocab_source_files(tmp_dir)
    is_given = problem.vocab_type in (VocabType.TOKEN, VocabType.IMPORTED)
    if not names or (is_given and not sources):
        return Fingerprint(())  # there is no vocabulary, or the user supplies it
    extended = vocabulary_to_extend(problem, options)
    read = Fingerprint(() if is_complete else [*sources, *filter(None, [extended])])
    extension = {"extend_vocab": files.digest(extended) if extended else ""}
    cleaning = {}
    if problem.base_name == generated_by and not is_given:  # another's text is not cleaned
        cleaning = {"clean": str(options.cleaning), "pair_scores": _scores(options)}
    part = _Part(
        name="vocabulary",
        patterns=names,
        is_complete=is_complete,
        sources=sources,
        options=_options(problem, options) | problem.vocab_settings | extension | cleaning,
        dependents=[f"{problem.dataset_filename()}-*"],
        takes_incomplete=True,  # the user may supply one of two vocabularies
    )
    _guard(problem.dataset_filename(), data_dir, tmp_dir, [part])
    return read


def guard_splits(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, options: DatagenOptions
) -> None:
    """Records what the TFRecord files are generated from; call it before writing or keeping any.

    The sources of missing files must exist. A missing vocabulary is omitted; once it has been
    built, call this again.

    Raises:
        UserError: some were generated from other sources, options or vocabularies, which the
            message names; or files without an entry are incomplete.
    """
    vocabulary = _vocabulary(problem, data_dir)
    read = _beside_the_text(options)
    parts = []
    for group in file_groups(problem, data_dir, tmp_dir):
        is_training = group.source == DatasetSplit.TRAIN
        shards = collections.Counter(SPLIT_FILE_NAMES[split] for split in group.files.values())
        settings = {
            "shards": dict(shards),
            "clean": str(options.cleaning) if is_training else "",
            **{name: digest if is_training else "" for name, digest in read.items()},
            "max_cases": options.max_cases,
            "already_shuffled": is_training and group.keeps_order,
            **problem.encoding_settings,
            **problem.split_settings(tmp_dir),
        }
        part = _Part(
            name=group.name,
            patterns=_patterns(group),
            is_complete=group.is_complete,
            sources=problem.source_files(tmp_dir, group.source),
            options=_options(problem, options) | settings,
            vocabulary=vocabulary,
        )
        parts.append(part)
    _guard(problem.dataset_filename(), data_dir, tmp_dir, parts)


def guard_samples(
    problem: Text2TextProblem,
    group: FileGroup,
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    chunks: Iterable[str],
) -> None:
    """Records the digest of a group's samples; call it before writing the first of its files.

    Args:
        problem: the problem of the group.
        group: the files; they have an entry if they are guarded at all.
        data_dir: folder of the fingerprint.
        tmp_dir: folder of the raw files.
        options: how the files are generated.
        chunks: `Chunk.name` of all chunks of the samples.

    Raises:
        UserError: some files exist that were not generated from these samples; or a file that was
            read for them has been replaced meanwhile.
    """
    path = _path(group.problem, data_dir)
    entries = _read(path)
    if group.name not in entries:
        return
    entry = entries[group.name]
    _require_unchanged(problem, group, entry, data_dir, tmp_dir, options)
    samples = hashlib.blake2b(" ".join(chunks).encode(), digest_size=16).hexdigest()
    if entry.samples == samples:
        return
    if any(file.is_file() for file in group.files):
        raise UserError(
            f"{data_dir} has a part of {group.title} generated from other samples than "
            "generate_samples yields now. Restore what it read then, or delete "
            f"{', '.join(_patterns(group))} there (rm -r) to regenerate them, or name another "
            "--data_dir"
        )
    entries[group.name] = dataclasses.replace(entry, samples=samples)
    _write(path, entries)


def _require_unchanged(
    problem: Text2TextProblem,
    group: FileGroup,
    entry: Entry,
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
) -> None:
    """Raises UserError if a file that a group's samples were read from is not as in its entry."""
    paths = problem.source_files(tmp_dir, group.source)
    then = {name: source.sha256 for name, source in entry.sources.items()} | entry.vocabulary
    now = {n: source.sha256 for n, source in _sources(paths, tmp_dir).items()}
    now |= _vocabulary(problem, data_dir)
    for name, digest in _beside_the_text(options).items():
        if recorded := entry.options.get(name):
            then[f"--{name}"], now[f"--{name}"] = recorded, digest
    if changed := [name for name in then | now if then.get(name) != now.get(name)]:
        raise UserError(
            f"{', '.join(changed)}: replaced while {group.title} was generated from it, so that "
            "none of it is kept: run the command again"
        )


def training_digest(problem: Problem, data_dir: str) -> str:
    """Returns a digest of what the training files were generated from; "" without a fingerprint.

    It changes only if they do: it ignores the times of their sources and the other splits.
    """
    digests = [_training_digest(member, data_dir) for member in problem.members]
    if len(digests) == 1 or not any(digests):
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _training_digest(problem: Problem, data_dir: str) -> str:
    entries = _read(_path(problem.dataset_filename(), data_dir))
    entry = entries.get(SPLIT_FILE_NAMES[DatasetSplit.TRAIN]) or entries.get(ALL_SPLITS)
    if entry is None:
        return ""
    fields = dataclasses.asdict(entry)
    fields["sources"] = {name: source.sha256 for name, source in entry.sources.items()}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _patterns(group: FileGroup) -> list[str]:
    """Returns glob patterns of the files of a group, finished or not."""
    splits = dict.fromkeys(group.files.values())
    return [f"{group.problem}-{SPLIT_FILE_NAMES[split]}-*" for split in splits]


def _vocabulary(problem: Text2TextProblem, data_dir: str) -> dict[str, str]:
    """Returns the digests of the vocabulary's files by name; "" for one that is missing."""
    paths = {name: pathlib.Path(data_dir) / name for name in problem.vocab_files()}
    return {name: files.digest(p) if p.is_file() else "" for name, p in paths.items()}


def _beside_the_text(options: DatagenOptions) -> dict[str, str]:
    """Returns the digests of the files that are read beside the training text, by their options."""
    made_here = options.makes_alignments
    return {
        "alignments": options.alignments if made_here else contents(options.alignments),
        "pair_scores": _scores(options),
    }


def _scores(options: DatagenOptions) -> str:
    """Returns the digest of the file of scores; "" without one."""
    return contents(options.pair_scores) if options.pair_scores else ""


def _options(problem: Text2TextProblem, options: DatagenOptions) -> dict[str, Any]:
    """Returns the options that every entry records."""
    return {
        "problem": type(problem).__qualname__,  # its module may be renamed
        "vocab_type": problem.vocab_type,
        "approx_vocab_size": problem.approx_vocab_size,
        "skip_bad": options.skip_bad,
        "random_seed": options.random_seed,
    }


def _guard(base_name: str, data_dir: str, tmp_dir: str, parts: Iterable[_Part]) -> None:
    """Compares the parts with their entries, then updates the entries."""
    folder = pathlib.Path(data_dir)
    path = _path(base_name, data_dir)
    then = _read(path)
    now = dict(then)
    changes: list[str] = []
    stale: list[str] = []
    for part in parts:
        is_there = any(any(folder.glob(pattern)) for pattern in part.patterns)
        made_from = then.get(part.name) if is_there else None
        if is_there and made_from is None:
            _take_as_is(part, folder)
            continue
        sources = _sources(part.sources, tmp_dir)
        entry = Entry(sources, part.options, part.vocabulary, _versions())
        if made_from is not None:
            if differences := list(_differences(made_from, entry, part.is_complete, tmp_dir)):
                changes += differences
                stale += [*part.patterns, *part.dependents]
            _compare_versions(made_from, entry, part, folder)
            if part.is_complete:  # some sources may be gone, and the options no longer matter
                still = {name: sources.get(name, old) for name, old in made_from.sources.items()}
                entry = dataclasses.replace(made_from, sources=still)
            else:
                entry = dataclasses.replace(made_from, sources=entry.sources, options=entry.options)
        now[part.name] = entry
    if changes:
        raise UserError(
            f"{data_dir} has data of {base_name} generated from something else "
            f"(there -> now): {'; '.join(dict.fromkeys(changes))}. Restore that, or delete "
            f"{', '.join(dict.fromkeys(stale))} there (rm -r) to regenerate them, or name "
            "another --data_dir"
        )
    if now != then:
        _write(path, now)


def _differences(there: Entry, now: Entry, is_complete: bool, tmp_dir: str) -> Iterator[str]:
    """Yields the differences between two entries, except versions."""
    # Once all files are generated, their sources may be deleted, compressed or extracted.
    may_differ = is_complete and not there.sources.keys() <= now.sources.keys()
    for name in there.sources | now.sources:
        old, new = there.sources.get(name), now.sources.get(name)
        if old is None or new is None:
            if not may_differ:
                yield f"{name}: {'new' if old is None else 'missing'}"
            elif old is None and _has_other_text(name, there.sources, tmp_dir):
                yield f"{name}: other contents"
        elif old.size != new.size:
            yield f"{name}: {old.size} -> {new.size} bytes"
        elif old.sha256 != new.sha256:
            yield f"{name}: other contents"
    # An older release may not have recorded all options; those of raw files may go with them.
    for name in there.options.keys() & now.options.keys():
        old_value, new_value = there.options[name], now.options[name]
        # Data generated without errors is the same with skip_bad.
        if old_value != new_value and (name, new_value) != ("skip_bad", True):
            yield f"{name}: {old_value!r} -> {new_value!r}"
    for name in there.vocabulary | now.vocabulary:
        if now.vocabulary.get(name) not in (there.vocabulary.get(name), ""):
            yield f"vocabulary {name}: other contents"


def _has_other_text(name: str, there: Mapping[str, SourceFile], tmp_dir: str) -> bool:
    """Whether a new file stands for one that was compressed otherwise, but with another text.

    The text of one that was compressed is not known: another form of it is another text.
    """
    plain = pathlib.PurePath(name).with_suffix("") if name.endswith(_PACKED) else name
    forms = [form for suffix in ("", *_PACKED) if (form := f"{plain}{suffix}") in there]
    if not forms:
        return False
    try:
        with text_files.open_file(pathlib.Path(tmp_dir, name)) as file:
            text = hashlib.sha256()
            for piece in iter(functools.partial(file.read, _PIECE), b""):
                text.update(piece)
    except (DataError, *text_files.DAMAGE):
        return True
    return all(there[form].sha256 != text.hexdigest() for form in forms)


def _compare_versions(there: Entry, now: Entry, part: _Part, folder: pathlib.Path) -> None:
    for package, version in now.versions.items():
        if there.versions.get(package) != version:
            log.warning(
                "%s in %s: generated with %s %s, this is %s",
                ", ".join(part.patterns),
                folder,
                package,
                there.versions.get(package),
                version,
            )


def _take_as_is(part: _Part, folder: pathlib.Path) -> None:
    names = ", ".join(part.patterns)
    if not (part.is_complete or part.takes_incomplete):
        raise UserError(
            f"{folder}: {names} are incomplete, and no fingerprint records what the existing "
            "files were generated from; delete them to regenerate them, or name another --data_dir"
        )
    log.info("%s in %s: no fingerprint records their sources; kept", names, folder)


def _sources(paths: Iterable[pathlib.Path], tmp_dir: str) -> dict[str, SourceFile]:
    """Returns the files by name."""
    sources = {}
    for path in paths:
        name = str(path.relative_to(tmp_dir) if path.is_relative_to(tmp_dir) else path.absolute())
        sources[name] = SourceFile(path.stat().st_size, contents(path))
    return sources


def _versions() -> dict[str, str]:
    return {"t2t_lite": __version__, "sentencepiece": importlib.metadata.version("sentencepiece")}


def _path(base_name: str, data_dir: str) -> pathlib.Path:
    return pathlib.Path(data_dir) / f"{base_name}.fingerprint.json"


def _write(path: pathlib.Path, entries: Mapping[str, Entry]) -> None:
    fields = {name: dataclasses.asdict(entry) for name, entry in entries.items()}
    files.write_text(path, json.dumps(fields, indent=1) + "\n")


def _read(path: pathlib.Path) -> dict[str, Entry]:
    if not path.is_file():
        return {}
    try:
        entries = json_files.parse_object(path.read_bytes())
        return {name: _entry(path, fields) for name, fields in entries.items()}
    except (ValueError, TypeError, UserError) as error:
        raise UserError(
            f"{path}: not a fingerprint ({str(error)[:100]}); delete it to keep the data beside "
            "it, or delete both to regenerate the data"
        ) from None


def _entry(path: pathlib.Path, fields: Mapping[str, Any]) -> Entry:
    entry = json_files.Fields(path, fields)
    entry.check(_ENTRY_KINDS)
    sources = {}
    for name, source in entry["sources"].items():
        found = json_files.Fields(path, source)
        found.check(_SOURCE_KINDS)
        sources[name] = SourceFile(found["size"], found["sha256"])
    for names in ("vocabulary", "versions"):
        json_files.Fields(path, entry[names]).check(dict.fromkeys(entry[names], str))
    return Entry(**entry | {"sources": sources})
