"""Data generation: encodes the samples of a problem into TFRecord files.

Samples are dealt round-robin to the files of a split, as in T2T, so that all files are alike. This
process reads them in chunks, which it and worker processes encode into chunk files; these are then
merged, and shuffled for training. Neither the number of workers nor an interruption changes a byte:
finished work is kept, and the next run completes it. Memory does not grow with the corpus; on disk,
the records take twice their size until a split is finished.
"""

import contextlib
import functools
import itertools
import logging
import operator
import pathlib
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from t2t_lite.data.generation import fingerprint
from t2t_lite.data.generation.aligned_examples import (
    AligningExampleEncoder,
    trained_aligner,
    with_alignments,
)
from t2t_lite.data.generation.chunks import (
    Chunk,
    ChunkFolder,
    ExampleEncoder,
    IdExampleEncoder,
    Shard,
    ids_as_text,
)
from t2t_lite.data.generation.cleaning import clean
from t2t_lite.data.generation.config import MADE_HERE, DatagenOptions
from t2t_lite.data.generation.extended_vocabulary import extend_vocabulary, vocabulary_to_extend
from t2t_lite.data.generation.file_groups import FileGroup, file_groups
from t2t_lite.data.generation.findings import Findings
from t2t_lite.data.generation.workers import Workers, garbage_collector_paused
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, Problem
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.files import INCOMPLETE
from t2t_lite.kept_work import Fingerprint
from t2t_lite.lock import locked
from t2t_lite.progress import progress
from t2t_lite.text.alignment.id_links import LINKS_IGNORED
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.sample import Sample

log = logging.getLogger(__name__)

# Samples per chunk: many, since each chunk becomes a file.
_CHUNK = 2048

# Members that T2T calls, and what takes their place: here, nothing would call them.
_OF_T2T = {"generate_data": "write_files", "get_or_create_vocab": "build_vocab"}


def generate_data(
    problem: Problem, data_dir: str, tmp_dir: str, options: DatagenOptions | None = None
) -> None:
    """Generates the missing vocabulary and TFRecord files of a problem.

    Args:
        problem: what to generate; if its class overrides `write_files`, that is called.
        data_dir: folder of the results; created if missing.
        tmp_dir: folder of the raw files and downloads.
        options: how to generate; None: the defaults.

    Raises:
        UserError: a raw file is not available; existing data was generated from something else;
            another process is generating it; or a worker process died.
        DataError: the raw data is unusable.
        UsageError: a member of the problem's class has a value that it cannot have.
        OSError: a file cannot be written.
    """
    options = options or DatagenOptions()
    for name, ours in _OF_T2T.items():
        if hasattr(problem, name):
            raise UsageError(
                f"{type(problem).__name__} defines {name}, which is T2T's: define {ours}, or "
                "derive the class from T2T's (import tensor2tensor.data_generators.text_problems)"
            )
    if isinstance(problem, Text2TextProblem) and not problem.writes_files:
        generate_from_samples(problem, data_dir, tmp_dir, options)
    elif options.max_cases:
        raise UsageError(
            f"--max_cases: {problem.base_name!r} writes its files itself: leave it out, and stop "
            "early there"
        )
    else:
        problem.write_files(data_dir, tmp_dir, options)


def generate_from_samples(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, options: DatagenOptions
) -> None:
    """Does what `generate_data` does for a class that does not override `write_files`."""
    problem.check()
    check_options(problem, options)
    clean_vocabulary_text(problem, options)
    with exclusive(problem, data_dir):
        for member in problem.members:
            prepare(member, data_dir, tmp_dir, options)
        for member in problem.members:
            write_records(member, data_dir, tmp_dir, options)


@contextlib.contextmanager
def exclusive(problem: Text2TextProblem, data_dir: str) -> Iterator[None]:
    """Keeps other processes from generating a problem, and one whose vocabulary it uses.

    On a file system without locks, a warning is logged.

    Args:
        problem: the problem whose files are generated within the block.
        data_dir: their folder; created if missing.
    """
    folder = pathlib.Path(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    names = [problem.dataset_filename()]
    while other := problem.use_vocab_from_other_problem:
        problem = other
        names.append(problem.dataset_filename())
    with contextlib.ExitStack() as locks:
        for name in dict.fromkeys(names):
            doing = f"is generating {name} in {folder}"
            locks.enter_context(locked(folder / f".{name}.lock", "t2t-datagen", doing))
        yield


def prepare(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, options: DatagenOptions
) -> None:
    """Downloads the raw files, builds the vocabulary, and records what the data comes from."""
    problem.bad_input = BadInput(skip=options.skip_bad)
    vocabulary_to_extend(problem, options)
    for entry in problem.splits_to_generate(tmp_dir):
        paths = problem.filepaths(data_dir, entry["split"])
        if not all(pathlib.Path(path).is_file() for path in paths):
            # An unavailable file is reported now, not after hours of work on the training data.
            problem.fetch_sources(tmp_dir, entry["split"])
    read = fingerprint.guard_vocabulary(problem, data_dir, tmp_dir, options)
    fingerprint.guard_splits(problem, data_dir, tmp_dir, options)
    vocabulary = [pathlib.Path(data_dir) / name for name in problem.vocab_files()]
    missing = [path for path in vocabulary if not path.is_file()]
    seed_random(options, DatasetSplit.TRAIN)
    extend_vocabulary(problem, data_dir, tmp_dir, options)
    if not problem.encodes_samples:
        problem.build_vocab(data_dir, tmp_dir)
    elif missing:  # the first sample needs it
        next(iter(problem.generate_encoded_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)), None)
    if missing:
        _require_unchanged(read, missing)
        fingerprint.guard_splits(problem, data_dir, tmp_dir, options)


def _require_unchanged(read: Fingerprint, made: Iterable[pathlib.Path]) -> None:
    """Checks that the files are as they were before a vocabulary was built; else deletes it."""
    try:
        read.require_unchanged()
    except UserError:
        for path in made:
            path.unlink(missing_ok=True)
        raise


def read_samples(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, split: str, options: DatagenOptions
) -> Iterator[Sample]:
    """Yields the samples of a split ready to be encoded: cleaned for training, and prefixed."""
    seed_random(options, split)
    most = options.max_cases or None
    if problem.encodes_samples:
        encoded = problem.generate_encoded_samples(data_dir, tmp_dir, split)
        as_text = ids_as_text(
            encoded,
            problem.base_name,
            problem.sides,
            problem.float_sides,
            problem.further_features,
        )
        return itertools.islice(as_text, most)
    samples: Iterable[Sample] = problem.text_samples(data_dir, tmp_dir, split)
    if split == DatasetSplit.TRAIN and not options.makes_alignments:
        samples = with_alignments(samples, options.alignments)
    samples = itertools.islice(samples, most)
    if split == DatasetSplit.TRAIN:
        samples = clean(
            *(samples, options.cleaning, problem.base_name, options.scores()),
            sides=problem.sides_of_words,
            is_whole=most is None,
        )
    return problem.prefixed(samples)


def check_options(problem: Text2TextProblem, options: DatagenOptions) -> None:
    """Raises UsageError if the options do not suit a member of a problem: before any work."""
    for member in problem.members:
        check_further_features(member)
        check_cleaning(member, options)
        check_alignments(member, options)


def check_further_features(problem: Text2TextProblem) -> None:
    """Raises UsageError if nothing would put the further features into examples."""
    if problem.further_features and not problem.encodes_samples:
        raise UsageError(
            f"{problem.base_name!r} declares further_features "
            f"({', '.join(problem.further_features)}), but only generate_encoded_samples can yield "
            "them: define that method as well"
        )


def check_cleaning(problem: Text2TextProblem, options: DatagenOptions) -> None:
    """Raises UsageError if the rules of `--clean` do not suit the problem."""
    if problem.encodes_samples and options.clean:
        raise UsageError(
            f"--clean reads text, but {problem.base_name!r} encodes its samples itself "
            "(generate_encoded_samples): clean them there"
        )
    if options.pair_scores and problem.generated_by != problem.base_name:
        raise UsageError(
            f"--pair_scores: {problem.generated_by!r} has several problems, of which a file of "
            "scores cannot be: leave out the flag, and clean each problem's text first"
        )
    if options.cleaning.max_ratio is not None and len(problem.sides_of_words) < len(problem.sides):
        raise UsageError(
            "--clean: max_ratio would compare the lengths of a text and its label, numbers or "
            f"tree, which {problem.base_name!r} has: leave it out"
        )


def check_alignments(problem: Text2TextProblem, options: DatagenOptions) -> None:
    """Raises UsageError if the problem's pairs cannot have alignments."""
    if not options.alignments:
        return
    if problem.encodes_samples or not problem.reads_pairs or not problem.has_text_targets:
        raise UsageError(
            f"--alignments: {problem.base_name!r} has no pairs of texts that translate each other "
            "word by word: leave it out"
        )
    if not options.makes_alignments and problem.generated_by != problem.base_name:
        raise UsageError(
            f"--alignments: {problem.generated_by!r} has several problems, of which a file of "
            f"alignments cannot be: use --alignments={MADE_HERE}"
        )
    if not options.makes_alignments and (problem.inputs_prefix or problem.targets_prefix):
        raise UsageError(
            f"--alignments: {problem.base_name!r} puts a text before each side, which a file of "
            f"alignments does not know: use --alignments={MADE_HERE}"
        )


def clean_vocabulary_text(problem: Text2TextProblem, options: DatagenOptions) -> None:
    """Sees to it that vocabularies are built from the pairs that `--clean` keeps.

    The vocabulary of another problem is not: the rules are for the text of this one.
    """

    def kept(samples: Iterable[Sample], member: Text2TextProblem) -> Iterator[Sample]:
        name, sides = f"the vocabulary of {member.base_name}", member.sides_of_words
        return clean(samples, options.cleaning, name, options.scores(), sides=sides)

    for member in problem.members:
        member.kept = functools.partial(kept, member=member)


def seed_random(options: DatagenOptions, split: str) -> None:
    """Seeds Python's and NumPy's global random numbers, which some problems use.

    Call it before reading a split, so that the split does not depend on earlier draws.
    """
    seed = f"{options.random_seed}/{split}"
    random.seed(seed)
    np.random.seed(list(seed.encode()))


def write_records(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, options: DatagenOptions
) -> None:
    """Writes the missing TFRecord files.

    Args:
        problem: what to generate; its vocabulary must exist.
        data_dir: folder of the results.
        tmp_dir: folder of the raw files.
        options: how to generate.
    """
    encoder = example_encoder(problem, data_dir)
    findings = Findings(problem, data_dir, tmp_dir, encoder.encoders)
    for group in file_groups(problem, data_dir, tmp_dir):
        name = f"{group.problem}-{SPLIT_FILE_NAMES[group.source]}-chunks{INCOMPLETE}"
        path = pathlib.Path(data_dir, name)
        if group.is_complete:
            log.info("%s: all files exist, skipped", group.title)
        else:
            _remove_remains(group)

            def samples(source: str = group.source) -> Iterator[Sample]:
                return read_samples(problem, data_dir, tmp_dir, source, options)

            own = encoder
            if options.alignments and group.source == DatasetSplit.TRAIN:
                own = _aligning_encoder(problem, encoder, samples(), options)
            folder = ChunkFolder(own, path, len(group.files))
            guard = functools.partial(
                fingerprint.guard_samples, problem, group, data_dir, tmp_dir, options
            )
            _generate(group, samples(), folder, options, findings, guard)
        shutil.rmtree(path, ignore_errors=True)


def _aligning_encoder(
    problem: Text2TextProblem,
    encoder: ExampleEncoder,
    samples: Iterator[Sample],
    options: DatagenOptions,
) -> ExampleEncoder:
    """Returns an encoder that adds alignments; trains an aligner if it is to make them."""
    aligner = None
    if options.makes_alignments:
        aligner = trained_aligner(samples, encoder.encoders)
    return AligningExampleEncoder(problem.base_name, encoder.encoders, aligner)


def example_encoder(problem: Text2TextProblem, data_dir: str) -> ExampleEncoder:
    """Returns the encoder of what `read_samples` yields."""
    if problem.encodes_samples:
        return IdExampleEncoder(problem.base_name, problem.sides, problem.float_sides)
    encoders = problem.feature_encoders(data_dir)
    return ExampleEncoder(problem.base_name, encoders, problem.float_sides)


def _generate(
    group: FileGroup,
    samples: Iterator[Sample],
    folder: ChunkFolder,
    options: DatagenOptions,
    findings: Findings,
    guard: Callable[[Iterable[str]], None],
) -> None:
    """Writes the missing files of a group; `guard` checks the names of the chunks before."""
    found = sum(path.suffix != INCOMPLETE for path in folder.path.glob("*"))
    if found:
        log.info("%s: found %d finished chunks of %d samples", group.title, found, _CHUNK)
    with Workers(folder, folder.path, options.num_workers) as workers:
        chunks = []
        count = unlinked = 0
        sizes = [0] * len(group.files)
        with progress(group.title) as advance:
            texts = findings.watched(group, chunks_of(samples, group))
            for chunk in workers.map(ChunkFolder.write_chunk, texts):
                chunks.append(chunk.name)
                count += chunk.samples
                unlinked += chunk.unlinked
                sizes = list(map(operator.add, sizes, chunk.sizes))
                advance(chunk.samples if chunk.is_new else 0)
        if unlinked:
            log.warning(LINKS_IGNORED, group.title, unlinked, f"--alignments={MADE_HERE}")
        check_count(group, count, options)
        guard(chunks)
        findings.write()  # before files that a later run would not look at again
        shards = [
            Shard(index, path, sizes[index], chunks, order_seed(options, group, path))
            for index, path in enumerate(group.files)
            if not path.is_file()
        ]
        with progress(group.title, len(shards), "files") as advance:
            for _ in workers.map(ChunkFolder.write_shard, shards, here=len(chunks) == 1):
                advance(1)


def chunks_of(samples: Iterator[Sample], group: FileGroup) -> Iterator[Chunk]:
    """Yields the samples of a group in chunks; warns of sides that are empty."""
    of_split = group.sides if group.source != DatasetSplit.TRAIN else ()
    may_be_empty = *of_split, *group.without_text
    empty = Counter[str]()
    for first in itertools.count(0, _CHUNK):
        with garbage_collector_paused():
            block = list(itertools.islice(samples, _CHUNK))
        if not block:
            break
        inputs = [sample["inputs"] for sample in block]
        targets = [sample["targets"] for sample in block]
        empty.update(side for sample in block for side in group.sides if not sample[side])
        names = sorted(block[0].keys() - {"inputs", "targets"})
        further = {name: [sample[name] for sample in block] for name in names}
        yield Chunk(first, inputs, targets, may_be_empty, further)
    for side, count in empty.items():
        if side in of_split and side not in group.without_text:
            log.warning("%s: %d %s are empty: written as EOS alone", group.title, count, side)


def check_count(group: FileGroup, count: int, options: DatagenOptions) -> None:
    """Raises DataError if a split receives no sample."""
    hint = f"; raise --max_cases (now {count})" if count == options.max_cases else ""
    splits = list(group.files.values())
    for split in dict.fromkeys(splits):
        if count <= splits.index(split):
            raise DataError(
                f"{group.title}: {count} samples are too few: the {split} split would be "
                f"empty{hint}"
            )


def order_seed(options: DatagenOptions, group: FileGroup, path: pathlib.Path) -> str | None:
    """Returns the seed of a file's order; None: the order of the samples."""
    keeps_order = group.keeps_order or group.files[path] != DatasetSplit.TRAIN
    return None if keeps_order else f"{options.random_seed}/{path.name}"


def _remove_remains(group: FileGroup) -> None:
    """Removes partial files of a killed run, even one with another number of files."""
    for path in group.files:
        stem = path.name.rsplit("-", maxsplit=3)[0]  # without "-00000-of-00010"
        for remains in path.parent.glob(f"{stem}-*-of-*{INCOMPLETE}"):
            remains.unlink()
