"""Hyperparameters of ByteNet, and its registered sets: T2T's and the paper's."""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting


@dataclasses.dataclass
class ByteNetHParams(BasicHParams):
    """Fields of ByteNet in addition to those of every model.

    As in T2T, `num_hidden_layers` is the number of dilations: 1, 2, 4 and so on.
    """

    residual_block: str = setting(
        "bottleneck",
        "bottleneck: one convolution on half the features within each residual connection (paper); "
        "chain: all dilations in a row within one (T2T).",
        choices=("bottleneck", "chain"),
        group="ByteNet",
    )
    num_block_repeat: int = setting(6, "Repetitions of the dilations in each stack.", minimum=1)
    kernel_height: int = setting(3, "k: positions that a convolution sees.", minimum=1)
    unfolding: float = setting(
        1.2, "Encoder positions per source token, to hundredths (paper: a).", minimum=1
    )
    dropout: float = setting(0.1, "Dropout of residual blocks' outputs.", minimum=0, below=1)
    norm_epsilon: float = setting(1e-6, "Added to the variance in layer normalization.", above=0)


@registry.register_hparams
def bytenet_base() -> ByteNetHParams:
    """The values of T2T: 4 chains of dilations 1, 2, 4 and 8 in each stack, 768 features.

    T2T has L2 regularisation (`weight_decay`), too.
    """
    return ByteNetHParams(
        residual_block="chain",
        batch_size=2048,
        max_length=0,
        hidden_size=768,
        num_hidden_layers=4,
        num_block_repeat=4,
        unfolding=1.5,
        dropout=0.2,
        symbol_dropout=0.2,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
        learning_rate=0.05,
        learning_rate_decay_scheme="exp",
        learning_rate_warmup_steps=3000,
    )


@registry.register_hparams
def bytenet_paper() -> ByteNetHParams:
    """The paper's model for characters: 30 blocks of dilations 1 to 16 in each stack, d = 800.

    Adam with a learning rate of 0.0003; no dropout or label smoothing.
    """
    return ByteNetHParams(
        hidden_size=1600,
        num_hidden_layers=5,
        max_length=512,
        dropout=0.0,
        label_smoothing=0.0,
        learning_rate_schedule="constant",
        learning_rate_constant=0.0003,
    )


@registry.register_hparams
def bytenet_multi30k() -> ByteNetHParams:
    """For 29,000 captions: 8 blocks in each stack, d = 128; see `for_multi30k`."""
    small = ByteNetHParams(hidden_size=256, num_hidden_layers=4, num_block_repeat=2, dropout=0.3)
    return for_multi30k(small, learning_rate=0.002)
