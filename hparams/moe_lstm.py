"""Hyperparameters of LSTMs with mixtures of experts between them, and their registered sets."""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.mixture_of_experts import MixtureOfExpertsHParams
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting


@dataclasses.dataclass
class MoELSTMHParams(MixtureOfExpertsHParams):
    """Fields of the model in addition to those of every mixture of experts.

    The number of layers is fixed; `num_hidden_layers` has no effect.
    """

    lstm_cells: int = setting(
        2048, "Features of an LSTM's cell; its output has hidden_size.", minimum=1, group="MoE LSTM"
    )
    dropout: float = setting(0.4, "Dropout of embeddings, LSTMs and mixtures.", minimum=0, below=1)


@registry.register_hparams
def moe_lstm_32() -> MoELSTMHParams:
    """The paper's 32 experts, 4 for each subword (Shazeer et al. 2017, appendix E).

    The paper's rate stays at its peak for 8,000 updates before it falls, and its peak is not
    published. Decode as GNMT, with `alpha=0.2,coverage_penalty=0.2`.
    """
    return MoELSTMHParams(
        batch_size=16000,
        hidden_size=512,
        moe_num_experts=32,
        moe_k=4,
        moe_hidden_sizes="2048",
        moe_loss_coef=1e-2,
        shared_embedding=True,
        multiply_embedding_mode="none",
        label_smoothing=0.0,
        clip_grad_norm=5.0,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
        learning_rate_constant=0.0447,
        learning_rate_warmup_steps=2000,
    )


@registry.register_hparams
def moe_lstm_2048() -> MoELSTMHParams:
    """The paper's largest: 2,048 experts, 8.7 billion parameters.

    The paper chooses 2 of 2 groups of experts by a hierarchy of gates, this one 4 of all experts
    by one gate, with as many operations and weights in experts.
    """
    return moe_lstm_32().copy(moe_num_experts=2048)


@registry.register_hparams
def moe_lstm_multi30k() -> MoELSTMHParams:
    """For 29,000 captions: 256 features, cells of 512, 8 experts, 2 for each subword.

    See `for_multi30k`.
    """
    small = MoELSTMHParams(
        hidden_size=256,
        lstm_cells=512,
        dropout=0.3,
        moe_num_experts=8,
        moe_k=2,
        moe_hidden_sizes="256",
        moe_loss_coef=1e-2,
    )
    return for_multi30k(small, learning_rate=0.002)
