"""Hyperparameters of the Transformer, and its registered sets under T2T's names.

Sets without the word `paper` in their docstring have T2T's values; tests/hparams checks them.
"""

import dataclasses
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.mixture_of_experts import MixtureOfExpertsHParams
from t2t_lite.settings import setting

_MASKED = "prepend_inputs_masked_attention"  # a value of prepend_mode


@dataclasses.dataclass
class TransformerHParams(MixtureOfExpertsHParams):
    """Fields of the Transformer in addition to those of every model."""

    of_training: ClassVar[tuple[str, ...]] = (
        *MixtureOfExpertsHParams.of_training,
        *("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout"),
        "recompute_activations",
    )

    sets: ClassVar[tuple[str, ...]] = (*MixtureOfExpertsHParams.sets, "suppressed_ids")

    num_encoder_layers: int = setting(
        0, "Layers of the encoder; 0: num_hidden_layers.", minimum=0, group="Transformer"
    )
    num_decoder_layers: int = setting(0, "Layers of the decoder; 0: num_hidden_layers.", minimum=0)
    shared_target_and_softmax_weights: bool = setting(
        False, "One matrix for targets and softmax, whatever sources have."
    )
    num_heads: int = setting(8, "H: attention heads (paper: h).", minimum=1)
    guided_alignment_weight: float = setting(
        0.0,
        "Weight of the loss by which the first head of the last layer's attention to the source "
        "learns the alignments of t2t-datagen --alignments; 0: none.",
        minimum=0,
    )
    ffn_layer: str = setting(
        "dense_relu_dense",
        "The feed-forward layer; parameter_attention: attention to filter_size parameters per "
        "head; local_moe: a mixture of experts (moe_...).",
        choices=("dense_relu_dense", "parameter_attention", "local_moe"),
    )
    filter_size: int = setting(2048, "d_ff: features inside the feed-forward layer.", minimum=1)
    attention_key_channels: int = setting(
        0, "Features of the keys, all heads together; 0: hidden_size.", minimum=0
    )
    attention_value_channels: int = setting(
        0, "Features of the values, all heads together; 0: hidden_size.", minimum=0
    )
    ffn_activation: str = setting(
        "relu",
        "Activation inside dense_relu_dense; gelu is exact, gelu_tanh and gelu_sigmoid approximate "
        "it.",
        choices=("relu", "swish", "gelu", "gelu_tanh", "gelu_sigmoid"),
    )
    attention_bias: bool = setting(
        False, "Add biases to queries, keys, values and outputs of attention."
    )
    pos: str = setting(
        "timing",
        "Positions: T2T's sinusoids, those with the paper's wavelengths, learned vectors up to "
        "max_length, or none.",
        choices=("timing", "timing_paper", "emb", "none"),
    )
    position_offset: int = setting(
        0, "Position of the first symbol, where positions are sinusoids.", minimum=0
    )
    start_id: int = setting(0, "Id that the decoder reads first; 0: a zero vector.", minimum=0)
    softmax_bias: bool = setting(False, "Add a bias to the logits.")
    softmax_padding: bool = setting(
        True, "Whether padding (id 0) has a probability, as in T2T, which learns that it is 0."
    )
    suppressed_ids: str = setting(
        "", "Ids that a search never outputs, joined by +; other probabilities stay as they are."
    )
    end_ids: str = setting("", "Ids that end an output as EOS (id 1) does, joined by +.")
    self_attention_type: str = setting(
        "dot_product",
        "Plain attention, or with relative positions.",
        choices=("dot_product", "dot_product_relative"),
    )
    max_relative_position: int = setting(
        0, "Maximum relative distance; larger ones are clipped to it.", minimum=0
    )
    attention_neighborhood: int = setting(
        0,
        "r: positions that self-attention sees, centered on its own; if r is even, one more lies "
        "before than after; 0: all.",
        minimum=0,
    )
    decoder_self: str = setting(
        "attention",
        "What a decoder layer reads earlier targets with: self-attention, or ssru, a recurrent "
        "unit whose step takes the same time however long the output is.",
        choices=("attention", "ssru"),
    )
    use_target_space_embedding: bool = setting(False, "Add a learned vector to all encoder inputs.")
    prepend_mode: str = setting(
        "none",
        "prepend_inputs_masked_attention, prepend_inputs_full_attention: the decoder reads the "
        "source before the target; masked, it learns to predict both.",
        choices=("none", _MASKED, "prepend_inputs_full_attention"),
    )
    parameter_attention_heads: int = setting(
        0, "Heads of parameter_attention (paper: h_p); 0: num_heads.", minimum=0
    )
    parameter_attention_key_channels: int = setting(
        0, "Features of its keys, all heads together (h_p × d_pk); 0: hidden_size.", minimum=0
    )
    parameter_attention_value_channels: int = setting(
        0, "Features of its values, all heads together (h_p × d_pv); 0: hidden_size.", minimum=0
    )
    layer_preprocess_sequence: str = setting(
        "none",
        "Steps before each sub-layer: n normalize, d dropout, a add its input; n: pre-norm; none: "
        "post-norm (paper).",
    )
    layer_postprocess_sequence: str = setting(
        "dan", "Steps after each sub-layer; da: pre-norm; dan: post-norm (paper)."
    )
    layer_final_sequence: str = setting(
        "preprocess",
        "Steps after the last layer of encoder and decoder; preprocess: layer_preprocess_sequence.",
        choices=("preprocess", "n", "none"),
    )
    layer_prepostprocess_dropout: float = setting(
        0.1, "Dropout of embeddings and sub-layer outputs (paper: P_drop).", minimum=0, below=1
    )
    attention_dropout: float = setting(0.0, "Dropout of attention weights.", minimum=0, below=1)
    relu_dropout: float = setting(0.0, "Dropout inside the feed-forward layer.", minimum=0, below=1)
    norm_epsilon: float = setting(1e-6, "Added to the variance in layer normalization.", above=0)
    recompute_activations: bool = setting(
        False,
        "Recompute layers in the backward pass: less memory, more time, the same gradients.",
    )

    def model_fields(self) -> dict[str, Any]:
        """Returns the fields that describe the model; see `BasicHParams`."""
        learned = {"max_length": self.max_length} if self.pos == "emb" else {}
        return super().model_fields() | learned

    @property
    def is_guided(self) -> bool:
        """Whether training reads the alignments of the data."""
        return self.guided_alignment_weight > 0

    @property
    def prepends_inputs(self) -> bool:
        """Whether the decoder reads source and target as one sequence."""
        return self.prepend_mode != "none"

    @property
    def predicts_inputs(self) -> bool:
        """Whether the decoder learns to predict the source, too."""
        return self.prepend_mode == _MASKED

    @property
    def final_sequence(self) -> str:
        """Steps after the last layer; see `LayerSteps`."""
        final = self.layer_final_sequence
        return self.layer_preprocess_sequence if final == "preprocess" else final

    @property
    def never_output(self) -> tuple[int, ...]:
        """The ids of `suppressed_ids`; see `ids_in`."""
        return self.ids_in("suppressed_ids")

    @property
    def other_ends(self) -> tuple[int, ...]:
        """The ids of `end_ids`; see `ids_in`."""
        return self.ids_in("end_ids")

    def ids_in(self, name: str) -> tuple[int, ...]:
        """Returns the ids that an hparam lists.

        Raises:
            UsageError: it is not a list of ids.
        """
        value: str = getattr(self, name)
        ids = value.split("+") if value else []
        if not all(text.isascii() and text.isdecimal() for text in ids):
            raise UsageError(f"hparam {name}={value!r}: expected ids, such as 2 or 2+7")
        return tuple(map(int, ids))

    @property
    def encoder_layers(self) -> int:
        """Number of encoder layers."""
        return self.num_encoder_layers or self.num_hidden_layers

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers."""
        return self.num_decoder_layers or self.num_hidden_layers

    @property
    def key_channels(self) -> int:
        """Features of the keys, all heads together (paper: h × d_k)."""
        return self.attention_key_channels or self.hidden_size

    @property
    def value_channels(self) -> int:
        """Features of the values, all heads together (paper: h × d_v)."""
        return self.attention_value_channels or self.hidden_size


@registry.register_hparams
def transformer_base_v1() -> TransformerHParams:
    """The base model of the paper: post-norm, with the paper's learning rate."""
    return TransformerHParams(
        shared_embedding_and_softmax_weights=True,
        clip_grad_norm=0.0,
        optimizer_adam_beta2=0.98,
        optimizer_adam_epsilon=1e-9,
        learning_rate_decay_scheme="noam",
        learning_rate=0.1,
        learning_rate_warmup_steps=4000,
    )


@registry.register_hparams
def transformer_base_v2() -> TransformerHParams:
    """Pre-norm, with dropout in attention and feed-forward layers and twice the learning rate."""
    return transformer_base_v1().copy(
        layer_preprocess_sequence="n",
        layer_postprocess_sequence="da",
        attention_dropout=0.1,
        relu_dropout=0.1,
        learning_rate_warmup_steps=8000,
        learning_rate=0.2,
    )


@registry.register_hparams
def transformer_base_v3() -> TransformerHParams:
    """As v2, with the schedule as a formula and Adam's beta2 0.997."""
    return transformer_base_v2().copy(
        optimizer_adam_beta2=0.997,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size",
        learning_rate_constant=2.0,
    )


@registry.register_hparams
def transformer_base() -> TransformerHParams:
    """T2T's base model: `transformer_base_v3`."""
    return transformer_base_v3()


@registry.register_hparams
def transformer_base_single_gpu() -> TransformerHParams:
    """Base with small batches, a lower learning rate and a longer warm-up."""
    return transformer_base().copy(
        batch_size=1024,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
        learning_rate_constant=0.1,
        learning_rate_warmup_steps=16000,
    )


@registry.register_hparams
def transformer_big() -> TransformerHParams:
    """The big model for EN-DE: twice the width and heads, dropout 0.3."""
    return transformer_base().copy(
        hidden_size=1024,
        filter_size=4096,
        batch_size=2048,
        num_heads=16,
        layer_prepostprocess_dropout=0.3,
    )


@registry.register_hparams
def transformer_big_single_gpu() -> TransformerHParams:
    """Big with dropout 0.1 and a longer warm-up."""
    return transformer_big().copy(
        layer_prepostprocess_dropout=0.1, learning_rate_warmup_steps=16000
    )


@registry.register_hparams
def transformer_big_enfr() -> TransformerHParams:
    """T2T's big model for EN-FR: separate embeddings, wider feed-forward layers."""
    return transformer_base().copy(
        hidden_size=1024,
        num_heads=16,
        shared_embedding_and_softmax_weights=False,
        filter_size=8192,
        layer_prepostprocess_dropout=0.1,
    )


@registry.register_hparams
def transformer_small() -> TransformerHParams:
    """Two layers of 256 features."""
    return transformer_base().copy(
        num_hidden_layers=2, hidden_size=256, filter_size=1024, num_heads=4
    )


@registry.register_hparams
def transformer_tiny() -> TransformerHParams:
    """Two layers of 128 features."""
    return transformer_base().copy(
        num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4
    )


@registry.register_hparams
def transformer_test() -> TransformerHParams:
    """Two layers of 16 features, for tests."""
    return transformer_base().copy(num_hidden_layers=2, hidden_size=16, filter_size=8, num_heads=2)


@registry.register_hparams
def transformer_multi30k() -> TransformerHParams:
    """For 29,000 captions: the Transformer-tiny of Wu et al. (ACL 2021), post-norm.

    Four layers of 128 features, dropout 0.3 and a peak rate of 0.005, as published. Kernels start
    at half the usual size (a quarter of the variance): otherwise, early updates make the encoder's
    outputs equal at all positions, and attention to the source learns nothing (docs/results.md).
    The rate peaks after 1,000 updates and reaches 0 after 10,000, so train with
    `--train_steps=10000`. (Published: peak after 2,000, then the inverse square root.)
    """
    return transformer_base_v1().copy(
        num_hidden_layers=4,
        hidden_size=128,
        filter_size=256,
        num_heads=4,
        layer_prepostprocess_dropout=0.3,
        initializer_gain=0.25,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="constant*linear_warmup*single_cycle_cos_decay",
        learning_rate_constant=0.005,
        learning_rate_warmup_steps=1000,
        learning_rate_decay_steps=9000,
        batch_shuffle_size=64,
    )


@registry.register_hparams
def transformer_finetune() -> TransformerHParams:
    """To train a model further on your own text: its sizes are those of `--warm_start_from`.

    The learning rate is constant after 100 updates, and low, so that the model keeps what it knows;
    batches are small, since an adaptation takes hundreds of updates, not thousands. Train on a mix
    of your text and of general text, or the model forgets the general; docs/results.md has figures.
    `frozen=encoder` takes less time, but learns less.
    """
    return transformer_base().copy(
        warm_start_model=True,
        batch_size=1024,
        batch_shuffle_size=64,
        clip_grad_norm=1.0,
        optimizer_adam_beta2=0.98,
        learning_rate_schedule="constant*linear_warmup",
        learning_rate_constant=1e-4,
        learning_rate_warmup_steps=100,
    )


@registry.register_hparams
def transformer_quickstart() -> TransformerHParams:
    """For the quick start: learns `translate_ende_locale` in minutes on two CPU cores."""
    return transformer_base().copy(
        num_hidden_layers=2,
        hidden_size=128,
        filter_size=512,
        num_heads=4,
        batch_size=2048,
        max_length=64,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
        learning_rate_constant=0.04,
        learning_rate_warmup_steps=400,
        batch_shuffle_size=64,
    )


@registry.register_hparams
def transformer_quickstart2() -> TransformerHParams:
    """`transformer_quickstart` that copies numbers more reliably, in about the same time.

    Attention knows relative positions, and the encoder has a third layer, which tell equal digits
    apart. The learning rate reaches 0 after 1,500 updates, so train with `--train_steps=1500`.
    """
    return transformer_quickstart().copy(
        num_encoder_layers=3,
        filter_size=384,
        self_attention_type="dot_product_relative",
        max_relative_position=8,
        learning_rate_schedule="constant*linear_warmup*single_cycle_cos_decay",
        learning_rate_constant=0.003,
        learning_rate_warmup_steps=200,
        learning_rate_decay_steps=1300,
    )


@registry.register_hparams
def transformer_quickstart3() -> TransformerHParams:
    """`transformer_quickstart2` that learns as much from a third of the subwords.

    Batches are a quarter of the size; Adam forgets large early gradients sooner. The learning rate
    reaches 0 after 2,000 updates, so train with `--train_steps=2000`.
    """
    return transformer_quickstart2().copy(
        batch_size=512,
        optimizer_adam_beta2=0.98,
        learning_rate_warmup_steps=100,
        learning_rate_decay_steps=1900,
    )


@registry.register_hparams
def transformer_multi30k_prenorm() -> TransformerHParams:
    """The pre-norm form of `transformer_multi30k`, with T2T's initial weights.

    Train with `--train_steps=10000`, after which the learning rate is 0.
    """
    return transformer_multi30k().copy(
        layer_preprocess_sequence="n", layer_postprocess_sequence="da", initializer_gain=1.0
    )


@registry.register_hparams
def transformer_multi30k2() -> TransformerHParams:
    """`transformer_multi30k` with relative positions up to 16, which learns faster.

    docs/results.md has the recipe: 4,000 updates without R-Drop, then 5,000 with it.
    """
    return transformer_multi30k().copy(
        self_attention_type="dot_product_relative", max_relative_position=16
    )


@registry.register_hparams
def transformer_treebank() -> TransformerHParams:
    """For a few thousand trees: `transformer_multi30k_prenorm` with few, long sentences per batch.

    Dropout 0.2. The learning rate peaks at 0.002 and reaches 0 after 10,000 updates, so train with
    `--train_steps=10000`.
    """
    return transformer_multi30k_prenorm().copy(
        batch_size=2048,
        max_length=512,
        layer_prepostprocess_dropout=0.2,
        learning_rate_constant=0.002,
        learning_rate_warmup_steps=500,
        learning_rate_decay_steps=9500,
    )


@registry.register_hparams
def transformer_treebank2() -> TransformerHParams:
    """`transformer_treebank` with relative positions up to 16; F1 is 11 points higher.

    Positions among symbols tell the model which words a bracket spans (docs/results.md).
    """
    return transformer_treebank().copy(
        self_attention_type="dot_product_relative", max_relative_position=16
    )


@registry.register_hparams
def transformer_moe_base() -> TransformerHParams:
    """Base with 16 experts as the feed-forward layer, at as many operations per subword.

    Each subword goes to 2 experts of 1,024 features: half of the 2,048 of base. T2T's sets of
    this kind do not run in its last release.
    """
    return transformer_base().copy(
        ffn_layer="local_moe",
        moe_num_experts=16,
        moe_k=2,
        moe_hidden_sizes="1024",
        moe_loss_coef=1e-2,
    )


@registry.register_hparams
def transformer_moe_multi30k() -> TransformerHParams:
    """`transformer_multi30k_prenorm` with 8 experts, at as many operations per subword."""
    return transformer_multi30k_prenorm().copy(
        ffn_layer="local_moe",
        moe_num_experts=8,
        moe_k=2,
        moe_hidden_sizes="128",
        moe_loss_coef=1e-2,
    )
