"""Translations of imported Hugging Face models with unusual settings equal those of transformers.

support/make_hugging_face_texts.py has made the models and recorded the translations: with added
tokens, several ids that end an output, least lengths, a forced end, and no list of languages.
"""

import json
import pathlib

import pytest

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.interop.imports import open_models
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "hugging_face_texts"


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_translations(name: str, tmp_path):
    pytest.importorskip("safetensors")
    recorded = json.loads((FIXTURES / name / "records" / "texts.json").read_text("utf-8"))
    source, target = recorded["languages"] or ("", "")
    folder = str(tmp_path / "run")
    open_models.import_run(
        str(FIXTURES / name), folder, source_language=source, target_language=target
    )
    run = RunFolder.open(folder)
    decoder = Decoder.from_run(run, hparams=DecodeHParams.of(run))
    found = Translator(decoder)(list(recorded["texts"]))
    assert found == [*recorded["texts"].values()]
