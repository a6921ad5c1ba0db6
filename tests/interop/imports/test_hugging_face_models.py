"""Random Hugging Face models as imported, compared with transformers: logits and outputs."""

import os
import pathlib
import subprocess

import pytest

from support.hugging_face_models import Recorded

TESTS = pathlib.Path(__file__).parents[2]
FIXTURES = TESTS / "fixtures" / "hugging_face"
MODELS = sorted(path.parents[1] for path in FIXTURES.glob("*/records/kind.json"))
# The decode hparams of each recorded search.
SEARCHES = {
    "greedy": "beam_size=1",
    "beam4_1_false": "",  # that of the models' generation_config.json
    **{
        f"beam4_{alpha}_{stopping}": f"length_penalty=average,alpha={alpha},stopping={stopping}"
        for alpha, stopping in ((1, "never"), (1, "true"), (0, "never"), (0.6, "never"))
    },
}


# Those of all models; how outputs are ranked, and when a search stops, is shown with the first one,
# whose outputs begin with a given token.
OF_ALL = ("greedy", "beam4_1_false")

MADE = 40  # random models, made anew where a Python with transformers is
ALL = [
    *(pytest.param(path, id=path.name) for path in MODELS),
    *(pytest.param(i, id=f"made_{i}", marks=pytest.mark.slow) for i in range(MADE)),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> list[pathlib.Path]:
    """Makes models with the Python that TRANSFORMERS_PYTHON names (torch, transformers 5)."""
    python = os.environ.get("TRANSFORMERS_PYTHON")
    if not python:
        pytest.skip("TRANSFORMERS_PYTHON names no Python with torch and transformers")
    pytest.importorskip("torch")  # to read .bin
    script = TESTS / "support" / "make_hugging_face_models.py"
    output = tmp_path_factory.mktemp("made")
    subprocess.run([python, script, f"--output_dir={output}", f"--count={MADE // 2}"], check=True)
    models = sorted(output.iterdir())
    assert len(models) == MADE
    return models


@pytest.fixture(scope="module", params=ALL)
def recorded(request, tmp_path_factory) -> Recorded:
    pytest.importorskip("safetensors")
    model = request.param
    folder = request.getfixturevalue("made")[model] if isinstance(model, int) else model
    return Recorded(folder, tmp_path_factory.mktemp("imported") / folder.name)


@pytest.mark.integration
def test_logits(recorded):
    assert recorded.logits_differ_by() < 1e-4, recorded.folder


@pytest.mark.integration
@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        pytest.param(
            *(*model.values, name),
            id=f"{model.id}-{name}",
            marks=model.marks if model is ALL[0] or name in OF_ALL else pytest.mark.slow,
        )
        for model in ALL
        for name in SEARCHES
    ],
    indirect=["recorded"],
    scope="module",  # one model after the other is imported once
)
def test_outputs(recorded, name: str):
    assert recorded.outputs_differ(name, SEARCHES[name]) == [], recorded.folder
