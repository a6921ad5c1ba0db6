"""Hyperparameters of mixtures of experts, for all models that have them; defaults are T2T's."""

import dataclasses
from typing import ClassVar

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.settings import setting


@dataclasses.dataclass
class MixtureOfExpertsHParams(BasicHParams):
    """Fields of a mixture of experts (layers/mixture_of_experts.py)."""

    of_training: ClassVar[tuple[str, ...]] = (
        *BasicHParams.of_training,
        *("moe_loss_coef", "moe_gating_noise"),
    )

    moe_num_experts: int = setting(
        16, "E: experts of each mixture.", minimum=1, group="Mixture of experts"
    )
    moe_k: int = setting(2, "k: experts for each subword.", minimum=1)
    moe_hidden_sizes: str = setting("2048", "Features inside an expert; T2T's list of one layer.")
    moe_loss_coef: float = setting(
        1e-3, "Weight of the losses of unequal importance and load.", minimum=0
    )
    moe_gating_noise: float = setting(
        1.0, "Factor of the gate's noise in training; 0: none.", minimum=0
    )
