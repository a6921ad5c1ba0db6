"""Data generation: samples of a problem become encoded TFRecord files.

Samples go round-robin to the files of a split, as in T2T, so that all files are alike. They are
written under names that no reader looks at; training files are then shuffled, one after the other;
the final names appear when everything is on disk. Memory does not grow with the corpus, only with
one training file.
"""

import contextlib
import itertools
import logging
import pathlib
from collections.abc import Iterable, Iterator

from t2t_lite.data.problem import RANDOM_SEED, DatasetSplit
from t2t_lite.data.records import record_writer, serialize, shuffle_records
from t2t_lite.data.text_problems import Sample, Text2TextProblem
from t2t_lite.errors import DataError
from t2t_lite.files import INCOMPLETE, whole_file
from t2t_lite.progress import progress

log = logging.getLogger(__name__)

# Pairs encoded at a time: enough to keep SentencePiece's threads busy.
_BLOCK = 4096

_EOS_ID = 1


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
        examples = _encode(problem, data_dir, source, samples)
        with progress(f"{problem.base_name} {' and '.join(run)}") as advance:
            _write(examples, files, seed, advance)


def _files(problem: Text2TextProblem, data_dir: str, split: str) -> list[pathlib.Path]:
    return [pathlib.Path(path) for path in problem.filepaths(data_dir, split)]
