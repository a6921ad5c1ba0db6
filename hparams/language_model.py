"""Sets for language models, under T2T's names and with T2T's values.

They are sets of the Transformer's hparams: a language model is the Transformer's decoder alone.
"""

from t2t_lite import registry
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.hparams.transformer_variations import transformer_clean


@registry.register_hparams
def attention_lm_base() -> TransformerHParams:
    """T2T's base set of `attention_lm`: six post-norm layers of 1,024 features, no smoothing."""
    # models/research/attention_lm.py: the fields that it sets; all others are basic_params1's.
    return TransformerHParams(
        hidden_size=1024,
        filter_size=4096,
        batch_size=8192,
        clip_grad_norm=0.0,
        label_smoothing=0.0,
        optimizer_adam_beta2=0.98,
        optimizer_adam_epsilon=1e-9,
        learning_rate_decay_scheme="noam",
        learning_rate=0.1,
        learning_rate_warmup_steps=2000,
    )


@registry.register_hparams
def attention_lm_small() -> TransformerHParams:
    """T2T's smaller set: four layers of 512 features, dropout 0.5."""
    return attention_lm_base().copy(
        num_hidden_layers=4, hidden_size=512, filter_size=2048, layer_prepostprocess_dropout=0.5
    )


@registry.register_hparams
def attention_lm_translation() -> TransformerHParams:
    """T2T's set for translation by the decoder alone, which reads the source before the target."""
    return attention_lm_base().copy(
        prepend_mode="prepend_inputs_masked_attention",
        layer_preprocess_sequence="n",
        layer_postprocess_sequence="da",
        learning_rate=0.4,
        max_length=512,
        label_smoothing=0.1,
        shared_embedding_and_softmax_weights=True,
    )


@registry.register_hparams
def attention_lm_translation_l12() -> TransformerHParams:
    """T2T's deeper set: 12 layers, 4,096 subwords per batch."""
    return attention_lm_translation().copy(num_hidden_layers=12, batch_size=4096)


@registry.register_hparams
def attention_lm_translation_full_attention() -> TransformerHParams:
    """`attention_lm_translation` in which the source's positions see all of the source."""
    return attention_lm_translation().copy(prepend_mode="prepend_inputs_full_attention")


@registry.register_hparams
def transformer_lm_tpu_0() -> TransformerHParams:
    """T2T's language model of 92 million parameters: 1,024 features, four heads, Adafactor.

    It drops texts of more than 64 subwords, as in T2T: there, each example of its data is full.
    For texts of any length, set `max_length`.
    """
    # models/transformer.py: transformer_clean_big, then update_hparams_for_tpu, then its own.
    return transformer_clean().copy(
        hidden_size=1024,
        filter_size=4096,
        num_heads=4,
        batch_size=4096,
        max_length=64,
        shared_embedding_and_softmax_weights=False,
        layer_prepostprocess_dropout=0.1,
        optimizer="adafactor",
        learning_rate_schedule="rsqrt_decay",
        learning_rate_warmup_steps=10000,
    )
