"""Hyperparameters of every model: batching, optimizer, schedule, embeddings.

Names are those of T2T's `basic_params1`, and most of the defaults.
"""

import dataclasses
import functools
import logging
from typing import Any, ClassVar

from t2t_lite.registry import snake_case
from t2t_lite.settings import HParams, setting

log = logging.getLogger(__name__)


@dataclasses.dataclass
class BasicHParams(HParams):
    """Fields that the input pipeline, the loss and the training loop read."""

    # What the batches of the input pipeline depend on, which `t2t_lite.dataset` takes.
    of_batches: ClassVar[tuple[str, ...]] = (
        *("batch_size", "max_length", "min_length", "min_length_bucket", "length_bucket_step"),
        *("batch_shuffle_size", "eval_drop_long_sequences"),
        *("max_input_seq_length", "max_target_seq_length", "bpe_dropout", "unigram_alpha"),
        *("source_casing_noise", "source_typo_noise", "source_punctuation_noise"),
    )

    # --- batches
    batch_size: int = 4096  # subwords per replica and step on the longer side, with padding
    effective_batch_size: int = 0  # subwords per update, by accumulation; 0: not set
    max_length: int = 256  # subwords; training drops longer examples; 0: up to batch_size
    min_length: int = 0  # subwords; training drops examples shorter on both sides
    min_length_bucket: int = 8  # subwords; upper length of the first bucket
    length_bucket_step: float = 1.1  # ratio of a bucket's length to the previous one's
    # subwords; training pads batches to multiples of it, up to the bucket's longest length
    length_multiple: int = setting(8, "Batches are padded to multiples of it.", minimum=1)
    batch_shuffle_size: int = 512  # batches per replica in the shuffle buffer; 0: no shuffling
    eval_drop_long_sequences: bool = False  # also drop examples that are too long in evaluation
    max_input_seq_length: int = 0  # subwords; longer sources are cut (EOS kept); 0: never
    max_target_seq_length: int = 0  # subwords; longer targets are cut (EOS kept); 0: never

    # --- subword sampling: training draws the segmentation of each sentence anew every epoch
    # SentencePiece BPE: probability of skipping a merge (Provilkov et al. 2020: 0.1); 0: off
    bpe_dropout: float = setting(0.0, "Skips merges of BPE.", minimum=0, maximum=1)
    # SentencePiece unigram: a segmentation's probability to this power, less than 1 for more
    # variety, is its weight (Kudo 2018: 0.1 to 0.5); 0: off
    unigram_alpha: float = setting(0.0, "Samples unigram's segmentations.", minimum=0)

    # --- noise in the sources that training reads, anew every epoch; each a probability, 0: off
    source_casing_noise: float = setting(0.0, "Of a sentence: other case.", minimum=0, maximum=1)
    # that a word has two letters exchanged, one dropped or one doubled
    source_typo_noise: float = setting(0.0, "Of a word: a typing error.", minimum=0, maximum=1)
    source_punctuation_noise: float = setting(
        0.0, "Of a sentence: no punctuation at its end.", minimum=0, maximum=1
    )

    # --- size
    # D: features per position between layers (paper: d_model)
    hidden_size: int = setting(512, "Features per position.", minimum=1)
    # layers in each of encoder and decoder (paper: N)
    num_hidden_layers: int = setting(6, "Layers on each side.", minimum=0)

    # --- embeddings
    shared_embedding_and_softmax_weights: bool = False  # one matrix for sources, targets, softmax
    shared_embedding: bool = False  # one matrix for sources and targets, another for the softmax
    multiply_embedding_mode: str = "sqrt_depth"  # multiply embeddings by √hidden_size; or none

    # --- initialisation and regularisation
    initializer: str = "uniform_unit_scaling"  # of dense kernels; the only one available
    initializer_gain: float = 1.0  # scale of the initial variance
    # probability mass taken from the correct subword (paper: ε_ls)
    label_smoothing: float = setting(0.1, "Mass of the other subwords.", minimum=0, below=1)
    symbol_dropout: float = setting(
        0.0,
        "Probability that a subword's embedding is 0 in training, both sides.",
        minimum=0,
        maximum=1,
    )
    rdrop_alpha: float = setting(
        0.0, "Weight of the divergence of two passes with different dropout.", minimum=0
    )
    clip_grad_norm: float = 2.0  # maximum global norm of the gradient; 0: no clipping

    # --- numerics
    dtype: str = "float32"  # of activations: float32, bfloat16 or float16; weights stay float32
    loss_chunk_tokens: int = 0  # target tokens per piece of the logits, to save memory; 0: all
    xla_compile: bool = False  # compile the gradient step with XLA, once per length bucket

    # --- optimizer
    optimizer: str = "adam"
    optimizer_adam_beta1: float = 0.9  # decay rate of the mean gradient
    optimizer_adam_beta2: float = 0.999  # decay rate of the mean squared gradient
    optimizer_adam_epsilon: float = 1e-6  # added to the root of the mean squared gradient
    optimizer_multistep_accumulate_steps: int = 0  # micro-batches per update; 0 and 1: one
    ema_decay: float = 0.0  # decay rate of the weights' moving average; 0: no average
    optimizer_adafactor_memory_exponent: float = 0.8  # decay of mean squares: 1 - step^-exponent
    optimizer_adafactor_clipping_threshold: float = 1.0  # maximum root mean square of an update
    optimizer_momentum_momentum: float = 0.9  # decay rate of the velocity
    optimizer_momentum_nesterov: bool = False  # use Nesterov momentum
    weight_decay: float = 0.0  # adam_w: weights shrink by this times the learning rate

    # --- learning rate (training/learning_rate.py)
    learning_rate_schedule: str = "legacy"  # factors joined by *, or legacy (the schemes below)
    learning_rate_constant: float = 1.0  # the factor "constant"
    learning_rate: float = 0.1  # scale of the legacy schemes
    learning_rate_decay_scheme: str = "none"  # legacy scheme; see training/learning_rate.py
    learning_rate_warmup_steps: int = 100  # updates until the peak
    learning_rate_decay_steps: int = 5000  # updates per cycle of exp_decay and the cosines
    learning_rate_decay_rate: float = 1.0  # factor per decay_steps, for exp_decay and legacy exp
    learning_rate_decay_staircase: bool = False  # apply exp_decay in discrete steps
    learning_rate_cosine_cycle_steps: int = 250000  # updates per cycle of legacy cosine
    learning_rate_minimum: float | None = None  # lower bound of the learning rate; none: no bound

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "optimizer" and isinstance(value, str):  # T2T's old names, such as Adam
            if (new := snake_case(value)) != value:
                _warn_of_optimizer(value, new)
            value = new
        super().__setattr__(name, value)

    @property
    def embedding_stddev(self) -> float | None:
        """Standard deviation of initial embeddings; none: 1/√hidden_size."""
        return None

    @property
    def prepends_inputs(self) -> bool:
        """Whether training joins source and target into one sequence."""
        return False

    @property
    def accumulate_steps(self) -> int:
        """Micro-batches per update and replica, at least 1."""
        return max(1, self.optimizer_multistep_accumulate_steps)


@functools.cache
def _warn_of_optimizer(old: str, name: str) -> None:
    """Warns once."""
    log.warning("hparam optimizer=%s: an old name; write %s", old, name)
