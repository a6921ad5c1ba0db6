"""The scripts of benchmarks/ as modules."""

import importlib
import pathlib
import sys
import types

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


def import_script(name: str) -> types.ModuleType:
    """Imports a script, which may import others of its folder."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))
