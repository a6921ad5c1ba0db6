"""Hyperparameters of mixtures of experts, for all models that have them; defaults are T2T's."""

import dataclasses

from t2t_lite.hparams.basic import BasicHParams


@dataclasses.dataclass
class MixtureOfExpertsHParams(BasicHParams):
    """Fields of a mixture of experts (layers/mixture_of_experts.py)."""

    moe_num_experts: int = 16  # E: experts of each mixture
    moe_k: int = 2  # k: experts for each subword
    moe_hidden_sizes: str = "2048"  # features inside an expert; T2T's list, of one layer here
    moe_loss_coef: float = 1e-3  # weight of the losses of unequal importance and load
    moe_gating_noise: float = 1.0  # factor of the gate's noise in training; 0: none
