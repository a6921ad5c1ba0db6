"""Hyperparameters of the recurrent models, and their registered sets under T2T's names."""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting

# Those of layers/recurrent_attention.py.
ATTENTION_MECHANISMS = (
    "bahdanau",
    "normed_bahdanau",
    "luong",
    "luong_dot",
    "luong_concat",
    "factored",
)
ATTENTION_HELP = (
    "Attention to the source. bahdanau and luong_concat: additive; normed_bahdanau: additive with "
    "a normalized score vector; luong: multiplicative, with a matrix (the paper's general); "
    "luong_dot: dot product; factored: Shazeer et al. 2017, appendix G."
)


@dataclasses.dataclass
class LSTMHParams(BasicHParams):
    """Fields of the recurrent models in addition to those of every model."""

    dropout: float = setting(
        0.2, "Dropout of every LSTM layer's inputs.", minimum=0, below=1, group="LSTM"
    )
    cell: str = setting("lstm", "Kind of recurrent cell.", choices=("lstm", "gru"))
    attention_mechanism: str = setting("bahdanau", ATTENTION_HELP, choices=ATTENTION_MECHANISMS)
    attention_window: int = setting(
        0, "D of Luong's local-p attention: positions on each side; 0: global.", minimum=0
    )


@registry.register_hparams
def lstm_bahdanau_attention() -> LSTMHParams:
    """Two layers of 128 features with additive attention (Bahdanau et al. 2015).

    T2T's set of this name has `max_length=0`, and Adam's betas are 0.85 and 0.997.
    """
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


@registry.register_hparams
def lstm_seq2seq() -> LSTMHParams:
    """T2T's set of this name: two layers of 128 features."""
    return LSTMHParams(
        batch_size=1024,
        max_length=0,
        hidden_size=128,
        num_hidden_layers=2,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
    )


@registry.register_hparams
def lstm_multi30k() -> LSTMHParams:
    """For 29,000 captions: two layers of 256 features; see `for_multi30k`."""
    small = LSTMHParams(hidden_size=256, num_hidden_layers=2, dropout=0.3)
    return for_multi30k(small, learning_rate=0.002)
