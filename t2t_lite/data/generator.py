"""Data generation: samples of a problem become encoded TFRecord files.

Samples go round-robin to the files of a split, as in T2T, so that all files are alike. They are
written under names that no reader looks at; training files are then shuffled, one after the other;
the final names appear when everything is on disk. Memory does not grow with the corpus.
"""

import contextlib
import itertools
import logging
import pathlib
from collections.abc import Callable, Iterable, Iterator

from t2t_lite.data.problem import RANDOM_SEED, DatasetSplit
from t2t_lite.data.records import record_writer, serialize, shuffle_records
from t2t_lite.data.text_encoder import EOS_ID
from t2t_lite.data.text_problems import Sample, Text2TextProblem
from t2t_lite.errors import DataError
from t2t_lite.files import INCOMPLETE, whole_file
from t2t_lite.progress import progress

log = logging.getLogger(__name__)

# Pairs encoded at a time: enough to keep SentencePiece's threads busy.
_BLOCK = 4096

Advance = Callable[[int], None]


def generate_problem(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, seed: int = RANDOM_SEED
) -> None:
    """Writes the TFRecord files of every split whose files are not all there.

    Args:
        problem: its vocabulary exists already.
        data_dir: folder of the results.
        tmp_dir: folder of the raw files.
        seed: decides the order inside the training files, together with their names.

    Raises:
        DataError: the raw data is unusable, has no samples or one with an empty side.
        OSError: a file cannot be written; nothing half-written stays behind.
    """
    splits = [entry["split"] for entry in problem.splits_to_generate(tmp_dir)]
    runs = [[split] for split in splits] if problem.is_generate_per_split else [splits]
    for run in runs:
        files = {split: _files(problem, data_dir, split) for split in run}
        if all(path.is_file() for paths in files.values() for path in paths):
            log.info("%s: %s files exist, skipped", problem.base_name, " and ".join(run))
            continue
        source = run[0] if problem.is_generate_per_split else DatasetSplit.TRAIN
        samples = problem.generate_samples(data_dir, tmp_dir, source)
        _remove_remains(files)
        with progress(f"{problem.base_name} {' and '.join(run)}") as advance:
            examples = _encode(problem, data_dir, samples, advance)
            _write(examples, files, problem.base_name, seed)


def _files(problem: Text2TextProblem, data_dir: str, split: str) -> list[pathlib.Path]:
    return [pathlib.Path(path) for path in problem.filepaths(data_dir, split)]


def _encode(
    problem: Text2TextProblem, data_dir: str, samples: Iterable[Sample], advance: Advance
) -> Iterator[dict[str, list[int]]]:
    """Yields the ids of each sample, EOS appended to both sides."""
    encoders = problem.feature_encoders(data_dir)
    prefixed = problem.prefixed(samples)
    number = 0
    while block := list(itertools.islice(prefixed, _BLOCK)):
        sources = encoders["inputs"].encode_lines([sample["inputs"] for sample in block])
        targets = encoders["targets"].encode_lines([sample["targets"] for sample in block])
        for source, target in zip(sources, targets, strict=True):
            number += 1
            if not source or not target:
                side = "targets" if source else "inputs"
                raise DataError(
                    f"{problem.base_name}: sample {number}: {side} is empty; "
                    "generate_samples should leave out such pairs"
                )
            yield {"inputs": [*source, EOS_ID], "targets": [*target, EOS_ID]}
        advance(len(block))


def _write(
    examples: Iterable[dict[str, list[int]]],
    files: dict[str, list[pathlib.Path]],
    problem_name: str,
    seed: int,
) -> None:
    """Deals the examples out to the files of some splits, and shuffles those for training."""
    paths = list(itertools.chain.from_iterable(files.values()))
    with contextlib.ExitStack() as all_or_none:
        working = {path: all_or_none.enter_context(whole_file(path)) for path in paths}
        count = _deal(examples, list(working.values()))
        for split, split_paths in files.items():
            if count <= paths.index(split_paths[0]):
                raise DataError(
                    f"{problem_name}: {count} samples are too few, the {split} split stays empty"
                )
        for path in files.get(DatasetSplit.TRAIN, []):
            shuffle_records(working[path], seed=f"{seed}/{path.name}")


def _deal(examples: Iterable[dict[str, list[int]]], paths: list[pathlib.Path]) -> int:
    """Writes the examples round-robin to the files and returns how many there were."""
    count = 0
    with contextlib.ExitStack() as open_files:
        writers = [open_files.enter_context(record_writer(path)) for path in paths]
        for write, example in zip(itertools.cycle(writers), examples, strict=False):
            write(serialize(example))
            count += 1
    return count


def _remove_remains(files: dict[str, list[pathlib.Path]]) -> None:
    """Removes what a killed run left, so that a complete set of names is always of one run."""
    for path in itertools.chain.from_iterable(files.values()):
        stem = path.name.rsplit("-", maxsplit=3)[0]  # without "-00000-of-00010"
        for remains in (path, *path.parent.glob(f"{stem}-*{INCOMPLETE}")):
            remains.unlink(missing_ok=True)
