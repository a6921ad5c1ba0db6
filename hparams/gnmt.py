"""Hyperparameters of Google's neural machine translation system, and its registered sets.

Names are those of tf/nmt's standard hparams (github.com/tensorflow/nmt).
"""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import ATTENTION_HELP, ATTENTION_MECHANISMS
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting


@dataclasses.dataclass
class GNMTHParams(BasicHParams):
    """Fields of GNMT in addition to those of every model."""

    dropout: float = setting(
        0.2, "Dropout of every LSTM layer's inputs.", minimum=0, below=1, group="GNMT"
    )
    attention_mechanism: str = setting(
        "normed_bahdanau", ATTENTION_HELP, choices=ATTENTION_MECHANISMS
    )
    attention_architecture: str = setting(
        "gnmt_v2",
        "Context that the decoder's layers above the first read: gnmt_v2: of this step; gnmt: of "
        "the step before (paper).",
        choices=("gnmt_v2", "gnmt"),
    )
    input_feeding: bool = setting(True, "The first decoder layer reads the previous context.")
    pass_hidden_state: bool = setting(True, "The decoder starts from the encoder's final states.")
    forget_bias: float = setting(1.0, "Added to the forget gates.", minimum=-100, maximum=100)
    second_bias: bool = setting(False, "Two biases in each LSTM, as in cuDNN; their sum matters.")
    softmax_bias: bool = setting(False, "Add a bias to the logits.")
    start_id: int = setting(0, "Id that the decoder reads first; 0: a zero vector.", minimum=0)


@registry.register_hparams
def gnmt_8_layer() -> GNMTHParams:
    """tf/nmt's `wmt16_gnmt_8_layer`: 8 + 8 layers of 1024 features, about 128 sentences per batch.

    SGD at rate 1 for 340,000 steps, halved ten times in the second half. tf/nmt divides its loss by
    the number of sentences, this one by that of subwords. Decode with
    `beam_size=10,alpha=1.0,length_penalty=t2t`.
    """
    return GNMTHParams(
        batch_size=4096,
        max_length=50,
        hidden_size=1024,
        num_hidden_layers=8,
        shared_embedding=True,
        multiply_embedding_mode="none",
        label_smoothing=0.0,
        clip_grad_norm=5.0,
        optimizer="sgd",
        learning_rate_schedule="constant*exp_decay",
        learning_rate_constant=1.0,
        learning_rate_warmup_steps=170000,
        learning_rate_decay_steps=17000,
        learning_rate_decay_rate=0.5,
        learning_rate_decay_staircase=True,
    )


@registry.register_hparams
def gnmt_4_layer() -> GNMTHParams:
    """tf/nmt's `wmt16_gnmt_4_layer`: `gnmt_8_layer` with 4 + 4 layers."""
    return gnmt_8_layer().copy(num_hidden_layers=4)


@registry.register_hparams
def gnmt_wu2016() -> GNMTHParams:
    """The paper's (Wu et al. 2016): layers read the context of the step before.

    Adam at 0.0002; the paper goes on with SGD at rate 0.5 after 60,000 steps, and with
    reinforcement learning after that. Sources and targets have embeddings of their own: 281
    million parameters. Decode with `alpha=0.2,coverage_penalty=0.2`.
    """
    return gnmt_8_layer().copy(
        shared_embedding=False,
        attention_mechanism="bahdanau",
        attention_architecture="gnmt",
        optimizer="adam",
        learning_rate_schedule="constant",
        learning_rate_constant=0.0002,
    )


@registry.register_hparams
def gnmt_mlperf() -> GNMTHParams:
    """NVIDIA's implementation for MLPerf: 160,671,297 parameters with V = 32,320.

    No input feeding, a decoder that starts from zeros and from the id 2, biases as in cuDNN. The
    original halves the learning rate four times in the last third of a training, whatever its
    length.
    """
    return gnmt_4_layer().copy(
        input_feeding=False,
        pass_hidden_state=False,
        forget_bias=0.0,
        second_bias=True,
        softmax_bias=True,
        start_id=2,
        label_smoothing=0.1,
        optimizer="adam",
        learning_rate_schedule="constant*linear_warmup",
        learning_rate_constant=0.001,
        learning_rate_warmup_steps=200,
    )


@registry.register_hparams
def gnmt_multi30k() -> GNMTHParams:
    """For 29,000 captions: 3 + 3 layers of 256 features; see `for_multi30k`."""
    small = GNMTHParams(hidden_size=256, num_hidden_layers=3, dropout=0.3)
    return for_multi30k(small, learning_rate=0.002)
