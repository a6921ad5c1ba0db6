"""Extras: setup.cfg, the checks at run time and docs/dependencies.md agree."""

import dataclasses
import importlib.util
import json
import pathlib
import re

import pytest

from support.setup_file import setup_cfg
from t2t_lite import extras
from t2t_lite.errors import UserError
from t2t_lite.serving.config import ServerConfig

ROOT = pathlib.Path(__file__).parents[1]


def packages(requirements: str) -> set[str]:
    """The names in a list of requirements, without our own extras."""
    return set(re.findall("^(?!t2t_lite)[a-zA-Z][a-zA-Z0-9_-]*", requirements, re.MULTILINE))


def parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@pytest.mark.parametrize(
    "extra",
    [
        extras.IMPORT,
        extras.LANGUAGES,
        extras.PLOTS,
        extras.ROUGE,
        extras.SERVE,
        extras.TABLES,
        extras.TUNE,
    ],
)
def test_what_is_checked_is_what_is_installed(extra):
    declared = packages(setup_cfg()["options.extras_require"][extra])
    modules = {{"pyyaml": "yaml"}.get(name, name.replace("-", "_")) for name in declared}
    assert modules == set(extras._PACKAGES[extra])


def test_one_missing_package_is_enough(monkeypatch):
    extras.require(extras.SERVE, "t2t-serve")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "starlette" else find(name)
    )
    with pytest.raises(UserError, match=r"^t2t-serve needs more .*: pip install '\.\[serve\]'"):
        extras.require(extras.SERVE, "t2t-serve")


def test_the_image_installs_extras_that_there_are_and_runs_a_command_that_there_is():
    """`docker build` would show the first, and `docker run` the second."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    extras_require = setup_cfg()["options.extras_require"]
    named = re.search(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE)[1].split(",")
    assert {"serve"} <= {*named} <= {*extras_require}
    command, *given = json.loads(re.search(r"^CMD (.*)$", text, re.MULTILINE)[1])
    assert f"{command} = " in setup_cfg()["options.entry_points"]["console_scripts"]
    flags = {flag.removeprefix("--").partition("=")[0] for flag in given}
    assert flags <= {field.name for field in dataclasses.fields(ServerConfig)}


def test_without_tensorflow_text_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install tensorflow-text.*--format=ctranslate2"):
        extras.tensorflow_text("a thing")


def test_the_oldest_releases_are_those_that_are_allowed():
    """`tests/oldest.txt` is what the tests are run with."""
    requirements = [setup_cfg()["options"]["install_requires"]]
    extras_require = setup_cfg()["options.extras_require"]
    names = re.search(r"t2t_lite\[(.*)\]", extras_require["dev"])[1].split(",")
    requirements += [extras_require[name] for name in ("dev", *names)]
    floor = re.compile(r"^([a-z][a-z0-9-]*) [>=]=([0-9.]+)", re.MULTILINE)
    allowed = {name: parts(version) for name, version in floor.findall("\n".join(requirements))}
    text = (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8")
    oldest: dict[str, list[list[int]]] = {}
    for name, version in floor.findall(text):
        oldest.setdefault(name, []).append(parts(version))
    assert {*allowed} - {*oldest} == {"mypy", "ruff"}  # which no test imports
    for name in allowed.keys() & oldest.keys():
        assert min(oldest[name])[: len(allowed[name])] == allowed[name], name


def test_every_dependency_has_its_reason():
    listed = [setup_cfg()["options"]["install_requires"]]
    listed += setup_cfg()["options.extras_require"].values()
    named = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    for name in set().union(*map(packages, listed)):
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", named), name


def test_some_modules_of_an_extra_may_be_enough(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find(name)
    )
    extras.require(extras.IMPORT, "t2t-import", "yaml")
    with pytest.raises(UserError, match=r"^t2t-import needs more .*'\.\[import\]'"):
        extras.require(extras.IMPORT, "t2t-import", "torch")
