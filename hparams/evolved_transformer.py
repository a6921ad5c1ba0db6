"""Registered sets of the Evolved Transformer under T2T's names; the fields are the Transformer's.

One of its layers is about as large as two of the Transformer's, hence about half as many.
"""

from t2t_lite import registry
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.hparams.transformer import (
    TransformerHParams,
    transformer_base,
    transformer_big,
    transformer_multi30k_prenorm,
    transformer_tiny,
)


@registry.register_hparams
def evolved_transformer_base() -> TransformerHParams:
    """The base model: 3 and 4 layers of 512 features; cosine decay."""
    return _evolved(transformer_base())


@registry.register_hparams
def evolved_transformer_big() -> TransformerHParams:
    """The big model: 3 and 4 layers of 1,024 features; cosine decay."""
    return _evolved(transformer_big())


@registry.register_hparams
def evolved_transformer_deep() -> TransformerHParams:
    """The deep model: 9 and 10 layers of 640 features; cosine decay."""
    return evolved_transformer_big().copy(
        num_encoder_layers=9, num_decoder_layers=10, hidden_size=640
    )


@registry.register_hparams
def evolved_transformer_tiny() -> TransformerHParams:
    """3 and 4 layers of 128 features; cosine decay, without warm-up."""
    return _evolved(transformer_tiny()).copy(
        learning_rate_schedule="constant*single_cycle_cos_decay"
    )


@registry.register_hparams
def evolved_transformer_multi30k() -> TransformerHParams:
    """For 29,000 captions: `transformer_multi30k_prenorm` with 2 evolved layers a side.

    See `for_multi30k`.
    """
    small = transformer_multi30k_prenorm().copy(num_hidden_layers=2)
    return for_multi30k(small, learning_rate=0.003)


def _evolved(hparams: TransformerHParams) -> TransformerHParams:
    """Applies T2T's `add_evolved_transformer_hparams`."""
    return hparams.copy(
        num_encoder_layers=3,
        num_decoder_layers=4,
        learning_rate_constant=hparams.learning_rate_constant
        / hparams.learning_rate_warmup_steps**0.5,
        learning_rate_schedule="constant*linear_warmup*single_cycle_cos_decay*rsqrt_hidden_size",
    )
