"""A corpus of examples in several files."""

import pathlib
import random

from t2t_lite.data import records

EXAMPLES = 200


def write_corpus(folder: pathlib.Path) -> tuple[list[str], list[dict[str, list[int]]]]:
    """Writes ten files; returns their paths and the examples.

    The first source id identifies an example.
    """
    draw = random.Random(0)
    examples = [
        {
            "inputs": [number + 2, *[5] * draw.randrange(25), 1],
            "targets": [6] * draw.randrange(25) + [1],
        }
        for number in range(EXAMPLES)
    ]
    paths = [str(folder / f"shard{i}") for i in range(10)]
    for i, path in enumerate(paths):
        records.write_examples(path, examples[i::10])
    return paths, examples
