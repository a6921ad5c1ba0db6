"""T2T's set of basic hyperparameters."""

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.tensor2tensor_api.hparam import HParams

__all__ = ["basic_params1"]


def basic_params1() -> HParams:
    """Returns the fields of every model, with T2T's values where they differ from ours.

    No model takes only these: start from the set of a model, such as `transformer_base`.
    """
    return HParams.of(
        BasicHParams(
            num_hidden_layers=4,
            hidden_size=64,
            max_length=0,
            optimizer_adam_beta1=0.85,
            optimizer_adam_beta2=0.997,
            weight_decay=1e-6,
        )
    )
