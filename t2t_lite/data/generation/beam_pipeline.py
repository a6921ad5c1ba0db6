"""Data generation as an Apache Beam pipeline: the same files as `generator`, byte for byte.

As in `generator`, this machine reads the raw text: one sequential pass, a small part of the work.
It builds the vocabulary and writes the text, in portions, into the data folder. From there, the
workers of any Beam runner encode it and write the TFRecord files:

    portions of text -> encoded records of each file -> grouped by file -> the file, shuffled

So only this machine needs the raw files and the problem's class; workers need the data folder, this
package and, if the problem defines its own encoder, that class. The data folder may be on any file
system that Beam supports. Each file appears whole; a worker holds one file in memory while writing
it (Beam's DirectRunner holds all records of a problem, so `generator` suits large data better).
After a failure, the next run generates the missing files.

Needs the extra `beam`.
"""

import contextlib
import dataclasses
import io
import itertools
import json
import logging
import pathlib
import shlex
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from t2t_lite.data.generation import fingerprint
from t2t_lite.data.generation.chunks import Chunk, ExampleEncoder
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.file_groups import FileGroup, file_groups
from t2t_lite.data.generation.findings import Findings
from t2t_lite.data.generation.generator import (
    check_count,
    check_options,
    chunks_of,
    clean_vocabulary_text,
    example_encoder,
    exclusive,
    order_seed,
    prepare,
    read_samples,
)
from t2t_lite.data.records import framed_records, shuffled
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UsageError, UserError
from t2t_lite.files import INCOMPLETE
from t2t_lite.progress import progress

log = logging.getLogger(__name__)


def pipeline_options(runner: str, arguments: str = "") -> PipelineOptions:
    """Returns Beam's options.

    Args:
        runner: Beam's name of the runner, such as "DirectRunner".
        arguments: Beam's own options, as a command line.

    Raises:
        UsageError: Beam does not know the runner or an option.
    """
    given = f"--runner={runner} --beam_options={arguments!r}"
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(shlex.split(arguments), runner=runner)
            options.get_all_options()  # otherwise parsed only when the pipeline starts
            beam.Pipeline(options=options)
    except (ValueError, ImportError) as error:
        raise UsageError(f"{given}: {error}") from None
    except SystemExit:  # argparse printed pages of usage, then the error
        raise UsageError(f"{given}: {complaint.getvalue().splitlines()[-1]}") from None
    return options


def generate_from_samples(
    problem: Text2TextProblem,
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    pipeline: PipelineOptions,
) -> None:
    """Generates the missing vocabulary and TFRecord files of all splits.

    Args:
        problem: what to generate.
        data_dir: folder of the results, on a file system that Beam supports; created if missing.
        tmp_dir: folder of the raw files, on this machine.
        options: how to generate; Beam decides the number of workers.
        pipeline: the result of `pipeline_options`.
    """
    problem.check()
    check_options(problem, options)
    clean_vocabulary_text(problem, options)
    _prepare_folder(data_dir, pipeline)
    with _local_view(data_dir) as view, exclusive(problem, str(view)):
        for member in problem.members:
            with _copied_back(view, data_dir):
                prepare(member, str(view), tmp_dir, options)
        for member in problem.members:
            _write_records(member, data_dir, view, tmp_dir, options, pipeline)


def _write_records(
    problem: Text2TextProblem,
    data_dir: str,
    view: pathlib.Path,
    tmp_dir: str,
    options: DatagenOptions,
    pipeline: PipelineOptions,
) -> None:
    """Writes the missing TFRecord files of a problem that is not a mixture."""
    incomplete = []
    for group in file_groups(problem, str(view), tmp_dir):
        if group.is_complete:
            log.info("%s: all files exist, skipped", group.title)
        else:
            incomplete.append(group)
    remains = f"{problem.dataset_filename()}-*{INCOMPLETE}"
    _delete(_matches(data_dir, remains))
    try:
        encoder = example_encoder(problem, str(view))
        findings = Findings(problem, str(view), tmp_dir, encoder.encoders)
        with _copied_back(view, data_dir):
            tasks = [
                (number, path)
                for number, group in enumerate(incomplete)
                for path in _put_text(problem, group, data_dir, view, tmp_dir, options, findings)
            ]
            findings.write()
        if tasks:
            _run(_Job.of(incomplete, encoder, data_dir, options), tasks, pipeline)
    finally:
        _delete(_matches(data_dir, remains))


@dataclasses.dataclass(frozen=True)
class _Job:
    """The work of Beam's workers.

    Attributes:
        encoder: converts samples to examples.
        data_dir: folder of the results.
        names: names of the files of each group, in the order in which samples are dealt to them.
        seeds: seed of the order of each missing file, by name; None: the order of the samples.
    """

    encoder: ExampleEncoder
    data_dir: str
    names: Sequence[Sequence[str]]
    seeds: Mapping[str, str | None]

    @classmethod
    def of(
        cls,
        groups: Sequence[FileGroup],
        encoder: ExampleEncoder,
        data_dir: str,
        options: DatagenOptions,
    ) -> "_Job":
        """Returns the job that generates the missing files of some groups."""
        seeds = {
            path.name: order_seed(options, group, path)
            for group in groups
            for path in group.files
            if not path.is_file()
        }
        return cls(
            encoder, data_dir, [[path.name for path in group.files] for group in groups], seeds
        )

    def encode(self, task: tuple[int, str]) -> Iterator[tuple[str, tuple[int, bytes]]]:
        """Encodes a portion of text.

        Args:
            task: index of the group of files, and path of the portion.

        Yields:
            For each missing file, its name, the number of the portion's first sample, and the
            framed records, if any.
        """
        group, path = task
        with FileSystems.open(path) as file:
            chunk = Chunk(**json.load(file))
        by_file = self.encoder.encode_chunk(chunk, len(self.names[group]))
        for name, records in zip(self.names[group], by_file, strict=True):
            if name in self.seeds:
                yield name, (chunk.first, b"".join(records))

    def write(self, file: tuple[str, Iterable[tuple[int, bytes]]]) -> None:
        """Writes a file, given its name and all results of `encode` for it, in any order."""
        name, portions = file
        path = FileSystems.join(self.data_dir, name)
        contents: Iterable[bytes] = [records for _, records in sorted(portions)]
        seed = self.seeds[name]
        if seed is not None:
            size = sum(map(len, contents))
            streams = (framed_records(io.BytesIO(records), path) for records in contents)
            records = itertools.chain.from_iterable(streams)
            contents = shuffled(records, size, seed, pathlib.Path(tempfile.gettempdir()))
        _write_whole(path, contents)


def _run(job: _Job, tasks: Sequence[tuple[int, str]], options: PipelineOptions) -> None:
    try:
        with beam.Pipeline(options=options) as pipeline:
            (
                pipeline
                | "List the text" >> beam.Create(tasks)
                | "Distribute to workers" >> beam.Reshuffle()
                | "Encode" >> beam.FlatMap(job.encode)
                | "Group by file" >> beam.GroupByKey()
                | "Write" >> beam.Map(job.write)
            )
    except Exception as error:  # runners raise the worker's exception, or its traceback as text
        *_, reason = str(error).strip().splitlines() or [repr(error)]
        raise UserError(f"the Beam pipeline failed: {reason}") from error


def _put_text(
    problem: Text2TextProblem,
    group: FileGroup,
    data_dir: str,
    view: pathlib.Path,
    tmp_dir: str,
    options: DatagenOptions,
    findings: Findings,
) -> Iterator[str]:
    """Writes a group's samples to files in data_dir, portion by portion; yields the paths."""
    chunks = []
    count = 0
    with progress(group.title) as advance:
        samples = read_samples(problem, str(view), tmp_dir, group.source, options)
        for chunk in findings.watched(group, chunks_of(samples, group)):
            name = f"{group.problem}-{group.source}-text-{chunk.first:012d}{INCOMPLETE}"
            path = FileSystems.join(data_dir, name)
            with FileSystems.create(path) as file:
                file.write(json.dumps(dataclasses.asdict(chunk)).encode())
            yield path
            chunks.append(chunk.name(len(group.files)))
            count += len(chunk)
            advance(len(chunk))
    check_count(group, count, options)
    fingerprint.guard_samples(problem, group, str(view), tmp_dir, options, chunks)


# ---- files, local or remote


def _prepare_folder(path: str, options: PipelineOptions) -> None:
    FileSystems.set_options(options)
    try:
        FileSystems.get_filesystem(path)
    except ValueError as error:
        raise UserError(f"--data_dir={path}: {error}") from None
    if not FileSystems.exists(path):
        FileSystems.mkdirs(path)


@contextlib.contextmanager
def _local_view(data_dir: str) -> Iterator[pathlib.Path]:
    """Yields a local folder that mirrors data_dir, or data_dir itself if it is local.

    The mirror has copies of the small files, and an empty file in place of every other.
    """
    if FileSystems.get_scheme(data_dir) is None:
        yield pathlib.Path(data_dir)
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in _matches(data_dir, "*"):
            copy = pathlib.Path(folder, FileSystems.split(path)[1])
            copy.touch()
            if _is_small(copy):
                with FileSystems.open(path) as file:
                    copy.write_bytes(file.read())
        try:
            yield pathlib.Path(folder)
        except UserError as error:
            raise type(error)(str(error).replace(folder, data_dir)) from None


@contextlib.contextmanager
def _copied_back(view: pathlib.Path, data_dir: str) -> Iterator[None]:
    """Copies to data_dir the small files that the block creates or changes in the view."""
    known = _small_files(view)
    yield
    if FileSystems.get_scheme(data_dir):
        for name, contents in _small_files(view).items():
            if known.get(name) != contents:
                _write_whole(FileSystems.join(data_dir, name), [contents])


def _small_files(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns the contents of the fingerprints, then of the vocabularies.

    They are created in this order: a fingerprint must exist before the files that it guards.
    """
    paths = sorted(filter(_is_small, folder.iterdir()), key=lambda path: path.suffix != ".json")
    return {path.name: path.read_bytes() for path in paths}


def _is_small(path: pathlib.Path) -> bool:
    return path.name.startswith("vocab.") or path.name.endswith(
        (".fingerprint.json", ".findings.json")
    )


def _write_whole(path: str, contents: Iterable[bytes]) -> None:
    """Writes a file atomically, even if a runner lets two workers write it at once."""
    temporary = f"{path}-{uuid.uuid4().hex}{INCOMPLETE}"
    with FileSystems.create(temporary) as file:
        for part in contents:
            file.write(part)
    if FileSystems.exists(path):  # some file systems cannot rename to an existing name
        _delete([path])
    FileSystems.rename([temporary], [path])


def _delete(paths: Iterable[str]) -> None:
    # Beam's own `delete` takes paths as patterns, and has no way to escape them.
    for path in paths:
        if FileSystems.get_scheme(path) is None:
            pathlib.Path(path).unlink()
        else:
            FileSystems.delete([path])


def _matches(folder: str, pattern: str) -> list[str]:
    """Returns the files, not the folders: generation without a runner leaves those of chunks."""
    if FileSystems.get_scheme(folder) is None:
        return [str(path) for path in pathlib.Path(folder).glob(pattern) if path.is_file()]
    (found,) = FileSystems.match([FileSystems.join(folder, pattern)])
    return [metadata.path for metadata in found.metadata_list]
