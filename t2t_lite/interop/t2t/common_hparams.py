"""T2T's set of basic hyperparameters."""

from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.interop.t2t.hparam import HParams

__all__ = ["basic_params1"]


def basic_params1() -> HParams:
    """Returns the fields of every model, with T2T's values where they differ from ours.

    Of T2T's models for text, `lstm_seq2seq` alone needs no others, and reads `dropout` among them.
    With the fields of a Transformer, it is a Transformer's set (`HParams.to_settings`).
    """
    return HParams.of(
        LSTMHParams(
            num_hidden_layers=4,
            hidden_size=64,
            max_length=0,
            optimizer_adam_beta1=0.85,
            optimizer_adam_beta2=0.997,
            weight_decay=1e-6,
        )
    )
