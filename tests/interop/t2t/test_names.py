"""Which names of tensor2tensor can be imported, and what the others say."""

import importlib
import pkgutil
import re
import subprocess
import sys

import pytest

from support.usr_dirs import import_usr_dir, write_usr_dir
from t2t_lite import registry, user_imports
from t2t_lite.errors import UsageError
from t2t_lite.interop.t2t import names


def test_modules_are_those_of_this_package(upstream):
    import tensor2tensor.utils.registry as theirs
    from tensor2tensor.data_generators import problem, text_problems
    from tensor2tensor.models.research import universal_transformer

    from t2t_lite.interop.t2t import registry as ours
    from t2t_lite.interop.t2t.problem import Problem

    assert theirs is ours
    assert ours.__spec__.name == "t2t_lite.interop.t2t.registry"
    assert issubclass(text_problems.Text2TextProblem, problem.Problem)
    assert problem.Problem is Problem
    assert universal_transformer.universal_transformer_base().hidden_size == 1024


def test_problems_are_registered_under_both_of_t2ts_functions(upstream):
    from tensor2tensor.data_generators import text_problems
    from tensor2tensor.utils import registry as theirs

    @theirs.register_base_problem
    class UsrBase(text_problems.Text2TextProblem):
        pass

    theirs.register_base_problem("usr_named")(UsrBase)
    assert {"usr_base", "usr_named"} <= set(registry.list_problems())


def test_all_that_is_offered_can_be_imported(upstream):
    for module in names.MODULES:
        found = importlib.import_module(f"tensor2tensor.{module}")
        absent = [name for name in found.__all__ if not hasattr(found, name)]
        assert not absent, module


def test_modules_hold_those_that_t2ts_import(upstream):
    from tensor2tensor.data_generators import text_encoder, text_problems
    from tensor2tensor.data_generators.generator_utils import text_encoder as imported

    assert imported is text_encoder
    assert text_problems.metrics.Metrics.ACC == "accuracy"


def test_names_are_formed_as_t2ts(upstream):
    from tensor2tensor.utils import misc_utils

    assert misc_utils.camelcase_to_snakecase("M2M_MProblem32k") == "m2_m_m_problem32k"
    assert misc_utils.snakecase_to_camelcase("my_set_32k") == "MySet32k"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from tensor2tensor.utils import t2t_model; t2t_model.T2TModel()", "docs/extending.md"),
        (
            "from tensor2tensor.models.transformer import transformer_bas as t; t()",
            "'transformer_base'",
        ),
        ("import tensor2tensor.data_generators.text_problem", "mean 'text_problems'"),
        ("from tensor2tensor.utils import registri", "mean 'registry'"),
        ("from tensor2tensor.data_generators import squad; squad.X()", "copy the module"),
        (
            "from tensor2tensor.data_generators import wiki_lm as w; w.LanguagemodelEnWiki32k()",
            "languagemodel_wikitext103, .* or copy the module",
        ),
        (
            "from tensor2tensor.data_generators import algorithmic as a; a.zipf_distribution(9, 1)",
            "copy its definition",
        ),
        (
            "from tensor2tensor.data_generators import cipher, algorithmic as a\n"
            "a.AlgorithmicMultiplicationDecimal40()",
            r"generators\.algorithmic\.A.* problem algorithmic_multiplication_decimal40",
        ),
        ("from tensor2tensor.data_generators.problem import Problm; Problm()", "mean 'Problem'"),
        (
            "from tensor2tensor.data_generators.problem import Text2TextProblem as t; t()",
            "text_problems",
        ),
        (
            "from tensor2tensor.data_generators.translate import token_generator as t; t()",
            "generate_samples",
        ),
        (
            "from tensor2tensor.data_generators.wmt import WMTProblem as t; t()",
            "translate.TranslateProblem",
        ),
    ],
)
def test_a_missing_name_says_what_to_write_instead(upstream, statement, message):
    with pytest.raises(ImportError, match=message) as raised:  # when it is used
        exec(statement)
    assert isinstance(raised.value, UsageError)
    assert "docs/t2t-names.md" in str(raised.value)


def test_a_user_directory_may_have_copies_of_modules(upstream, tmp_path):
    user_imports.install(["usr_failed"])  # is not loaded
    cipher = "from tensor2tensor.data_generators import wiki_lm\nSIZE = wiki_lm.SIZE + 1\n"
    modules = {"wiki_lm": "SIZE = 7\n", "cipher": cipher}
    import_usr_dir(tmp_path / "usr_copies", "from . import cipher\n", **modules)
    assert sys.modules["usr_copies.cipher"].SIZE == 8


def test_an_installed_tensor2tensor_is_not_hidden(upstream, tmp_path, monkeypatch):
    write_usr_dir(tmp_path / "tensor2tensor", "VERSION = 'theirs'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.import_module("tensor2tensor").VERSION == "theirs"


@pytest.mark.integration
def test_only_a_user_directory_that_needs_it_loads_the_package(tmp_path):
    folder = write_usr_dir(tmp_path / "usr_plain", "")
    script = f"""
import sys

def loaded(package):
    return any(name.startswith(package) for name in sys.modules)

import t2t_lite
from t2t_lite import registry
t2t_lite.import_usr_dir({str(folder)!r})
registry.list_problems()
print(loaded("t2t_lite.interop.t2t.names"))
import tensor2tensor.data_generators.text_problems, tensor2tensor.models.transformer
print(loaded("t2t_lite.interop.t2t.names"), loaded("tensorflow"))
"""
    printed = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert printed.split() == ["False", "True", "False"]


def test_what_to_use_instead_exists():
    """Every name of this package, and every problem, in the advice."""
    advice = " ".join(names.REPLACEMENTS.values())
    problems = re.findall(r"\bregistered problem (\w+)", advice)
    assert len(problems) > 3
    for name in problems:
        registry.problem(name)
    mentioned = re.findall(r"\bt2t_lite((?:\.[a-zA-Z_]\w*)+)", advice)
    assert len(mentioned) > 4
    for name in mentioned:
        pkgutil.resolve_name(f"t2t_lite{name}")
