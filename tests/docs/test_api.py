"""Every public name is documented, and the scripts of the API page run."""

import contextlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import t2t_lite
from support.small_runs import noisy_run
from t2t_lite.errors import UsageError

# Headings of the scripts that open, train or use a run; tests of their own prepare it.
_TRAINING = "Train a registered problem"
_OPENING = "Open a run and translate"
_ONE_LAYER = '"num_encoder_layers": 1, "num_decoder_layers": 1'


def names() -> list[str]:
    return list(t2t_lite.__all__)


@pytest.mark.parametrize("name", names())
def test_every_public_name_is_on_the_page_and_has_a_docstring(pages, name):
    table = pages["api.md"].text.partition("\n## Names\n")[2]
    first_cells = re.findall(r"^\| (.*?) \|", table, re.M)
    assert f"`{name}`" in " ".join(first_cells)
    if not name.startswith("__"):
        assert inspect.getdoc(getattr(t2t_lite, name))


@pytest.fixture(scope="module")
def reference():
    """The package as the generator of the reference reads it, without importing it."""
    griffe = pytest.importorskip("griffe")
    return griffe.load("t2t_lite", search_paths=[str(t2t_lite.__path__[0] + "/..")])


@pytest.mark.integration
@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("__")])
def test_the_reference_finds_every_public_name(reference, name):
    """Lazy names, too, must show in the source."""
    assert reference[name].has_docstring


def test_the_first_three_scripts_have_at_most_15_lines(pages):
    scripts = list(pages["api.md"].blocks("python"))[:3]
    assert [len(block.code.splitlines()) <= 15 for block in scripts] == [True] * 3


def run(block, **changes: str) -> dict:
    """Runs a script here, with some of its text changed, and returns its names."""
    code = block.code
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    found: dict = {"__name__": "script"}
    exec(compile(code, f"{block.page}: {block.heading}", "exec"), found)
    return found


@pytest.fixture
def script(pages, tmp_path, monkeypatch):
    """Returns a function that runs a script of the page in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_script(heading: str, number: int = 0, changes: dict[str, str] | None = None) -> dict:
        return run(pages["api.md"].block(heading, "python", number), **(changes or {}))

    return run_script


@pytest.mark.integration
def test_translating(script, tmp_path):
    folder = noisy_run(
        tmp_path / "made", num_hidden_layers=1, hidden_size=16, filter_size=16
    ).folder
    shutil.copytree(folder, tmp_path / "runs" / "base")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        script(_OPENING, changes={'"best"': '"newest"', "alpha=0.6": "extra_length=5"})
    assert len(re.findall(r"^-\d+\.\d{3}  ", printed.getvalue(), re.M)) == 8


@pytest.mark.integration
def test_streaming_and_scoring(script, tmp_path):
    noisy_run(tmp_path / "runs/base", num_hidden_layers=1, hidden_size=16, filter_size=16)
    (tmp_path / "in.txt").write_text("A cat.\n\nA dog.\n", encoding="utf-8")
    short = '"newest", beam_size=1, extra_length=1'
    found = script("Translate a stream, score translations", changes={'"best"': short})
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert lines == [*found["translate"](["A cat.", "", "A dog."]), ""]
    assert found["scored"].tokens == [*"Eine Katze.", "<EOS>"]


@pytest.mark.integration
def test_training_and_then_fitting_on_the_same_data(script, few_sentences, eagerly):
    metrics = 'metrics=["bleu", "chrf"]'
    changes = {
        "train_steps=2000": 'train_steps=2, schedule="train"',
        '"layer_prepostprocess_dropout": 0.1': _ONE_LAYER,
        metrics: f"{metrics}, beam_size=1, extra_length=1",
    }
    run = script(_TRAINING, changes=changes)["run"]
    assert (run.hparams.num_encoder_layers, run.hparams.num_decoder_layers) == (1, 1)
    assert [path.name for path in run.folder.glob("model.ckpt-*.index")] == ["model.ckpt-2.index"]
    assert isinstance(run.translator(beam_size=1, extra_length=2)("1 and 2"), str)
    fitted = script(
        "Train a model with Keras alone",
        number=1,
        changes={"epochs=3": "steps_per_epoch=1", "batch_size=4096": "batch_size=512"},
    )
    assert np.isfinite(fitted["model"].history.history["loss"]).all()


@pytest.mark.integration
def test_a_classifier_on_the_encoder(script, eagerly):
    found = script("Put a classifier on the encoder")
    ids = found["np"].ones([3, 5], "int32")
    assert found["classifier"].predict(ids, verbose=0).shape == (3, 2)


@pytest.mark.slow  # models/test_encoder_decoder_parts.py does the same in every run
def test_a_classifier_on_the_encoder_with_jax(pages, tmp_path):
    block = pages["api.md"].block("Put a classifier on the encoder", "python")
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    subprocess.run([sys.executable, "-c", block.code], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "classifier.keras").exists()


@pytest.mark.integration
def test_the_model_as_a_keras_model(script, eagerly):
    assert script("Train a model with Keras alone")["logits"].shape == (64, 10, 100)


@pytest.mark.integration
def test_searching(script):
    found = script("Search with a model of your own")
    assert found["ids"].shape[:2] == found["scores"].shape == (3, 4)


def assert_outputs_end(ids, end):
    after = np.cumsum(ids == end, axis=-1) > (ids == end)
    assert not ids[after].any()


@pytest.mark.integration
def test_searching_with_the_tutorials_rnn(script, eagerly):
    changes = {"size=(512, 5)": "size=(32, 5)", "epochs=2": "epochs=1"}
    found = script("Search with a model of Keras's tutorials", changes=changes)
    assert found["ids"].shape[:2] == found["scores"].shape == (3, 4)
    assert_outputs_end(found["ids"], found["END"])


@pytest.mark.integration
def test_searching_with_the_tutorials_transformer(script, eagerly):
    found = script("Search with a model of Keras's tutorials", 1)
    assert found["ids"].shape == (3, 4, 20)
    assert_outputs_end(found["ids"], 3)
    with pytest.raises(UsageError, match=r"max_lengths=21: .* at most 20 positions of targets"):
        found["search"](np.ones([1, 2], int), 21)
