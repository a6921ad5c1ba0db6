"""Chatter of libraries while a command loads them."""

import gc
import os
import subprocess
import sys
import types

import pytest

from t2t_lite.bin import console

_NOISE = """
import os
from t2t_lite.bin.console import quiet_import
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    with quiet_import():
        os.write(2, b"chatter;")
        if {fails}:
            raise ImportError
except ImportError:
    pass
os.write(2, b"afterwards")
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("fails", "level", "seen"),
    [
        (False, None, "afterwards"),
        (True, None, "chatter;afterwards"),
        (False, "0", "chatter;afterwards"),
    ],
)
def test_chatter_while_loading_shows_only_if_it_matters(fails, level, seen):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    process = subprocess.run(
        [sys.executable, "-c", _NOISE.format(fails=fails)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stderr == seen


def test_only_the_first_import_of_tensorflow_is_kept_from_the_garbage_collector(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    before = gc.get_freeze_count()
    with console.quiet_import():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before
    monkeypatch.delitem(sys.modules, "tensorflow")
    with console.quiet_import():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()


_LAZY = """
import os
from t2t_lite.bin import console
from t2t_lite.bin.command import Command
def body(args):
    import tensorflow
    os.write(2, b"afterwards " + tensorflow.__doc__.encode())
Command("lazy", "", [], {}).main(body)([])
"""


@pytest.mark.parametrize(("level", "seen"), [(None, "afterwards ours"), ("0", "chatter;after")])
def test_tensorflow_is_quiet_wherever_a_command_imports_it(tmp_path, level, seen):
    """Here it is a module of its name that writes as TensorFlow's libraries do."""
    module = "import os\n__doc__ = 'ours'\nos.write(2, b'chatter;')\n"
    (tmp_path / "tensorflow.py").write_text(module)
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    process = subprocess.run(
        [sys.executable, "-c", _LAZY], env=environment, capture_output=True, text=True
    )
    assert process.stderr.startswith(seen), process.stderr
    assert "Traceback" not in process.stderr


_IMPORTS = """
import importlib, sys
from t2t_lite.bin import console
def found(*names):
    for name in names:
        try:
            importlib.import_module(name)
            yield name
        except ModuleNotFoundError as error:
            assert error.name == name
with console.quiet_tensorflow():
    importlib.import_module(sys.argv[1])
print(*sys.modules["tensorflow"].seen, *sys.modules["keras"].seen, "then", *found("matplotlib"))
"""


@pytest.mark.parametrize("first", ["tensorflow", "keras"])
def test_no_package_is_loaded_that_commands_do_not_need(tmp_path, first):
    """But Keras may have jax as its backend, and a command may draw."""
    for name in ("jax", "matplotlib"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "keras" / "src" / "backend" / "jax").mkdir(parents=True)
    asks = "from __main__ import found\nseen = [*found('jax', 'matplotlib')]\n"
    (tmp_path / "tensorflow.py").write_text(f"{asks}import keras\n")
    backend = "import keras.src.backend.jax\nseen += found('jax', 'matplotlib')\n"
    (tmp_path / "keras" / "__init__.py").write_text(f"import tensorflow\n{asks}{backend}")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    printed = subprocess.check_output(
        [sys.executable, "-c", _IMPORTS, first], env={**os.environ, "PYTHONPATH": path}, text=True
    )
    assert printed.split() == ["jax", "then", "matplotlib"]


def test_a_module_runs_as_commands_do(tmp_path):
    (tmp_path / "jax.py").touch()
    own = "try:\n    import jax\nexcept ModuleNotFoundError:\n    jax = None\n"
    (tmp_path / "tensorflow.py").write_text(own)
    (tmp_path / "asked.py").write_text(
        "import sys, tensorflow\nprint(__name__, sys.argv[1:], tensorflow.jax)\n"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "t2t_lite.bin.console", "asked"]
    environment = {**os.environ, "PYTHONPATH": path}
    assert subprocess.check_output(command, env=environment, text=True) == "__main__ [] None\n"


def test_the_hook_goes_with_the_command():
    before = list(sys.meta_path)
    with console.quiet_tensorflow():
        assert len(sys.meta_path) == len(before) + 1
    assert sys.meta_path == before
