"""What pages hand to a shell, to Slurm and to Kubernetes is well-formed."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", *(path.name for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("name", PAGES)
def test_bash_can_parse_every_block(pages, name):
    for block in pages[name].blocks("bash"):
        done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
        assert not done.stderr, block


# pip puts it beside Python, where PATH may not lead.
_PATH = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
SHELLCHECK = shutil.which("shellcheck", path=_PATH)


def shellcheck(text: str) -> None:
    # What is left out is advice, such as on the quotes that keep $0 from the outer shell.
    command = [SHELLCHECK, "--shell=bash", "--severity=warning", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not SHELLCHECK, reason="needs shellcheck")
def test_scripts_for_slurm_have_no_known_mistakes(pages):
    blocks = [block.code for block in pages["cluster.md"].blocks("bash")]
    assert sum(code.startswith("#!/bin/bash\n#SBATCH") for code in blocks) == 2
    for code in blocks:
        shellcheck(code)
    with pytest.raises(AssertionError, match="SC2154"):
        shellcheck(f"{blocks[1]}\necho $nothing_sets_this")


def test_kubernetes_accepts_every_object(pages):
    validate = pytest.importorskip("kubernetes_validate")
    objects = [
        resource
        for block in pages["cluster.md"].blocks("yaml")
        for resource in yaml.safe_load_all(block.code)
    ]
    assert [resource["kind"] for resource in objects] == ["Service", "Job", "Job"]
    for resource in objects:
        validate.validate(resource, validate.latest_version(), strict=True)
    objects[1]["spec"]["podFailurePolice"] = {}
    with pytest.raises(validate.ValidationError, match="podFailurePolice"):
        validate.validate(objects[1], validate.latest_version(), strict=True)
