"""Small problems of several languages, whose names a mixture can join."""

import contextlib
import pathlib
import random
from collections.abc import Iterator

from support.registries import restored
from t2t_lite import registry
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.mixture import NamedMixture
from t2t_lite.data.problem import three_splits
from t2t_lite.data.text_problems import TranslateProblem
from t2t_lite.errors import DataError

GERMAN, FRENCH, CZECH = (f"translate_en{code}_toy" for code in ("de", "fr", "cs"))
MIXTURE = f"{GERMAN}+{FRENCH}+{CZECH}_rev"


class Toy(TranslateProblem):
    """Words of letters; each word of a target begins with its language."""

    dataset_splits = three_splits(2)
    size: int
    stop = 0  # if not 0, the training text is damaged after so many pairs

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(f"{self.base_name} {dataset_split}")
        for number in range(self.size if dataset_split == "train" else 20):
            if dataset_split == "train" and number == self.stop > 0:
                raise DataError("the next line is bad")
            words = ["".join(draw.choices("abcdef", k=4)) for _ in range(draw.randrange(1, 8))]
            target = " ".join(self.data_languages[1] + word for word in words)
            yield {"inputs": " ".join(words), "targets": target}


@contextlib.contextmanager
def toys() -> Iterator[None]:
    """Registers the problems in the block: 300 pairs to German, 60 to French, 100 to Czech."""
    with restored():
        for name, size in ((GERMAN, 300), (FRENCH, 60), (CZECH, 100)):
            registry.register_problem(name)(type(f"Toy{size}", (Toy,), {"size": size}))
        size = NamedMixture.approx_vocab_size
        NamedMixture.approx_vocab_size = 330
        try:
            yield
        finally:
            NamedMixture.approx_vocab_size = size


def generate(folder: pathlib.Path, name: str = MIXTURE) -> NamedMixture:
    """Generates a mixture in a folder, and returns it."""
    problem = registry.problem(name)
    generate_data(problem, str(folder), str(folder))
    return problem
