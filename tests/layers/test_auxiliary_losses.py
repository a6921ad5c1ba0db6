"""Losses of layers, given the sums over a batch."""

import pytest

from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.models.universal_transformer import AdaptiveSteps


@pytest.mark.parametrize(
    "make",
    [lambda: AdaptiveSteps(4, 2, loss_weight=0.5), lambda: MixtureOfExperts(4, 3, 2)],
    ids=["act", "experts"],
)
def test_no_tokens_cost_nothing(make):
    """NaN would end a run."""
    layer = make()
    losses = layer.auxiliary_losses(layer.no_statistics())
    assert set(map(float, losses.values())) == {0.0}


def test_the_loss_of_adaptive_steps_is_the_weighted_cost_of_a_token():
    layer = AdaptiveSteps(4, 2, loss_weight=0.5)
    assert float(layer.auxiliary_losses({"cost": 6.0, "tokens": 4.0})["act"]) == 0.5 * 6 / 4
