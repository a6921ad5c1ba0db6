"""Every kind of model, and a batch for it."""

import numpy as np
import pytest

from support.model_kinds import KINDS, kinds, model_of
from t2t_lite import registry


@pytest.fixture(params=kinds())
def kind(request):
    return request.param


@pytest.fixture
def model(kind):
    return model_of(kind)


@pytest.fixture
def dropouts(kind):
    """Names of the hparams of a kind that draw at random in training, and do not if they are 0."""
    names = [name for name in registry.hparams(KINDS[kind][1]).names() if name.endswith("dropout")]
    names += ["moe_gating_noise"] if kind in ("experts", "moe_lstm") else []
    names.remove("bpe_dropout")  # which draws while the data is read
    # As in T2T, the Evolved Transformer's feed-forward layers have the layers' dropout inside, too.
    return [name for name in names if (kind, name) != ("evolved", "relu_dropout")]


@pytest.fixture
def features():
    """Sources and targets of unlike lengths, as they leave the pipeline: EOS (1), then padding."""
    return {
        "inputs": np.array(
            [[5, 9, 2, 12, 7, 3, 1], [8, 8, 1, 0, 0, 0, 0], [4, 11, 6, 2, 1, 0, 0]], np.int32
        ),
        "targets": np.array(
            [[3, 10, 1, 0, 0, 0], [6, 2, 9, 12, 4, 1], [7, 1, 0, 0, 0, 0]], np.int32
        ),
    }
