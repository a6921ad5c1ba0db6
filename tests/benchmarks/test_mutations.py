"""What benchmarks/mutations.py changes, and which tests it takes for near ones."""

import ast
import pathlib
import random

import pytest

from support.scripts import import_script


@pytest.fixture(scope="module")
def mutations():
    return import_script("mutations")


@pytest.mark.integration
def test_the_same_seed_draws_the_same_changes_of_what_runs(mutations):
    folders = mutations.source_folders()
    assert {"t2t_lite", "t2t_lite/layers", "problems", "hparams", "bin"} <= set(folders)
    for folder in folders:
        one, again = (mutations.draw_mutation(folder, random.Random(3)) for _ in range(2))
        assert one == again
        source = (mutations.ROOT / one.path).read_text(encoding="utf-8")
        assert one.before in source
        assert ast.dump(ast.parse(one.source)) != ast.dump(ast.parse(source))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a < b", {"a <= b"}),
        ("a is not None", {"a is None"}),
        ("a + b", {"a - b"}),
        ("a and b", {"a or b"}),
        ("not a", {"a"}),
        ("True", {"False"}),
        ("7", {"8"}),
        ("f(a, b=c)", {"f(a)"}),
        ("a if b else c", {"a if not b else c"}),
        ("'text'", set()),
        ("a", set()),
    ],
)
def test_each_kind_of_expression_has_its_opposite(mutations, source, wanted):
    (statement,) = ast.parse(source).body
    found = {ast.unparse(mutant) for mutant in mutations.mutants(statement.value)}
    assert found == wanted


def test_near_tests_are_those_of_the_file_its_folder_and_the_importers(mutations):
    near = mutations.tests_of(pathlib.Path("t2t_lite/layers/dropout.py"))
    assert near[:2] == ["tests/layers/test_dropout.py", "tests/layers"]
    assert "tests/models" in near
    assert "tests/data/corpora" not in near
    assert mutations.tests_of(pathlib.Path("bin/t2t-bleu")) == ["tests/bin"]
    assert "tests/test_files.py" in mutations.tests_of(pathlib.Path("t2t_lite/api.py"))
    # Folders without tests of their own: their tests are in the one around.
    near = mutations.tests_of(pathlib.Path("t2t_lite/training/objectives/simcut.py"))
    assert near == ["tests/training/test_simcut.py", "tests/training"]


@pytest.mark.integration
def test_the_first_failure_is_named(mutations, tmp_path):
    (tmp_path / "test_own.py").write_text(
        "def test_passes():\n    pass\ndef test_fails():\n    assert False\n", encoding="utf-8"
    )
    assert mutations.first_failure(tmp_path, ["."], ["-k", "passes"]) is None
    assert mutations.first_failure(tmp_path, ["."], ["-k", "nothing"]) is None
    assert mutations.first_failure(tmp_path, ["."], []) == "test_own.py::test_fails"
    (tmp_path / "test_own.py").write_text("import os\nos._exit(3)\n", encoding="utf-8")
    assert mutations.first_failure(tmp_path, ["."], []) == ""
