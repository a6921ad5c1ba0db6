"""The pages of README.md and docs/, their code blocks, and what runs them."""

import contextlib
import dataclasses
import importlib
import io
import pathlib
import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```", re.M | re.S)
_SHORTENED = (
    (r"--train_steps=\d{3,}", "--train_steps=4 --schedule=train"),
    (r"--num_last_checkpoints=\d+", "--num_last_checkpoints=1"),
    (
        r"t2t-decoder(?!.*--decode_hparams)",
        "t2t-decoder --decode_hparams=beam_size=1,extra_length=5",
    ),
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced code block.

    Attributes:
        page: file name of its page.
        heading: the nearest heading above it.
        language: as the fence says.
        code: what stands between the fences, with continued lines joined.
    """

    page: str
    heading: str
    language: str
    code: str


@dataclasses.dataclass(frozen=True)
class Page:
    """A Markdown file.

    Attributes:
        path: where it is.
        text: what it says.
    """

    path: pathlib.Path
    text: str

    def blocks(self, language: str = "") -> Iterator[Block]:
        """Yields its fenced blocks, or those of one language."""
        for found in _BLOCK.finditer(self.text):
            if language in ("", found["language"]):
                # Comments in code are not headings.
                prose = _BLOCK.sub("", self.text[: found.start()])
                above = re.findall(r"^#+ (.*)$", prose, re.M)
                yield Block(
                    self.path.name,
                    above[-1] if above else "",
                    found["language"],
                    found["code"].replace("\\\n", " "),
                )

    def block(self, heading: str, language: str, number: int = 0) -> Block:
        """Returns the block of a language under a heading, counted from 0."""
        under = [block for block in self.blocks(language) if block.heading == heading]
        assert under, f"{self.path.name} has no {language} block under {heading!r}"
        return under[number]


def shortened(code: str) -> str:
    """Gives a block a training of a few steps, and short searches."""
    for pattern, shorter in _SHORTENED:
        code = re.sub(pattern, shorter, code)
    return code


def run_here(line: str) -> str:
    """Runs a line of a bash block and returns what it printed.

    The project's commands run in this process: another one would take seconds to load TensorFlow.
    """
    program, *flags = shlex.split(line)
    if not program.startswith("t2t-"):
        return subprocess.run(["bash", "-c", line], check=True, capture_output=True).stdout.decode()
    module = importlib.import_module(f"t2t_lite.bin.{program.replace('-', '_')}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as end:
        module.main(flags)
    assert end.value.code == 0, line
    return printed.getvalue()


class _CommandLines:
    """Reads the command lines in a bash block without running them: no shell, no process."""

    def __init__(self) -> None:
        self._variables: dict[str, str] = {}
        self.commands: list[list[str]] = []

    def read(self, code: str) -> list[list[str]]:
        """Returns the words of each command, variables expanded; unknown ones become 1."""
        for line in code.splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if set(word) <= set("&|;()"):
                    self._end(words)
                    words = []
                else:
                    words.append(word)
        return self.commands

    def _end(self, words: list[str]) -> None:
        while words and (assigned := re.fullmatch(r"([A-Z_]\w*)=(.*)", words[0], re.S)):
            self._variables[assigned[1]] = self._expand(assigned[2])
            words = words[1:]
        if "-c" in words and words[words.index("-c") - 1] == "bash":  # bash -c SCRIPT $0 $1 ...
            script, _, *arguments = words[words.index("-c") + 1 :]
            words = [*shlex.split(script.removesuffix('"$@"')), *arguments]
        if words:
            self.commands.append([self._expand(word) for word in words])

    def _expand(self, word: str) -> str:
        return re.sub(r"\$(\w+|$)", lambda found: self._variables.get(found[1], "1"), word)


def command_lines(code: str) -> list[list[str]]:
    """Returns the words of each command in a bash block."""
    return _CommandLines().read(code)
