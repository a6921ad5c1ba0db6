"""Hyperparameters that every model shares: batching, optimizer, schedule, embeddings.

Names and defaults are those of T2T's `basic_params1`.
"""

import dataclasses

from t2t_lite.hyperparameters import HParams


@dataclasses.dataclass
class BasicHParams(HParams):
    """Fields that the input pipeline, the loss and the training loop read."""

    # --- batches
    batch_size: int = 4096  # subwords per replica and step: max(source, target), padding included
    effective_batch_size: int = 0  # subwords per update, by accumulation; 0: it is given below
    max_length: int = 256  # subwords; training drops longer examples; 0: batch_size is the limit
    min_length: int = 0  # subwords; training drops examples whose longer side is shorter
    min_length_bucket: int = 8  # subwords; the first bucket holds all that is shorter
    length_bucket_step: float = 1.1  # ratio of one bucket's length to the one before
    batch_shuffle_size: int = 512  # batches of one replica held to be shuffled; 0: none
    eval_drop_long_sequences: bool = False  # drop over-long examples in evaluation too
    max_input_seq_length: int = 0  # subwords; sources are cut there (EOS kept); 0: never
    max_target_seq_length: int = 0  # subwords; targets are cut there (EOS kept); 0: never

    # --- size
    hidden_size: int = 512  # D: features of every position between layers (paper: d_model)
    num_hidden_layers: int = 6  # layers of encoder and decoder each (paper: N)

    # --- embeddings
    shared_embedding_and_softmax_weights: bool = False  # one matrix for sources, targets, softmax
    shared_embedding: bool = False  # one matrix for sources and targets, another for the softmax
    multiply_embedding_mode: str = "sqrt_depth"  # embeddings times √hidden_size; none: as they are

    # --- initialisation and regularisation
    initializer: str = "uniform_unit_scaling"  # of dense kernels; no other is known yet
    initializer_gain: float = 1.0  # scale of that variance
    label_smoothing: float = 0.1  # probability mass taken from the right subword (paper: ε_ls)
    clip_grad_norm: float = 2.0  # largest global norm of the gradient; 0: no clipping

    # --- numerics
    dtype: str = "float32"  # of activations: float32, bfloat16, float16; weights are float32
    loss_chunk_tokens: int = 0  # target tokens whose logits exist at a time (memory); 0: all
    xla_compile: bool = False  # compile the gradients by XLA, once for each bucket of lengths

    # --- optimizer
    optimizer: str = "adam"
    optimizer_adam_beta1: float = 0.9  # decay of the mean gradient
    optimizer_adam_beta2: float = 0.999  # decay of the mean squared gradient
    optimizer_adam_epsilon: float = 1e-6  # added to the root of the mean squared gradient
    optimizer_multistep_accumulate_steps: int = 0  # micro-batches per update; 0 and 1: one
    ema_decay: float = 0.0  # share that stays of the weights' moving average; 0: there is none
    optimizer_adafactor_memory_exponent: float = 0.8  # decay of mean squares: 1 - step^-exponent
    optimizer_adafactor_clipping_threshold: float = 1.0  # largest root mean square of an update
    optimizer_momentum_momentum: float = 0.9  # share of the velocity that stays
    optimizer_momentum_nesterov: bool = False  # looks ahead by the velocity
    weight_decay: float = 0.0  # of adam_w: times the rate, the share taken off every weight

    # --- learning rate (training/learning_rate.py)
    learning_rate_schedule: str = "legacy"  # factors joined by *, or "legacy" (scheme below)
    learning_rate_constant: float = 1.0  # the factor "constant"
    learning_rate: float = 0.1  # scale of the legacy schemes
    learning_rate_decay_scheme: str = "none"  # legacy; training/learning_rate.py lists them
    learning_rate_warmup_steps: int = 100  # updates until the peak
    learning_rate_decay_steps: int = 5000  # updates per cycle of exp_decay and the cosines
    learning_rate_decay_rate: float = 1.0  # per decay_steps, of exp_decay and legacy exp
    learning_rate_decay_staircase: bool = False  # exp_decay in jumps
    learning_rate_cosine_cycle_steps: int = 250000  # updates, of legacy cosine
    learning_rate_minimum: float | None = None  # lower bound of the rate; none: no bound

    @property
    def accumulate_steps(self) -> int:
        """Micro-batches per update and replica, at least 1."""
        return max(1, self.optimizer_multistep_accumulate_steps)
