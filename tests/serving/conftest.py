"""A gate, and a tiny model of bytes, to serve."""

from collections.abc import Iterator

import pytest

from support.servers import BEAMS, Gate
from support.small_runs import noisy_run
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A closed gate."""
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> run_folder.RunFolder:
    """A run folder of a tiny Transformer for bytes, whose weights are noise."""
    return noisy_run(
        tmp_path_factory.mktemp("run"),
        num_hidden_layers=1,
        hidden_size=16,
        filter_size=16,
        num_heads=2,
    )


@pytest.fixture(scope="session")
def decoder(run) -> Decoder:
    """The model of the run folder."""
    return Decoder.from_run(run, hparams=DecodeHParams(beam_size=BEAMS, extra_length=4))
