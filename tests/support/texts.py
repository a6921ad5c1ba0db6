"""Pairs of texts: as samples, as files of lines, and back from records."""

import pathlib
from collections.abc import Iterable, Mapping

from t2t_lite.data import records
from t2t_lite.data.problem import Problem


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> pathlib.Path:
    """Writes a file of lines; returns its path."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def pairs_of(samples: Iterable[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Returns inputs and targets of samples."""
    return [(sample["inputs"], sample["targets"]) for sample in samples]


def decoded_pairs(problem: Problem, data_dir: pathlib.Path, split: str) -> list[tuple[str, str]]:
    """Returns the inputs and targets of a generated split, in the order of its records."""
    encoders = problem.get_feature_encoders(str(data_dir))
    return [
        (
            encoders["inputs"].decode(example["inputs"][:-1]),
            encoders["targets"].decode(example["targets"][:-1]),
        )
        for example in records.read_examples(problem.existing_filepaths(str(data_dir), split))
    ]
