"""Hyperparameters of every model: batching, optimizer, schedule, embeddings.

Names are those of T2T's `basic_params1`, and most of the defaults.
"""

import dataclasses
import functools
import logging
import re
from typing import Any, ClassVar

from t2t_lite.errors import UsageError
from t2t_lite.names import snake_case
from t2t_lite.settings import HParams, setting, settings_of

log = logging.getLogger(__name__)

# The title of the hparams that change the examples of each epoch.
DRAWN_ANEW = "Sampling of subwords, noise and augmentation, drawn anew every epoch"

PARTS = ("embeddings", "encoder", "decoder", "output")  # of a model, as `frozen` names them

# Fields of `BasicHParams` that describe the model, not its training.
_OF_MODEL = {
    *("hidden_size", "num_hidden_layers"),
    *("shared_embedding_and_softmax_weights", "shared_embedding", "multiply_embedding_mode"),
}
# Fields of models that act in training alone.
_ACT_IN_TRAINING = ("guided_alignment_weight", "act_halting_bias_init")
# Those whose difference the weights show: there are others, or of another shape.
_SHOWN_BY_WEIGHTS = re.compile(
    r"share.*|hidden_size|filter_size|num_\w*layers|\w+_channels|max_length"
)


@dataclasses.dataclass
class BasicHParams(HParams):
    """Fields that the input pipeline, the loss and the training loop read."""

    # What the batches of the input pipeline depend on, which `t2t_lite.dataset` takes.
    of_batches: ClassVar[tuple[str, ...]] = (
        *("batch_size", "max_length", "min_length", "min_length_bucket", "length_bucket_step"),
        *("batch_shuffle_size", "eval_drop_long_sequences"),
        *("mixture_temperature", "mixture_annealing_steps"),
        *("max_input_seq_length", "max_target_seq_length", "bpe_dropout", "unigram_alpha"),
        *("source_casing_noise", "source_typo_noise", "source_punctuation_noise"),
        *("term_augmentation", "markup_augmentation"),
    )

    # The weights of training objectives with more than the cross entropy, and what messages call
    # them; 0: not asked for.
    objectives: ClassVar[dict[str, str]] = {"rdrop_alpha": "R-Drop", "simcut_alpha": "SimCut"}

    sets: ClassVar[tuple[str, ...]] = ("frozen",)

    # Fields of subclasses that belong to a training, not to the model.
    of_training: ClassVar[tuple[str, ...]] = ("dropout",)

    batch_size: int = setting(
        4096,
        "Subwords per replica and step, of the longer side with its padding.",
        minimum=1,
        group="Batches",
    )
    effective_batch_size: int = setting(
        0,
        "At least so many subwords per update, by accumulation of whole batches; 0: not set.",
        minimum=0,
    )
    max_length: int = setting(
        256, "Subwords; training drops longer examples; 0: batch_size.", minimum=0
    )
    min_length: int = setting(
        0, "Subwords; training drops examples with both sides shorter.", minimum=0
    )
    min_length_bucket: int = setting(8, "Subwords; upper length of the first bucket.", minimum=1)
    length_bucket_step: float = setting(
        1.1, "Ratio of a bucket's upper length to that of the bucket before.", minimum=1
    )
    length_multiple: int = setting(
        8,
        "Training pads batches to multiples of it, but not beyond their bucket's upper length.",
        minimum=1,
    )
    batch_shuffle_size: int = setting(
        512,
        "Batches per replica in the shuffle buffer; 0: batches come as they fill. Examples are "
        "shuffled in any case.",
        minimum=0,
    )
    eval_drop_long_sequences: bool = setting(
        False,
        "Loss and accuracy of evaluations, too, leave out examples by min_length and max_length; "
        "outputs are of all.",
    )
    max_input_seq_length: int = setting(
        0, "Subwords; longer sources are cut, keeping their EOS; 0: no limit.", minimum=0
    )
    max_target_seq_length: int = setting(
        0, "Subwords; longer targets are cut, keeping their EOS; 0: no limit.", minimum=0
    )

    mixture_temperature: float = setting(
        1.0,
        "In a mixture of problems, an example is of one with n examples in proportion to n to the "
        "power of 1 / mixture_temperature: 1 is by size, 5 has more of the small ones, 100 nearly "
        "the same of all. Weights in the mixture replace it.",
        minimum=1,
    )
    mixture_annealing_steps: int = setting(
        0,
        "Updates in which the weights of a mixture such as a:0.9..0.5+b:0.1..0.5 move from the "
        "first to the last, in a straight line.",
        minimum=0,
    )

    bpe_dropout: float = setting(
        0.0,
        "Probability of skipping a merge of SentencePiece BPE (Provilkov et al. 2020: 0.1).",
        minimum=0,
        maximum=1,
        group=DRAWN_ANEW,
    )
    unigram_alpha: float = setting(
        0.0,
        "Segmentations by SentencePiece unigram are drawn with their probabilities to this power, "
        "below 1 for more variety (Kudo 2018: 0.1 to 0.5); 0: off.",
        minimum=0,
    )
    source_casing_noise: float = setting(
        0.0, "Probability that a source is written in another case.", minimum=0, maximum=1
    )
    source_typo_noise: float = setting(
        0.0,
        "Probability that a source word has two letters exchanged, one dropped or one doubled.",
        minimum=0,
        maximum=1,
    )
    source_punctuation_noise: float = setting(
        0.0, "Probability that a source loses the punctuation at its end.", minimum=0, maximum=1
    )

    term_augmentation: float = setting(
        0.0,
        "Share of the pairs whose sources suggest target words, which the model learns to use: for "
        "decoding with term_mode=soft. Needs the alignments of t2t-datagen --alignments.",
        minimum=0,
        maximum=1,
    )
    markup_augmentation: float = setting(
        0.0,
        "Share of the pairs with placeholders on both sides, which the model learns to carry: for "
        "decoding text with tags. Words aligned by t2t-datagen --alignments, or equal, give way.",
        minimum=0,
        maximum=1,
    )

    hidden_size: int = setting(
        512, "D: features per position between layers (paper: d_model).", minimum=1, group="Size"
    )
    num_hidden_layers: int = setting(6, "N: layers in each of encoder and decoder.", minimum=0)

    shared_embedding_and_softmax_weights: bool = setting(
        False, "One matrix for sources, targets and softmax.", group="Embeddings"
    )
    shared_embedding: bool = setting(
        False, "One matrix for sources and targets, another for the softmax."
    )
    multiply_embedding_mode: str = setting(
        "sqrt_depth", "Factor of embeddings: √hidden_size, or none.", choices=("sqrt_depth", "none")
    )

    initializer: str = setting(
        "uniform_unit_scaling",
        "Initial values of dense kernels.",
        choices=("uniform_unit_scaling",),
        group="Initialization and regularization",
    )
    initializer_gain: float = setting(1.0, "Scale of the initial variance.", above=0)
    label_smoothing: float = setting(
        0.1,
        "Probability taken from the correct subword for all others (paper: ε_ls).",
        minimum=0,
        below=1,
    )
    symbol_dropout: float = setting(
        0.0,
        "Probability that a subword's embedding is 0 in training, on both sides.",
        minimum=0,
        below=1,
    )
    rdrop_alpha: float = setting(
        0.0,
        "R-Drop: weight of the divergence of two passes with different dropout; 0: one pass.",
        minimum=0,
    )
    simcut_alpha: float = setting(
        0.0,
        "SimCut: weight of the divergence of a second pass that some subwords are cut from; "
        "0: one pass.",
        minimum=0,
    )
    simcut_rate: float = setting(
        0.05, "SimCut: probability that a subword is cut, on both sides.", above=0, below=1
    )
    clip_grad_norm: float = setting(2.0, "Maximum norm of the gradient; 0: no clipping.", minimum=0)

    dtype: str = setting(
        "float32",
        "Type of activations; weights stay float32.",
        choices=("float32", "bfloat16", "float16"),
        group="Numerics",
    )
    loss_chunk_tokens: int = setting(
        0,
        "Target tokens whose logits are computed at once (R-Drop and SimCut: half as many); fewer "
        "need less memory. 0: as many as are fastest, which are all on a GPU.",
        minimum=0,
    )
    xla_compile: bool = setting(
        False, "Compile the gradient step with XLA, once for each bucket of lengths."
    )

    optimizer: str = setting(
        "adam",
        "Update rule, under T2T's name.",
        choices=(
            *("adam", "true_adam", "multistep_adam", "adam_w", "adafactor", "momentum", "sgd"),
            *("adagrad", "ftrl", "rms_prop"),
        ),
        group="Optimizer",
    )
    optimizer_adam_beta1: float = setting(0.9, "Decay of the mean gradient.", minimum=0, below=1)
    optimizer_adam_beta2: float = setting(
        0.999, "Decay rate of the mean squared gradient.", minimum=0, below=1
    )
    optimizer_adam_epsilon: float = setting(
        1e-6, "Added to the root of the mean squared gradient.", above=0
    )
    optimizer_multistep_accumulate_steps: int = setting(
        0, "Micro-batches per update; 0 and 1: one.", minimum=0
    )
    ema_decay: float = setting(
        0.0, "Decay rate of the weights' moving average; 0: no average.", minimum=0, below=1
    )
    optimizer_adafactor_memory_exponent: float = setting(
        0.8, "Mean squares decay by 1 - step^-exponent.", minimum=0
    )
    optimizer_adafactor_clipping_threshold: float = setting(
        1.0, "Maximum root mean square of an update.", above=0
    )
    optimizer_momentum_momentum: float = setting(0.9, "Decay of the velocity.", minimum=0, below=1)
    optimizer_momentum_nesterov: bool = setting(False, "Use Nesterov momentum.")
    weight_decay: float = setting(
        0.0, "adam_w: weights shrink by this times the learning rate.", minimum=0
    )

    learning_rate_schedule: str = setting(
        "legacy",
        "Factors of the learning rate, joined by *: constant, linear_warmup, rsqrt_decay, "
        "rsqrt_normalized_decay, rsqrt_hidden_size, exp_decay, cosdecay, single_cycle_cos_decay, "
        "multi_cycle_cos_decay; legacy: learning_rate_decay_scheme.",
        group="Learning rate",
    )
    learning_rate_constant: float = setting(1.0, "The factor constant.", minimum=0)
    learning_rate: float = setting(0.1, "Scale of the legacy schemes.", minimum=0)
    learning_rate_decay_scheme: str = setting(
        "none",
        "Legacy scheme.",
        choices=("none", "", "noam", "exp", "sqrt", "cosine", "cyclelinear10x"),
    )
    learning_rate_warmup_steps: int = setting(100, "Updates until the peak.", minimum=0)
    learning_rate_decay_steps: int = setting(
        5000, "Updates per cycle of exp_decay and the cosines.", minimum=1
    )
    learning_rate_decay_rate: float = setting(
        1.0, "Factor per learning_rate_decay_steps, for exp_decay and legacy exp.", above=0
    )
    learning_rate_decay_staircase: bool = setting(False, "Apply exp_decay in discrete steps.")
    learning_rate_cosine_cycle_steps: int = setting(
        250000, "Updates per cycle of legacy cosine.", minimum=1
    )
    learning_rate_minimum: float | None = setting(
        None, "Lower bound of the learning rate; none: no bound.", minimum=0
    )

    frozen: str = setting(
        "",
        "Parts whose weights do not change, joined by +. embeddings: the matrices that embed "
        "sources and targets, even one that the softmax shares; encoder, decoder: all their other "
        "weights; output: what remains, such as the softmax's own matrix and the output bias.",
        group="Fine-tuning",
    )
    warm_start_model: bool = setting(
        False,
        "The fields that describe the model, such as its sizes, are those of the run that "
        "--warm_start_from names, unless --hparams changes them.",
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "optimizer" and isinstance(value, str):
            new = snake_case(value)  # T2T's old names, such as Adam
            if new != value and new in settings_of(type(self))[name].choices:
                _warn_of_optimizer(value, new)
                value = new
        super().__setattr__(name, value)
        if name == "frozen":
            _check_parts(value)

    @property
    def embedding_stddev(self) -> float | None:
        """Standard deviation of initial embeddings; none: 1/√hidden_size."""
        return None

    @property
    def prepends_inputs(self) -> bool:
        """Whether the decoder reads source and target as one sequence."""
        return False

    @property
    def is_guided(self) -> bool:
        """Whether training reads the alignments of the data."""
        return False

    @property
    def predicts_inputs(self) -> bool:
        """Whether the decoder learns to predict the source, too."""
        return False

    @property
    def objective(self) -> str:
        """The one of `objectives` that is asked for; empty: cross entropy alone.

        Raises:
            UsageError: several are.
        """
        asked = [name for name in self.objectives if getattr(self, name)]
        if len(asked) > 1:
            given = ", ".join(f"{name}={getattr(self, name):g}" for name in asked)
            raise UsageError(
                f"hparams {given}: a model is trained for {' or '.join(self.objectives.values())}, "
                "not for both: set all but one of them to 0"
            )
        return asked[0] if asked else ""

    def model_fields(self) -> dict[str, Any]:
        """Returns the fields that describe the model, by name, and none of its training."""
        training = {*BasicHParams.names(), *self.of_training} - _OF_MODEL
        return {name: value for name, value in self._values().items() if name not in training}

    def computed_fields(self) -> dict[str, Any]:
        """Returns `model_fields`, of sequences of steps those of the model alone."""
        return {
            name: steps_of_model(value) if name.endswith("_sequence") else value
            for name, value in self.model_fields().items()
        }

    def computed_otherwise(self, other: "BasicHParams") -> dict[str, tuple[Any, Any]]:
        """Returns the values here and there of fields by which equal weights compute otherwise.

        Args:
            other: of a model that may lack some of the fields, or have more.
        """
        theirs = other.computed_fields()
        return {
            name: (value, theirs[name])
            for name, value in self.computed_fields().items()
            if name not in _ACT_IN_TRAINING
            and not _SHOWN_BY_WEIGHTS.fullmatch(name)
            and theirs.get(name, value) != value
        }

    @property
    def frozen_parts(self) -> list[str]:
        """The parts that `frozen` names."""
        return self.frozen.split("+") if self.frozen else []

    @property
    def parts_weigh_equally(self) -> bool:
        """Whether all parts of a batch have the same weight, however many tokens they have."""
        return self.optimizer == "multistep_adam"

    @property
    def accumulate_steps(self) -> int:
        """Micro-batches per update and replica, at least 1."""
        return max(1, self.optimizer_multistep_accumulate_steps)

    @property
    def learning_rate_end(self) -> int | None:
        """The number of updates after which the learning rate is 0 for good; None: it never is."""
        factors = "".join(self.learning_rate_schedule.split()).split("*")
        if "single_cycle_cos_decay" not in factors or self.learning_rate_minimum:
            return None
        return self.learning_rate_warmup_steps + self.learning_rate_decay_steps


def _check_parts(frozen: str) -> None:
    for part in frozen.split("+") if frozen else ():
        if part not in PARTS:
            raise UsageError(
                f"hparam frozen={frozen}: unknown part {part!r}; name some of {', '.join(PARTS)}, "
                "joined by +"
            )


@functools.cache
def _warn_of_optimizer(old: str, name: str) -> None:
    """Warns once."""
    log.warning("hparam optimizer=%s: an old name; write %s", old, name)


def steps_of_model(sequence: str) -> str:
    """Returns a sequence such as T2T's `layer_postprocess_sequence` without steps of training."""
    return sequence.replace("none", "").replace("d", "")
