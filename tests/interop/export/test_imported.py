"""A model of Marian comes in by t2t-import, and goes out with the same outputs in every format."""

import pathlib

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from support.tensorflow_text import needs_tensorflow_text
from t2t_lite.interop.export import ctranslate2 as exporter
from t2t_lite.interop.export import keras_archive, saved_model
from t2t_lite.interop.imports import open_models
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams

pytestmark = pytest.mark.integration

FIXTURE = pathlib.Path(__file__).parents[2] / "fixtures" / "marian"
COUNT = 40  # lines


def lines(name: str) -> list[str]:
    return (FIXTURE / name).read_text(encoding="utf-8").splitlines()[:COUNT]


def texts(name: str) -> list[str]:
    """What Marian has printed, as text."""
    pieces = sentencepiece.SentencePieceProcessor(str(FIXTURE / "target.spm"))
    return [pieces.decode(line.split()) for line in lines(name)]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    folder = tmp_path_factory.mktemp("imported") / "run"
    open_models.import_run(str(FIXTURE), str(folder))
    return RunFolder.open(str(folder))


@pytest.mark.parametrize(
    ("name", "beam_size", "least"),
    # CTranslate2 ends a beam sooner than Marian.
    [("greedy.txt", 1, COUNT), ("beam6_norm1.txt", 6, COUNT - 2)],
)
def test_ctranslate2_outputs_what_marian_does(run, tmp_path, name, beam_size, least):
    ctranslate2 = pytest.importorskip("ctranslate2")
    exporter.export(run, None, str(tmp_path / "out"), "float32")
    source, target = (
        sentencepiece.SentencePieceProcessor(f"{tmp_path}/out/vocab.imported.{side}.spm")
        for side in ("source", "target")
    )
    found = ctranslate2.Translator(str(tmp_path / "out")).translate_batch(
        source.encode(lines("test.en"), out_type=str), beam_size=beam_size, length_penalty=1
    )
    outputs = [target.decode(result.hypotheses[0]) for result in found]
    same = sum(output == text for output, text in zip(outputs, texts(name), strict=True))
    assert same >= least
    assert "`length_penalty=1` here" in (tmp_path / "out" / "README.md").read_text()


@needs_tensorflow_text
def test_a_saved_model_outputs_what_marian_does(run, tmp_path):
    hparams = DecodeHParams.of(run, "beam_size=1")
    saved_model.export(run, None, str(tmp_path), hparams)
    translate = tf.saved_model.load(str(tmp_path / "translate" / "1")).signatures["serving_default"]
    found = translate(inputs=tf.constant(lines("test.en")))["outputs"].numpy()
    assert [text.decode() for text in found] == texts("greedy.txt")


def test_a_keras_file_is_the_model(run, tmp_path):
    keras_archive.export(run, None, str(tmp_path))
    loaded = keras.saving.load_model(tmp_path / "keras" / "1" / "model.keras")
    features = {"inputs": np.array([[5, 9, 7, 1]]), "targets": np.array([[8, 4, 1, 0]])}
    model = run.load_model().model
    np.testing.assert_array_equal(loaded(features), model(features))
    assert loaded.never_output == model.never_output != ()
