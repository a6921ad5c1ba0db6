"""Every command line on the pages is one that the commands understand, and names what exists."""

import ast
import functools
import importlib
import math
import pathlib
import re
import shlex

import pytest

from support.pages import command_lines
from t2t_lite import registry

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", *(path.name for path in sorted((ROOT / "docs").glob("*.md")))]
# What stands for something that only the reader knows.
_ELLIPSES = {"...", "…", "[...]"}
# Names that a page registers itself.
_OWN = {"my_topics", "spell_out", "word_dropout_transformer", "word_dropout_tiny"}


def bash(pages, name: str) -> list[str]:
    """The bash blocks of a page, without comments."""
    return [re.sub(r"(?m)(^|\s)#.*$", "", block.code) for block in pages[name].blocks("bash")]


def parse(name: str, words: list[str]) -> dict:
    module = importlib.import_module(f"t2t_lite.bin.{name.replace('-', '_')}")
    redirected = next((i for i, word in enumerate(words) if word in ("<", ">")), len(words))
    skipped = {*_ELLIPSES, "--help"}
    return vars(module.COMMAND.parse([w for w in words[:redirected] if w not in skipped]))


def check_names(flags: dict) -> None:
    if flags.get("problem") and flags["problem"] not in _OWN:
        registry.problem(flags["problem"])
    if flags.get("model") and flags["model"] not in _OWN:
        registry.require_model(flags["model"])
    if flags.get("hparams_set") and flags["hparams_set"] not in _OWN:
        hparams = registry.hparams(flags["hparams_set"])
        hparams.override(flags.get("hparams") or "")


@pytest.mark.parametrize("name", PAGES)
def test_commands_parse_and_name_what_is_registered(pages, name):
    found = 0
    for code in bash(pages, name):
        for program, *words in command_lines(code):
            command = program.removeprefix(".venv/bin/")
            if command.startswith("t2t-"):
                check_names(parse(command, words))
                found += 1
    assert found == sum(len(re.findall(r"\bt2t-[a-z-]+(?= )", code)) for code in bash(pages, name))


@pytest.mark.parametrize("name", PAGES)
def test_trainings_learn_until_their_last_update(pages, name):
    lines = [line for code in bash(pages, name) for line in command_lines(code)]
    for words in (line[1:] for line in lines if line[0].endswith("t2t-trainer")):
        flags = parse("t2t-trainer", words)
        if flags["problem"] and flags["hparams_set"] and flags["hparams_set"] not in _OWN:
            hparams = registry.hparams(flags["hparams_set"]).override(flags["hparams"])
            assert (hparams.learning_rate_end or math.inf) >= flags["train_steps"], words


@pytest.mark.parametrize("name", PAGES)
def test_commands_in_sentences_parse(pages, name):
    text = re.sub(r"^```.*?^```", "", pages[name].text, flags=re.M | re.S)
    for line in re.findall(r"`(t2t-[a-z-]+ [^`]+)`", text):
        program, *words = shlex.split(line)
        # In a sentence, values may be capitals that stand for something: --data_dir=FOLDER.
        words = [re.sub(r"=[A-Z]+$", "=1", word) for word in words if word not in _ELLIPSES]
        flags = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
        assert flags - {"help"} <= parse(program, words).keys()


@pytest.mark.parametrize("name", PAGES)
def test_benchmarks_exist_and_know_their_flags(pages, name):
    text = " ".join(
        [*bash(pages, name), *re.findall(r"`(python benchmarks/[^`]+)`", pages[name].text)]
    )
    for script in set(re.findall(r"benchmarks/\w+\.py", text)):
        assert (ROOT / script).exists()
    for code in bash(pages, name):
        for program, *words in command_lines(code):
            if program == "python" and words[0].startswith("benchmarks/"):
                flags = {word.partition("=")[0] for word in words if word.startswith("--")}
                assert flags <= flags_of(ROOT / words[0])


@functools.cache
def flags_of(script: pathlib.Path) -> set[str]:
    """The flags that the source of a script, or of a module beside it that it imports, defines."""
    nodes = list(ast.walk(ast.parse(script.read_text("utf-8"))))
    strings = (node.value for node in nodes if isinstance(node, ast.Constant))
    flags = {value for value in strings if isinstance(value, str) and value.startswith("--")}
    for name in (
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    ):
        module = script.with_name(f"{name}.py")
        flags |= flags_of(module) if module.exists() else set()
    return flags


def test_the_pods_of_kubernetes_get_flags_that_exist(pages):
    found = []
    for block in pages["cluster.md"].blocks("yaml"):
        flags = re.findall(r"^ +- (--.*)$", block.code, re.M)
        (command,) = re.findall(r"command: \[(.*)\]", block.code)
        check_names(parse(command, [f.replace("$(JOB_COMPLETION_INDEX)", "3") for f in flags]))
        found.append((command, len(flags)))
    assert found == [("t2t-trainer", 7), ("t2t-decoder", 7)]


@pytest.mark.parametrize("name", PAGES)
def test_flags_in_sentences_exist(pages, name):
    if name == "flags.md":  # T2T's flags: tests/test_t2t_flags.py
        return
    commands = [path.stem for path in (ROOT / "bin").glob("t2t_*.py")]
    known = {"--help", "--decode_hparams", "--strict", "--n"}
    for command in commands:
        known |= {
            f"--{flag}" for flag in importlib.import_module(f"t2t_lite.bin.{command}").COMMAND.flags
        }
    for script in (ROOT / "benchmarks").glob("*.py"):
        known |= flags_of(script)
    text = re.sub(r"^```.*?^```", "", pages[name].text, flags=re.M | re.S)
    unknown = set(re.findall(r"`(--\w+)", text)) - known
    # Those of Slurm and kill, all of some, and the tests' own.
    others = {"--signal", "--requeue", "--kill", "--eval_early_stopping_", "--costs", "--fork"}
    assert unknown <= others
