"""Other forms of Marian's Transformer, compared with what Marian prints for them.

support/make_marian_forms.py has made them, as fixtures: norms before and after sub-layers, all
kinds of tied embeddings, of activations and of vocabularies, and weights in half precision.
"""

import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.interop.imports import open_models
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams

FORMS = pathlib.Path(__file__).parents[2] / "fixtures" / "marian_forms"


@pytest.fixture(
    scope="module", params=sorted(path.parent.name for path in FORMS.glob("*/model.npz"))
)
def form(request, tmp_path_factory) -> tuple[RunFolder, dict[str, Any]]:
    """An imported model, and what Marian has printed."""
    folder = tmp_path_factory.mktemp("imported") / "run"
    open_models.import_run(str(FORMS / request.param), str(folder))
    recorded = json.loads((FORMS / request.param / "recorded.json").read_text(encoding="utf-8"))
    return RunFolder.open(str(folder)), recorded


def test_pre_norm_of_old_releases_is_refused(tmp_path):
    """They normalize the queries of self-attention, but not keys and values."""
    folder = shutil.copytree(FORMS / "pre_norm_top", tmp_path / "old")
    with np.load(folder / "model.npz") as file:
        arrays = dict(file)
    settings = arrays["special:model.yml"].tobytes().replace(b"v1.12.42", b"v1.10.28")
    arrays["special:model.yml"] = np.frombuffer(settings, np.int8)
    np.savez(folder / "model.npz", **arrays)
    with pytest.raises(UserError, match=r"transformer-preprocess=n .*before 1\.11, Marian"):
        open_models.import_run(str(folder), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def ids(run: RunFolder, side: str, texts: list[str]) -> np.ndarray:
    rows = [[*run.encoders[side].encode(text), 1] for text in texts]
    length = max(map(len, rows))
    return np.array([row + [0] * (length - len(row)) for row in rows])


def translations(run: RunFolder, sources: list[str], changes: str) -> list[str]:
    hparams = DecodeHParams.of(run, changes)
    return Translator(Decoder.from_run(run, hparams=hparams))(sources)


def texts(run: RunFolder, outputs: list[str]) -> list[str]:
    """Returns the texts of outputs that Marian has printed as pieces."""
    encoder = run.encoders["targets"]
    known = {piece: id_ for id_, piece in enumerate(encoder.tokens)}
    return [encoder.decode([known[piece] for piece in output.split(" ")]) for output in outputs]


def log_probs(run: RunFolder, sources: list[str], targets: list[str]) -> list[np.ndarray]:
    """Returns the log-probability of each token of the targets, EOS included."""
    inputs, outputs = ids(run, "inputs", sources), ids(run, "targets", targets)
    logits = run.load_model().model({"inputs": inputs, "targets": outputs})
    found = tf.gather(tf.nn.log_softmax(logits), outputs, axis=2, batch_dims=2).numpy()
    return [row[: np.count_nonzero(target)] for row, target in zip(found, outputs, strict=True)]


@pytest.mark.integration
def test_log_probabilities_of_given_pairs(form):
    """Marian prints five digits."""
    run, recorded = form
    found = log_probs(run, recorded["sources"], recorded["targets"])
    for own, expected in zip(found, recorded["word_scores"], strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-4)
        assert abs(own.sum() - sum(expected)) < 1e-3


@pytest.mark.integration
@pytest.mark.parametrize(("search", "changes"), [("greedy", "beam_size=1"), ("beam6", "")])
def test_outputs_of_greedy_search_and_of_the_models_own(form, search, changes):
    run, recorded = form
    if search in recorded:
        found = translations(run, recorded["sources"], changes)
        assert found == texts(run, recorded[search])
