"""The README's examples do what they say; trainings are cut to a few steps, searches short."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

README = pathlib.Path(__file__).parents[2] / "README.md"


def blocks(heading: str) -> list[tuple[str, str]]:
    """Returns (language, code) of each fenced block under a heading."""
    text = README.read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert section, heading
    return re.findall(r"^```(\w+)\n(.*?)^```", section[1], re.M | re.S)


@pytest.fixture
def shell(tmp_path):
    """Returns a function that runs a block in an empty folder and returns what it printed."""
    scripts = pathlib.Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }

    def run(code: str) -> str:
        code = re.sub(r"--train_steps=\d+", "--train_steps=4 --schedule=train", code)
        code = re.sub(r"--num_last_checkpoints=\d+", "--num_last_checkpoints=1", code)
        quick = "t2t-decoder --decode_hparams=beam_size=1,extra_length=5"
        code = re.sub(r"t2t-decoder(?!.*--decode_hparams)", quick, code)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.slow
def test_your_own_two_files(shell, tmp_path):
    pairs = [(f"word{i} and {i}", f"Wort{i} und {i}") for i in range(300)]
    for name, part in (("train", pairs[20:]), ("dev", pairs[:20])):
        for side, language in ((0, "en"), (1, "de")):
            lines = "".join(pair[side] + "\n" for pair in part)
            (tmp_path / f"your_{name}.{language}").write_text(lines, encoding="utf-8")
    (_, code), *_ = blocks("Your own two files")
    assert re.search(r"^BLEU_cased = +\d+\.\d\d$", shell(code), re.M)


@pytest.mark.slow
def test_your_own_problem_class(shell, tmp_path):
    (_, problem), (_, code) = blocks("Your own problem class")
    (tmp_path / "my_problems").mkdir()
    (tmp_path / "my_problems" / "__init__.py").write_text(problem, encoding="utf-8")
    assert re.search(r"^BLEU_cased = +\d+\.\d\d$", shell(code), re.M)


def test_the_model_as_a_keras_model(shell, tmp_path):
    ((language, code),) = blocks("The model as a Keras model")
    assert language == "python"
    (tmp_path / "example.py").write_text(code + "\nprint(logits.shape)\n", encoding="utf-8")
    assert shell("python example.py").splitlines()[-1] == "(64, 10, 100)"


@pytest.mark.slow
def test_the_walkthrough(shell, shared_data, tmp_path):
    code = blocks("The walkthrough")[0][1]
    assert "TMP_DIR=/tmp/t2t_datagen" in code
    output = shell(code.replace("TMP_DIR=/tmp/t2t_datagen", f"TMP_DIR={shared_data}"))
    assert re.search(r"^BLEU_cased = +\d+\.\d\d", output, re.M)
    assert len((tmp_path / "translation.de").read_text(encoding="utf-8").split("\n")) == 2


@pytest.mark.slow
def test_the_papers_data(shell, shared_data):
    ((_, code),) = blocks("The paper's data")
    assert "TMP_DIR=/tmp/t2t_datagen" in code
    output = shell(code.replace("TMP_DIR=/tmp/t2t_datagen", f"TMP_DIR={shared_data}"))
    assert "steps per epoch" in output
    assert "29,000 examples" in output


@pytest.mark.slow
def test_parsing(shell, shared_data):
    ((_, code),) = blocks("Parsing")
    assert "TMP_DIR=$HOME/nltk_data" in code
    output = shell(code.replace("TMP_DIR=$HOME/nltk_data", f"TMP_DIR={shared_data}"))
    assert re.search(r"^Bracketing F1 = ", output, re.M)
    words = re.findall(r"[^\s()]+(?=\))", output.splitlines()[-1])
    assert words == ["The", "company", "said", "it", "will", "sell", "the", "unit", "."]
