"""The models of "Attention Is All You Need", one set per row of its tables.

These sets have the paper's values; T2T's similar sets (`transformer_base`, `transformer_h1`) have
T2T's. docs/paper.md lists the differences. In the names, a1 is the first of the rows (A) of
Table 3, and so on.
"""

from t2t_lite import registry
from t2t_lite.hparams.transformer import (
    TransformerHParams,
    transformer_base_v1,
    transformer_multi30k_prenorm,
)


@registry.register_hparams
def transformer_paper_base() -> TransformerHParams:
    """Table 3, base: sections 3 and 5, with updates of 25,000 subwords per side."""
    return transformer_base_v1().copy(effective_batch_size=25_000)


@registry.register_hparams
def transformer_paper_a1() -> TransformerHParams:
    """Table 3 (A): one head, d_k = d_v = 512."""
    return transformer_paper_base().copy(num_heads=1)


@registry.register_hparams
def transformer_paper_a2() -> TransformerHParams:
    """Table 3 (A): 4 heads, d_k = d_v = 128."""
    return transformer_paper_base().copy(num_heads=4)


@registry.register_hparams
def transformer_paper_a3() -> TransformerHParams:
    """Table 3 (A): 16 heads, d_k = d_v = 32."""
    return transformer_paper_base().copy(num_heads=16)


@registry.register_hparams
def transformer_paper_a4() -> TransformerHParams:
    """Table 3 (A): 32 heads, d_k = d_v = 16."""
    return transformer_paper_base().copy(num_heads=32)


@registry.register_hparams
def transformer_paper_b1() -> TransformerHParams:
    """Table 3 (B): d_k = 16."""
    return transformer_paper_base().copy(attention_key_channels=8 * 16)


@registry.register_hparams
def transformer_paper_b2() -> TransformerHParams:
    """Table 3 (B): d_k = 32."""
    return transformer_paper_base().copy(attention_key_channels=8 * 32)


@registry.register_hparams
def transformer_paper_c1() -> TransformerHParams:
    """Table 3 (C): 2 layers."""
    return transformer_paper_base().copy(num_hidden_layers=2)


@registry.register_hparams
def transformer_paper_c2() -> TransformerHParams:
    """Table 3 (C): 4 layers."""
    return transformer_paper_base().copy(num_hidden_layers=4)


@registry.register_hparams
def transformer_paper_c3() -> TransformerHParams:
    """Table 3 (C): 8 layers."""
    return transformer_paper_base().copy(num_hidden_layers=8)


@registry.register_hparams
def transformer_paper_c4() -> TransformerHParams:
    """Table 3 (C): d_model = 256, d_k = d_v = 32."""
    return transformer_paper_base().copy(hidden_size=256)


@registry.register_hparams
def transformer_paper_c5() -> TransformerHParams:
    """Table 3 (C): d_model = 1024, d_k = d_v = 128."""
    return transformer_paper_base().copy(hidden_size=1024)


@registry.register_hparams
def transformer_paper_c6() -> TransformerHParams:
    """Table 3 (C): d_ff = 1024."""
    return transformer_paper_base().copy(filter_size=1024)


@registry.register_hparams
def transformer_paper_c7() -> TransformerHParams:
    """Table 3 (C): d_ff = 4096."""
    return transformer_paper_base().copy(filter_size=4096)


@registry.register_hparams
def transformer_paper_d1() -> TransformerHParams:
    """Table 3 (D): no dropout."""
    return transformer_paper_base().copy(layer_prepostprocess_dropout=0.0)


@registry.register_hparams
def transformer_paper_d2() -> TransformerHParams:
    """Table 3 (D): dropout 0.2."""
    return transformer_paper_base().copy(layer_prepostprocess_dropout=0.2)


@registry.register_hparams
def transformer_paper_d3() -> TransformerHParams:
    """Table 3 (D): no label smoothing."""
    return transformer_paper_base().copy(label_smoothing=0.0)


@registry.register_hparams
def transformer_paper_d4() -> TransformerHParams:
    """Table 3 (D): label smoothing 0.2."""
    return transformer_paper_base().copy(label_smoothing=0.2)


@registry.register_hparams
def transformer_paper_e() -> TransformerHParams:
    """Table 3 (E): learned positions in place of sinusoids."""
    return transformer_paper_base().copy(pos="emb")


@registry.register_hparams
def transformer_paper_big() -> TransformerHParams:
    """Table 3, big: twice the width and heads, dropout 0.3; for EN-DE."""
    return transformer_paper_base().copy(
        hidden_size=1024, filter_size=4096, num_heads=16, layer_prepostprocess_dropout=0.3
    )


@registry.register_hparams
def transformer_paper_big_enfr() -> TransformerHParams:
    """Section 6.1: big with dropout 0.1, for EN-FR."""
    return transformer_paper_big().copy(layer_prepostprocess_dropout=0.1)


@registry.register_hparams
def transformer_paper_aop1() -> TransformerHParams:
    """AOP₁ of the paper's first version: attention to 1,536 parameter pairs in place of the FFN."""
    return transformer_paper_base().copy(ffn_layer="parameter_attention", filter_size=1536)


@registry.register_hparams
def transformer_paper_aop2() -> TransformerHParams:
    """AOP₂: 16 heads with 512 pairs each, as in the paper's table; its text says 8 heads.

    T2T's hparam `num_heads` would change all attention; `parameter_attention_heads` does not.
    """
    return transformer_paper_base().copy(
        ffn_layer="parameter_attention",
        filter_size=512,
        parameter_attention_heads=16,
        parameter_attention_key_channels=16 * 64,
        parameter_attention_value_channels=16 * 64,
    )


@registry.register_hparams
def transformer_paper_parsing() -> TransformerHParams:
    """Section 6.3, WSJ only: 4 layers of 1,024 features.

    The paper does not state dropout and learning rate; these are T2T's.
    """
    return transformer_paper_base().copy(
        num_hidden_layers=4,
        hidden_size=1024,
        max_length=512,
        layer_prepostprocess_dropout=0.2,
        attention_dropout=0.2,
        learning_rate=0.05,
        learning_rate_warmup_steps=16_000,
    )


@registry.register_hparams
def transformer_paper_parsing_semi() -> TransformerHParams:
    """Section 6.3, semi-supervised: 4 layers of 1,024 features; dropout and rate are T2T's."""
    return transformer_paper_parsing().copy(
        layer_prepostprocess_dropout=0.1, attention_dropout=0.1, learning_rate_warmup_steps=4000
    )


@registry.register_hparams
def transformer_paper_tiny() -> TransformerHParams:
    """The paper's base with a quarter of its width and half its layers, for 29,000 captions.

    Trains like `transformer_multi30k_prenorm`, but with the paper's dropout.
    """
    return transformer_multi30k_prenorm().copy(
        num_hidden_layers=3,
        hidden_size=128,
        filter_size=512,
        num_heads=8,
        layer_prepostprocess_dropout=0.1,
    )
