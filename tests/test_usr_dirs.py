"""User directories: what their import registers, and faults in one line with their place."""

import pathlib
import textwrap
from collections.abc import Iterator

import pytest

from support.usr_dirs import forgotten
from t2t_lite import registry, usr_dirs
from t2t_lite.errors import UserError


def usr_dir(tmp_path: pathlib.Path, name: str, init: str, **modules: str) -> str:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(textwrap.dedent(init))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(text))
    return str(folder)


@pytest.fixture(autouse=True)
def _forget_all() -> Iterator[None]:
    """Removes a test's registrations and modules."""
    with forgotten():
        yield


def test_usr_dir_registers(tmp_path: pathlib.Path):
    folder = usr_dir(
        tmp_path,
        "usr_good",
        "from . import sets",
        sets="""
            from t2t_lite import registry

            @registry.register_hparams
            def usr_set():
                return registry.hparams("transformer_tiny").copy(batch_size=7)
        """,
    )
    usr_dirs.import_usr_dir(folder)
    usr_dirs.import_usr_dir(folder + "/")  # the same folder again does nothing
    assert registry.hparams("usr_set").batch_size == 7


@pytest.mark.parametrize(
    ("name", "init", "message"),
    [
        ("usr_raises", "1 / 0", "importing .*usr_raises/__init__.py failed: ZeroDivisionError"),
        ("usr_syntax", "def", "failed: SyntaxError"),
        ("json", "", "a module named 'json' is already loaded"),
        (
            "usr_clash",
            """
            from t2t_lite import registry
            registry.register_hparams("transformer_base")(dict)
            """,
            "'transformer_base' is already registered",
        ),
    ],
)
def test_a_bad_usr_dir_is_named(tmp_path: pathlib.Path, name: str, init: str, message: str):
    folder = usr_dir(tmp_path, name, init)
    for _ in range(2):  # a failed import leaves nothing behind
        with pytest.raises(UserError, match=message):
            usr_dirs.import_usr_dir(folder)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("raise SystemExit", "SystemExit"),
        ("import sys; sys.exit('usage: prepare.py FILE')", "SystemExit: usage: prepare.py FILE"),
        ("raise ValueError('one', '\\n', 'other')", r"ValueError: \('one', '\\n', 'other'\)"),
        ("raise KeyError", "KeyError"),
        ("raise RuntimeError('first\\n\\n  second\\n')", "RuntimeError: first second"),
        (
            "raise type('Loud', (Exception,), {'__str__': lambda self: self.missing})('x')",
            "Loud",
        ),
    ],
)
def test_what_a_module_raises_is_one_line_with_its_place(tmp_path, statement, text):
    folder = usr_dir(tmp_path, "usr_ends", "from . import inner", inner=f"x = 1\n{statement}\n")
    with pytest.raises(UserError, match=rf" failed: {text} \(.*usr_ends/inner.py, line 2\)$"):
        usr_dirs.import_usr_dir(folder)


@pytest.mark.parametrize(
    "contents",
    [
        b"x = '\0'\n",
        b"x = 1\n\0",
        b"x = " + b"-" * 90_000 + b"1",
        b"# coding: none\n",
        b"x = '\xe9'",
    ],
)
def test_a_module_that_cannot_be_compiled_is_named(tmp_path, contents):
    folder = usr_dir(tmp_path, "usr_odd", "from . import inner")
    (tmp_path / "usr_odd" / "inner.py").write_bytes(contents)
    message = r"failed: SyntaxError: .* in .*/usr_odd/inner\.py; t2t_lite runs Python 3$"
    with pytest.raises(UserError, match=message):
        usr_dirs.import_usr_dir(folder)


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (["zebra.py", "ant.py", "my-notes.py", "read.me"], "'from . import ant, zebra'"),
        ([], "'from . import MODULE'"),
    ],
)
def test_usr_dir_without_init(tmp_path: pathlib.Path, files: list[str], line: str):
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(
        UserError, match=rf"__init__\.py is missing; write it, with the line {line}"
    ):
        usr_dirs.import_usr_dir(str(tmp_path))


def test_a_usr_dir_that_is_not_a_folder(tmp_path: pathlib.Path):
    (tmp_path / "problems.py").touch()
    with pytest.raises(
        UserError, match=rf"problems\.py is not a folder; give its folder, {tmp_path}"
    ):
        usr_dirs.import_usr_dir(f"{tmp_path}/problems.py")
    with pytest.raises(UserError, match=r"absent is not a folder$"):
        usr_dirs.import_usr_dir(f"{tmp_path}/absent")
