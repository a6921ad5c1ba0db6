"""Random Hugging Face models as imported, compared with transformers: logits and outputs."""

import os
import pathlib
import subprocess

import pytest

from support.hugging_face_models import Recorded

TESTS = pathlib.Path(__file__).parents[1]
MODELS = sorted(path.parent for path in (TESTS / "fixtures" / "hugging_face").glob("*/kind.json"))
# The decode hparams of each recorded search.
SEARCHES = {
    "greedy": "beam_size=1",
    "beam4_1_false": "",  # that of the models' generation_config.json
    **{
        f"beam4_{alpha}_{stopping}": f"length_penalty=average,alpha={alpha},stopping={stopping}"
        for alpha, stopping in ((1, "never"), (1, "true"), (0, "never"), (0.6, "never"))
    },
}


@pytest.fixture(scope="module", params=MODELS, ids=lambda path: path.name)
def recorded(request, tmp_path_factory) -> Recorded:
    pytest.importorskip("safetensors")
    return Recorded(request.param, tmp_path_factory.mktemp("imported") / "run")


def test_logits(recorded):
    assert recorded.logits_differ_by() < 1e-4


@pytest.mark.parametrize("name", SEARCHES)
def test_outputs(recorded, name: str):
    assert recorded.outputs_differ(name, SEARCHES[name]) == []


@pytest.mark.slow
def test_forty_models(tmp_path):
    """With a Python that has torch and transformers 5, named by TRANSFORMERS_PYTHON."""
    python = os.environ.get("TRANSFORMERS_PYTHON")
    if not python:
        pytest.skip("TRANSFORMERS_PYTHON names no Python with torch and transformers")
    pytest.importorskip("torch")  # to read .bin
    pytest.importorskip("safetensors")
    script = TESTS / "support" / "make_hugging_face_models.py"
    subprocess.run([python, script, f"--output_dir={tmp_path / 'models'}"], check=True)
    models = sorted((tmp_path / "models").iterdir())
    assert len(models) == 40
    for folder in models:
        recorded = Recorded(folder, tmp_path / folder.name)
        assert recorded.logits_differ_by() < 1e-4, folder
        for name, changes in SEARCHES.items():
            assert recorded.outputs_differ(name, changes) == [], (folder, name)
