"""docs/paper.md's commands, as the shell hands them over, are what the commands understand."""

import importlib
import pathlib
import re
import subprocess

from t2t_lite import registry

_TEXT = (pathlib.Path(__file__).parents[2] / "docs" / "paper.md").read_text("utf-8")
# Writes down its own name and its flags.
_STUB = """#!/bin/sh
printf '%s\\n' "${0##*/}" "$@" '' >> calls
"""


def test_commands_parse_and_name_what_is_registered(tmp_path):
    for name in set(re.findall(r"\bt2t-[\w-]+", _TEXT)):
        (tmp_path / name).write_text(_STUB, "utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    blocks = re.findall(r"^```bash\n(.*?)^```", _TEXT, re.M | re.S)
    for block in blocks:
        # What the commands would have written is not there for `ls` and `cat`.
        subprocess.run(
            ["bash", "-c", block], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
        )
    calls = (tmp_path / "calls").read_text("utf-8").strip("\n").split("\n\n")
    lines = "".join(blocks).replace("$(t2t-", "\nt2t-").splitlines()
    assert len(calls) == sum(line.startswith("t2t-") for line in lines)
    for call in calls:
        name, *flags = call.splitlines()
        module = importlib.import_module(f"t2t_lite.bin.{name.replace('-', '_')}")
        args = vars(module.COMMAND.parse(flags))
        if args.get("problem"):
            registry.problem(args["problem"])
        if args.get("hparams_set"):
            registry.hparams(args["hparams_set"])


def test_the_table_of_long_runs_names_what_is_registered():
    cells = [line.strip("| ").split(" | ") for line in _TEXT.splitlines() if line.startswith("|")]
    runs = [row for row in cells if row[0].startswith("EN-") and len(row) == 7]
    assert len(runs) == 4
    for _, _, problem, hparams_set, *_ in runs:
        registry.problem(problem)
        registry.hparams(hparams_set)
