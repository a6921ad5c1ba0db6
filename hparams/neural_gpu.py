"""Hyperparameters of the Neural GPUs, and their registered sets."""

import dataclasses

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting


@dataclasses.dataclass
class NeuralGPUHParams(BasicHParams):
    """Fields of the Neural GPUs in addition to those of every model.

    `num_hidden_layers` is the number of convolutional gated recurrent units in each step.
    """

    dropout: float = setting(
        0.1, "Dropout of the tape before every step.", minimum=0, below=1, group="Neural GPU"
    )
    kernel_height: int = setting(3, "Cells that a convolution sees along positions.", minimum=1)
    kernel_width: int = setting(1, "Cells that it sees across them.", minimum=1)
    tape_width: int = setting(1, "Cells across the tape of a sentence (paper: w).", minimum=1)
    tape_ratio: float = setting(
        1.0,
        "Cells along the tape for each token of the source; source and output must fit.",
        minimum=0.01,
    )
    tape_extra: int = setting(0, "Cells along the tape in addition.", minimum=0)


@registry.register_hparams
def neural_gpu() -> NeuralGPUHParams:
    """T2T's set for algorithmic problems: one unit of 256 features."""
    return NeuralGPUHParams(
        batch_size=1024,
        max_length=0,
        num_hidden_layers=1,
        hidden_size=256,
        dropout=0.1,
        label_smoothing=0.0,
        clip_grad_norm=10.0,
        learning_rate_decay_scheme="exp",
        learning_rate=0.02,
        learning_rate_warmup_steps=3000,
        optimizer_adam_epsilon=1e-6,
        optimizer_adam_beta1=0.85,
        optimizer_adam_beta2=0.997,
    )


@registry.register_hparams
def extended_neural_gpu() -> NeuralGPUHParams:
    """For translation, on a tape 4 cells wide: two units of 512 features in each step.

    The paper leaves the sizes open; width, kernels and the number of units are those of its
    authors' program (tensorflow/models, research/neural_gpu).
    """
    return neural_gpu().copy(
        max_length=256,
        num_hidden_layers=2,
        hidden_size=512,
        kernel_width=3,
        tape_width=4,
        tape_ratio=1.5,
        tape_extra=10,
        label_smoothing=0.1,
    )


@registry.register_hparams
def extended_neural_gpu_multi30k() -> NeuralGPUHParams:
    """For 29,000 captions: 128 features on a tape 1 cell wide; see `for_multi30k`."""
    small = extended_neural_gpu().copy(
        batch_size=4096,
        num_hidden_layers=1,
        hidden_size=128,
        kernel_width=1,
        tape_width=1,
        optimizer_adam_beta1=0.9,
    )
    return for_multi30k(small, learning_rate=0.002)
