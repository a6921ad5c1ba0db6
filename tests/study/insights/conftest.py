"""A tiny Transformer of bytes, whose weights are noise, in its run folder."""

import pytest

from support.small_runs import noisy_run
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> run_folder.RunFolder:
    sizes = {"num_hidden_layers": 2, "hidden_size": 12, "filter_size": 16, "num_heads": 3}
    return noisy_run(tmp_path_factory.mktemp("run"), **sizes)


@pytest.fixture(scope="session")
def decoder(run) -> Decoder:
    return Decoder.from_run(run, hparams=DecodeHParams(beam_size=1, extra_length=4))
