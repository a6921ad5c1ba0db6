"""Every kind of model, and a batch for it."""

import pytest

from support.model_kinds import BATCH, KINDS, kinds, model_of
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
    """A copy of `BATCH`."""
    return {name: ids.copy() for name, ids in BATCH.items()}
