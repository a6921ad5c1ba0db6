"""What pip installs is whole: every command works from a wheel, outside the repository."""

import http.server
import importlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tarfile
import threading
import venv
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from support.setup_file import setup_cfg

pytestmark = pytest.mark.integration

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = {"t2t_lite": "t2t_lite", "t2t_lite.problems": "problems"}
FOLDERS |= {"t2t_lite.hparams": "hparams", "t2t_lite.bin": "bin"}

# Every command, in the order in which a user would need them.
SCRIPT = """
t2t-datagen --problem=text2text_tmpdir_bpe --tmp_dir=text --data_dir=data
t2t-trainer --problem=text2text_tmpdir_bpe --data_dir=data --output_dir=run --model=transformer \
    --hparams_set=transformer_test --hparams=batch_size=512,max_length=32 --train_steps=2 \
    --local_eval_frequency=1 --decode_hparams=beam_size=1,extra_length=3
AVERAGED=$(t2t-avg-checkpoints --output_dir=run --num_last_checkpoints=2)
t2t-avg-all --model_dir=run --output_dir=averages --n=2
t2t-translate-all --model_dir=run --source=text/inputs.eval.txt --min_steps=2 --beam_size=1
t2t-distill --translations=text/targets.train.txt --problem=text2text_tmpdir_bpe --tmp_dir=text \
    --output_problem_dir=distilled
t2t-shortlist --output_dir=run --tmp_dir=text --shortlist=shortlist.txt
t2t-score-pairs --problem=text2text_tmpdir --tmp_dir=text --forward=run --backward=run \
    --pair_scores=scores.txt

SEARCH=--decode_hparams=beam_size=2,extra_length=3
t2t-decoder --checkpoint_path=$AVERAGED --decode_from_file=text/inputs.eval.txt \
    --decode_to_file=out.txt --shortlist=shortlist.txt $SEARCH
t2t-bleu --translation=out.txt --reference=text/targets.eval.txt --paper
t2t-eval --output_dir=run --checkpoint_path=newest,averaged $SEARCH
t2t-report --output_dir=run --output_file=report.html
t2t-insights --output_dir=run --text='line 1' --output_file=insights.html $SEARCH

t2t-exporter --output_dir=run --export_dir=exports $SEARCH
t2t-exporter --output_dir=run --export_dir=exports --format=keras
t2t-exporter --output_dir=run --export_dir=exports --format=ctranslate2
t2t-query-server --server=$SERVING --servable_name=translate --inputs_once='line 1' > answer.txt
t2t-serve --output_dir=run --port=$PORT $SEARCH &
ASK="curl --silent --fail --retry 300 --retry-delay 1 --retry-all-errors"
$ASK --json '{"text": "line 1"}' http://127.0.0.1:$PORT/translate > answer.json
$ASK http://127.0.0.1:$PORT/ > page.html
kill %1
wait %1

t2t-parseval --gold=trees.txt --test=trees.txt > parseval.txt
t2t-import --model_dir=t2t --data_dir=t2t --output_dir=imported

t2t-paper --table=1
t2t-paper --table=2 --output_format=markdown
t2t-paper --table=3 --params --output_format=json > table3.json
t2t-paper --table=3 --problem=text2text_tmpdir_bpe --data_dir=data --output_dir=table3 \
    --scale=tiny --hparams=batch_size=512,max_length=32,num_hidden_layers=1 --train_steps=2 \
    --rows=a1
t2t-paper --table=4
"""


def _commands() -> dict[str, str]:
    """Name and "module:function" of every console command."""
    lines = setup_cfg()["options.entry_points"]["console_scripts"].strip().splitlines()
    return dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines)


@pytest.mark.parametrize(("name", "target"), _commands().items())
def test_commands_are_the_main_functions_of_modules_of_their_names(name, target):
    assert target == f"t2t_lite.bin.{name.replace('-', '_')}:main"
    assert callable(importlib.import_module(target.removesuffix(":main")).main)


def test_every_module_that_runs_as_a_command_is_one():
    runs = {p.stem for p in (ROOT / "bin").glob("*.py") if "@COMMAND.main" in p.read_text("utf-8")}
    assert runs == {name.replace("-", "_") for name in _commands()}


def _package_of(path: pathlib.Path) -> str:
    """The package that a file of the repository is installed in."""
    for package, folder in FOLDERS.items():
        if path.is_relative_to(ROOT / folder):
            return ".".join([package, *path.relative_to(ROOT / folder).parent.parts])
    raise AssertionError(path)


def test_all_packages_and_data_files_are_declared():
    """setup.cfg names them one by one, so that a new one is easily forgotten."""
    modules, data = set(), set()
    for folder in FOLDERS.values():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                package = _package_of(path)
                modules.add(package)
                if path.suffix != ".py":
                    data.add((package, path.name))
    options = setup_cfg()
    assert set(options["options"]["packages"].split()) == modules
    declared = options["options.package_data"].items()
    assert {(package, file) for package, files in declared for file in files.split()} == data


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory) -> pathlib.Path:
    """The source distribution, built from a copy: building leaves files behind."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("t2t_lite", "docs"):  # links are followed
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, copy)
    shutil.copy(ROOT / "LICENSE", copy)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(source_distribution, tmp_path_factory) -> pathlib.Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, f"--wheel-dir={folder}", str(source_distribution)], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_source_distribution_has_the_pages(source_distribution):
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").iterdir()}
    assert pages | {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= names


def test_what_a_package_index_shows_needs_no_other_file():
    """There, a relative link would lead nowhere; nor is there a clone to install from."""
    name = setup_cfg()["metadata"]["long_description"].removeprefix("file: ")
    text = (ROOT / name).read_text("utf-8")
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links
    assert all(link.startswith("https://") for link in links)
    assert "install -q 't2t_lite[demo]'" in text
    assert "'.[" not in text


def test_the_quick_start_of_a_package_index_is_that_of_the_readme():
    code = re.compile(r"```bash\n(.*?)```", re.DOTALL)
    (shown,) = code.findall((ROOT / "PACKAGE.md").read_text("utf-8"))
    first = code.findall((ROOT / "README.md").read_text("utf-8"))[0]
    assert shown.replace("t2t_lite[demo]", ".[demo]") == first


def _without_path() -> dict[str, str]:
    """The environment without the folders in which Python finds the clone."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def scripts(wheel, tmp_path_factory) -> pathlib.Path:
    """Folder of the commands in an environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install = [*pip, "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, env=_without_path())  # else pip takes the clone for it
    paths = {"base": str(folder), "platbase": str(folder)}
    site_packages = pathlib.Path(sysconfig.get_path("purelib", "venv", paths))
    # A folder that a .pth file names comes last, and .pth files in it, by which an editable
    # install works, are not read.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return folder / "bin"


class _Serving(http.server.BaseHTTPRequestHandler):
    """Answers as TensorFlow Serving's REST interface does."""

    def do_POST(self) -> None:
        body = json.dumps({"outputs": {"outputs": ["an answer"], "scores": [-1.5]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def serving():
    """Its host and port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Serving) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _write_text(folder: pathlib.Path) -> None:
    folder.mkdir()
    lines = [f"line {i} of some words {i * i}\n" for i in range(200)]
    for side in ("inputs", "targets"):
        (folder / f"{side}.train.txt").write_text("".join(lines), "utf-8")
        (folder / f"{side}.eval.txt").write_text("".join(lines[::50]), "utf-8")


def _write_t2t_run(folder: pathlib.Path, recorded: pathlib.Path) -> None:
    """Writes what T2T leaves in its folders: checkpoint, settings, vocabulary."""
    folder.mkdir()
    weights = dict(np.load(recorded / "weights.npz"))
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt-7"),
        tensor_names=[*weights, "global_step"],
        shape_and_slices=[""] * (len(weights) + 1),
        tensors=[*map(tf.constant, weights.values()), tf.constant(7, tf.int64)],
    )
    config = json.loads((recorded / "config.json").read_text("utf-8"))
    (folder / "hparams.json").write_text(json.dumps(config["hparams"]), "utf-8")
    (folder / "flags.txt").write_text("--problem=text2text_tmpdir_tokens\n", "utf-8")
    tokens = [f"t{i}\n" for i in range(config["target_vocab_size"] - 3)]
    vocabulary = folder / "vocab.text2text_tmpdir_tokens.tokens"
    vocabulary.write_text("".join(["<pad>\n", "<EOS>\n", "<UNK>\n", *tokens]), "utf-8")


@pytest.mark.slow
def test_every_command_works_from_the_wheel(scripts, serving, golden, tmp_path):
    assert set(re.findall(r"^(?:\w+=\$\()?(t2t-[\w-]+)", SCRIPT, re.M)) == _commands().keys()
    _write_text(tmp_path / "text")
    _write_t2t_run(tmp_path / "t2t", golden / "transformer" / "base_v1")
    (tmp_path / "trees.txt").write_text("(S (NP (NN Time)) (VP (VBZ flies)))\n", "utf-8")
    environment = _without_path() | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "SERVING": serving,
        "PORT": str(_free_port()),
    }

    def shell(code: str) -> str:
        code = f"set -euo pipefail; trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{code}"
        done = subprocess.run(
            ["bash", "-c", code], cwd=tmp_path, env=environment, text=True, capture_output=True
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    package = pathlib.Path(shell("python -c 'import t2t_lite; print(t2t_lite.__file__)'").strip())
    assert package.is_relative_to(scripts.parent)
    printed = shell(SCRIPT)
    assert re.search(r"^BLEU_sacrebleu_13a = ", printed, re.M)
    for number in (1, 2, 3, 4):
        assert f"Table {number}" in printed
    assert len((tmp_path / "out.txt").read_text("utf-8").splitlines()) == 4
    assert (tmp_path / "distilled" / "origin.json").exists()
    assert (tmp_path / "imported" / "model.ckpt-7.index").exists()
    assert (tmp_path / "answer.txt").read_text("utf-8") == "an answer\t-1.500\n"
    assert json.loads((tmp_path / "answer.json").read_text("utf-8"))
    assert "Bracketing FMeasure       = 100.00" in (tmp_path / "parseval.txt").read_text("utf-8")
    for page in ("page.html", "insights.html", "report.html"):
        assert (tmp_path / page).read_text("utf-8").startswith("<!")
    kinds = {path.name for path in (tmp_path / "exports").iterdir()}
    assert kinds == {"translate", "ids", "keras", "ctranslate2"}
    assert json.loads((tmp_path / "table3.json").read_text("utf-8"))["rows"]
    assert (tmp_path / "table3" / "table3.svg").exists()


def test_the_wheel_has_what_the_folders_have(wheel):
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {
        f"{_package_of(path).replace('.', '/')}/{path.name}"
        for folder in FOLDERS.values()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert installed == files
