"""Hyperparameters of Deep-Att, and its registered sets."""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting


@dataclasses.dataclass
class DeepAttHParams(BasicHParams):
    """Fields of Deep-Att in addition to those of every model.

    `hidden_size` is the width of embeddings, and of the softmax; `num_hidden_layers` has no effect.
    """

    lstm_size: int = setting(512, "Features of each LSTM.", minimum=1, group="Deep-Att")
    fast_forward_size: int = setting(2048, "Features of f, the path around the LSTMs.", minimum=1)
    attention_size: int = setting(1280, "Source features that the decoder attends to.", minimum=1)
    num_encoder_layers: int = setting(9, "Layers in each of the encoder's two columns.", minimum=1)
    num_decoder_layers: int = setting(7, "Layers of the decoder.", minimum=1)
    dropout: float = setting(0.1, "Dropout of every LSTM's inputs.", minimum=0, below=1)


@registry.register_hparams
def deep_att() -> DeepAttHParams:
    """Zhou et al. 2016: embeddings of 256 features, LSTMs of 512, 9 + 7 layers.

    f is as wide as the four gates, and the source's f and h, 2 × (2,048 + 512) features, are
    reduced to a quarter for attention. Chosen here: the width of f, and Adam at 0.0004.
    """
    return DeepAttHParams(
        batch_size=4096,
        max_length=80,
        hidden_size=256,
        multiply_embedding_mode="none",
        label_smoothing=0.0,
        learning_rate_schedule="constant*linear_warmup",
        learning_rate_constant=0.0004,
        learning_rate_warmup_steps=1000,
    )


@registry.register_hparams
def deep_att_multi30k() -> DeepAttHParams:
    """For 29,000 captions: LSTMs of 128 features, 3 + 2 layers; see `for_multi30k`."""
    small = DeepAttHParams(
        hidden_size=128,
        lstm_size=128,
        fast_forward_size=256,
        attention_size=192,
        num_encoder_layers=3,
        num_decoder_layers=2,
        dropout=0.3,
    )
    return for_multi30k(small, learning_rate=0.002)
