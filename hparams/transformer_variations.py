"""T2T's variations of `transformer_base`, many of them rows of the paper's Table 3.

Like all sets under T2T's names, they have T2T's values, which differ from the paper's in places
(T2T's base is pre-norm, for example); tests/hparams checks them.
"""

from t2t_lite import registry
from t2t_lite.hparams.transformer import (
    TransformerHParams,
    transformer_base,
    transformer_base_v1,
    transformer_base_v2,
    transformer_big,
    transformer_tiny,
)


@registry.register_hparams
def transformer_base_multistep8() -> TransformerHParams:
    """Base with Adam on 8 accumulated micro-batches, weighted equally as in T2T."""
    return transformer_base().copy(
        optimizer="multistep_adam", optimizer_multistep_accumulate_steps=8
    )


@registry.register_hparams
def transformer_big_dr1() -> TransformerHParams:
    """The size of big with batches of base and dropout 0.1."""
    return transformer_big().copy(batch_size=4096, layer_prepostprocess_dropout=0.1)


@registry.register_hparams
def transformer_big_dr2() -> TransformerHParams:
    """The size of big with batches of base and dropout 0.2."""
    return transformer_big().copy(batch_size=4096, layer_prepostprocess_dropout=0.2)


@registry.register_hparams
def transformer_clean() -> TransformerHParams:
    """v2 without dropout or label smoothing, for examples of any length."""
    return transformer_base_v2().copy(
        attention_dropout=0.0,
        label_smoothing=0.0,
        layer_prepostprocess_dropout=0.0,
        max_length=0,
        relu_dropout=0.0,
    )


@registry.register_hparams
def transformer_dr0() -> TransformerHParams:
    """Base without dropout of sub-layer outputs (the paper's Table 3, row D, P_drop = 0)."""
    return transformer_base().copy(layer_prepostprocess_dropout=0.0)


@registry.register_hparams
def transformer_dr2() -> TransformerHParams:
    """Base with dropout 0.2 of sub-layer outputs (Table 3, row D)."""
    return transformer_base().copy(layer_prepostprocess_dropout=0.2)


@registry.register_hparams
def transformer_ff1024() -> TransformerHParams:
    """Base with narrower feed-forward layers (Table 3, row C)."""
    return transformer_base().copy(filter_size=1024)


@registry.register_hparams
def transformer_ff4096() -> TransformerHParams:
    """Base with wider feed-forward layers (Table 3, row C)."""
    return transformer_base().copy(filter_size=4096)


@registry.register_hparams
def transformer_h1() -> TransformerHParams:
    """Base with one head (Table 3, row A)."""
    return transformer_base().copy(num_heads=1)


@registry.register_hparams
def transformer_h4() -> TransformerHParams:
    """Base with 4 heads (Table 3, row A)."""
    return transformer_base().copy(num_heads=4)


@registry.register_hparams
def transformer_h16() -> TransformerHParams:
    """Base with 16 heads (Table 3, row A)."""
    return transformer_base().copy(num_heads=16)


@registry.register_hparams
def transformer_h32() -> TransformerHParams:
    """Base with 32 heads (Table 3, row A)."""
    return transformer_base().copy(num_heads=32)


@registry.register_hparams
def transformer_hs256() -> TransformerHParams:
    """Base with 256 features (Table 3, row C; still 8 heads)."""
    return transformer_base().copy(hidden_size=256)


@registry.register_hparams
def transformer_hs1024() -> TransformerHParams:
    """Base with 1,024 features (Table 3, row C; still 8 heads)."""
    return transformer_base().copy(hidden_size=1024)


@registry.register_hparams
def transformer_k128() -> TransformerHParams:
    """Base with keys of 16 features per head (Table 3, row B)."""
    return transformer_base().copy(attention_key_channels=128)


@registry.register_hparams
def transformer_k256() -> TransformerHParams:
    """Base with keys of 32 features per head (Table 3, row B)."""
    return transformer_base().copy(attention_key_channels=256)


@registry.register_hparams
def transformer_l2() -> TransformerHParams:
    """Base with 2 layers (Table 3, row C)."""
    return transformer_base().copy(num_hidden_layers=2)


@registry.register_hparams
def transformer_l4() -> TransformerHParams:
    """Base with 4 layers (Table 3, row C)."""
    return transformer_base().copy(num_hidden_layers=4)


@registry.register_hparams
def transformer_l8() -> TransformerHParams:
    """Base with 8 layers (Table 3, row C)."""
    return transformer_base().copy(num_hidden_layers=8)


@registry.register_hparams
def transformer_l10() -> TransformerHParams:
    """Base with 10 layers."""
    return transformer_base().copy(num_hidden_layers=10)


@registry.register_hparams
def transformer_ls0() -> TransformerHParams:
    """Base without label smoothing (Table 3, row D)."""
    return transformer_base().copy(label_smoothing=0.0)


@registry.register_hparams
def transformer_ls2() -> TransformerHParams:
    """Base with label smoothing 0.2 (Table 3, row D)."""
    return transformer_base().copy(label_smoothing=0.2)


@registry.register_hparams
def transformer_parameter_attention_a() -> TransformerHParams:
    """Base with attention to 1,536 parameter pairs per head in place of feed-forward layers."""
    return transformer_base().copy(ffn_layer="parameter_attention", filter_size=1536)


@registry.register_hparams
def transformer_parameter_attention_b() -> TransformerHParams:
    """Base with 16 heads in all attention, including attention to 512 parameter pairs per head."""
    return transformer_base().copy(
        ffn_layer="parameter_attention",
        filter_size=512,
        num_heads=16,
        parameter_attention_key_channels=1024,
        parameter_attention_value_channels=1024,
    )


@registry.register_hparams
def transformer_parsing_base() -> TransformerHParams:
    """T2T's parser for the Penn Treebank only: wide, with more dropout."""
    return transformer_base().copy(
        attention_dropout=0.2,
        hidden_size=1024,
        layer_prepostprocess_dropout=0.2,
        learning_rate=0.05,
        learning_rate_warmup_steps=16000,
        max_length=512,
        shared_embedding_and_softmax_weights=False,
    )


@registry.register_hparams
def transformer_parsing_big() -> TransformerHParams:
    """T2T's parser for the Penn Treebank and additional trees: big, for long outputs."""
    return transformer_big().copy(
        layer_prepostprocess_dropout=0.1,
        learning_rate=0.05,
        learning_rate_warmup_steps=4000,
        max_length=512,
    )


@registry.register_hparams
def transformer_parsing_ice() -> TransformerHParams:
    """T2T's parser for Icelandic."""
    return transformer_base().copy(
        learning_rate_constant=0.1,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
        learning_rate_warmup_steps=16000,
        shared_embedding_and_softmax_weights=False,
    )


@registry.register_hparams
def transformer_prepend_v1() -> TransformerHParams:
    """`transformer_base_v1` whose decoder reads the source before the target."""
    return _prepend(transformer_base_v1())


@registry.register_hparams
def transformer_prepend_v2() -> TransformerHParams:
    """`transformer_base_v2` whose decoder reads the source before the target."""
    return _prepend(transformer_base_v2())


@registry.register_hparams
def transformer_prepend() -> TransformerHParams:
    """Another name of `transformer_prepend_v2`."""
    return transformer_prepend_v2()


def _prepend(hparams: TransformerHParams) -> TransformerHParams:
    return hparams.copy(prepend_mode="prepend_inputs_masked_attention", max_length=0)


@registry.register_hparams
def transformer_relative() -> TransformerHParams:
    """Base with relative in place of absolute positions (Shaw et al. 2018)."""
    return _relative(transformer_base())


@registry.register_hparams
def transformer_relative_tiny() -> TransformerHParams:
    """Tiny with relative positions."""
    return _relative(transformer_tiny())


@registry.register_hparams
def transformer_relative_big() -> TransformerHParams:
    """Big with relative positions."""
    return _relative(transformer_big())


def _relative(hparams: TransformerHParams) -> TransformerHParams:
    return hparams.copy(
        pos="none", self_attention_type="dot_product_relative", max_relative_position=20
    )
