"""User directories in T2T's manner: written and imported, and the data of their problems."""

import contextlib
import pathlib
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from support.registries import restored
from t2t_lite import registry, user_imports, usr_dirs
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.problem import Problem

# What a process imports to have the files of the fixture `few_shards`.
FEW_SHARDS = """
from t2t_lite.data.problem import Problem, three_splits

Problem.dataset_splits = three_splits(2)[:2]
"""

# What most directories import, and a problem for theirs to derive from.
TOP = """
import os

from tensor2tensor.data_generators import (
    generator_utils, problem, text_encoder, text_problems, translate)
from tensor2tensor.layers import modalities
from tensor2tensor.utils import metrics, registry
import tensorflow as tf


class Base(text_problems.Text2TextProblem):
  @property
  def approx_vocab_size(self):
    return 2**8

  @property
  def is_generate_per_split(self):
    return False

  @property
  def dataset_splits(self):
    return [{"split": problem.DatasetSplit.TRAIN, "shards": 2},
            {"split": problem.DatasetSplit.EVAL, "shards": 1}]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for i in range(60):
      words = " ".join("%d" % (i * k % 17) for k in range(1, 5))
      yield {"inputs": words, "targets": words[::-1]}


"""


def write_usr_dir(folder: pathlib.Path, init: str, **modules: str) -> pathlib.Path:
    """Writes a user directory, its `__init__` and other modules; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in {"__init__": init, **modules}.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
    return folder


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Undoes, at the end of the block, the imports of user directories, and all registrations."""
    modules, path = set(sys.modules), list(sys.path)
    try:
        with restored():
            yield
    finally:
        for name in set(sys.modules) - modules:
            if user_imports.is_users(name) or name.partition(".")[0] == user_imports.ROOT:
                del sys.modules[name]
        user_imports.uninstall()
        sys.path[:] = path


def import_usr_dir(folder: pathlib.Path, init: str, **modules: str) -> None:
    """Writes a user directory and imports it."""
    usr_dirs.import_usr_dir(f"{write_usr_dir(folder, init, **modules)}/")


def generate(name: str, folders: tuple[str, str], **options: Any) -> Problem:
    """Generates a problem's data; returns the problem as training gets it.

    Args:
        name: the problem's name.
        folders: where the data goes, and where the corpora are.
        **options: of data generation; one process unless they say otherwise.
    """
    options = DatagenOptions(**{"num_workers": 1, **options})
    generator.generate_data(registry.problem(name), *folders, options)
    return registry.problem(name)
