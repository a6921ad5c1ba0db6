"""Hyperparameters of the LSTM with attention, and its registered sets under T2T's names."""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams


@dataclasses.dataclass
class LSTMHParams(BasicHParams):
    """Fields of the LSTM models in addition to those of every model."""

    dropout: float = 0.2  # dropout rate of the inputs of every LSTM layer
    attention_mechanism: str = "bahdanau"  # bahdanau (additive) or luong (multiplicative)


@registry.register_hparams
def lstm_bahdanau_attention() -> LSTMHParams:
    """Two layers of 128 features with additive attention (Bahdanau et al. 2015)."""
    return LSTMHParams(
        batch_size=1024, hidden_size=128, num_hidden_layers=2, attention_mechanism="bahdanau"
    )


@registry.register_hparams
def lstm_luong_attention() -> LSTMHParams:
    """The same with multiplicative attention (Luong et al. 2015)."""
    return lstm_bahdanau_attention().copy(attention_mechanism="luong")


@registry.register_hparams
def lstm_attention() -> LSTMHParams:
    """The default LSTM with attention: `lstm_bahdanau_attention`."""
    return lstm_bahdanau_attention()
