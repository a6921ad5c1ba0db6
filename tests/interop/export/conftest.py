"""Run folders of tiny models of both kinds, with weights that make long and varied outputs."""

import functools
import pathlib
from collections.abc import Callable

import numpy as np
import pytest

from support import small_runs
from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.interop.export import saved_model
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text import vocabularies
from t2t_lite.text.text_encoder import VocabType

_TEXT = ["plain words and spaces around", "no break, carriage return; many words"] * 20
_MODELS = {
    "transformer": ("transformer_tiny", {"filter_size": 16, "num_heads": 2}),
    "lstm_seq2seq_attention": ("lstm_luong_attention", {}),
    "transformer_encoder": ("transformer_tiny", {"filter_size": 16, "num_heads": 2}),
    "attention_lm": ("attention_lm_small", {"filter_size": 16, "num_heads": 2}),
}


@pytest.fixture(scope="session")
def make_run(tmp_path_factory) -> Callable[[str, str], run_folder.RunFolder]:
    """Returns a function that makes a run folder of a model and a problem, once of each."""

    @functools.cache
    def make(model: str, problem: str) -> run_folder.RunFolder:
        folder = tmp_path_factory.mktemp(model)
        hparams_set, small = _MODELS[model]
        _build_vocabulary(registry.problem(problem), folder / "data")
        sizes = {"num_hidden_layers": 1, "hidden_size": 16, "max_length": 40, **small}
        places = {"folder": folder / "run", "data_dir": folder / "data"}
        run = small_runs.make_run(
            **places, problem=problem, model=model, hparams_set=hparams_set, **sizes
        )
        _save_noise(run)
        return run

    return make


@pytest.fixture(scope="session")
def greedy_export(make_run, tmp_path_factory) -> tuple[Decoder, pathlib.Path]:
    """A decoder of bytes, and the folder that it was exported to."""
    run = make_run("lstm_seq2seq_attention", "translate_ende_wmt_characters")
    hparams = DecodeHParams.of(run.problem, "beam_size=1,extra_length=3")
    folder = tmp_path_factory.mktemp("exports")
    saved_model.export(run, str(run.folder / "model.ckpt-7"), str(folder), hparams)
    return Decoder.from_run(run, hparams=hparams, long_input="truncate"), folder


def _build_vocabulary(problem, folder: pathlib.Path) -> None:
    folder.mkdir()
    if problem.vocab_type != VocabType.CHARACTER:
        path = folder / problem.vocab_filename
        vocabularies.build(problem.vocab_type, path, _TEXT, 320)


def _save_noise(run: run_folder.RunFolder) -> None:
    model = run.build_model()
    for i, variable in enumerate(model.trainable_variables):
        noise = np.random.RandomState(i).normal(size=variable.shape)
        variable.assign(noise * 2.0 / variable.shape[0] ** 0.5 + (variable.name == "gamma"))
    small_runs.save_weights(run.folder, model)
