"""How many roundings lie on the way through a Transformer (see rounding.py)."""

from t2t_lite.hparams.transformer import TransformerHParams


def transformer_terms(hparams: TransformerHParams, length: int, vocabulary: int) -> int:
    """Returns the fan-ins along the depth of encoder and decoder, up to a log-probability."""
    d = hparams.hidden_size
    # Projection, product of a head's features, softmax and mean over the positions, projection.
    attention = 2 * d + d // hparams.num_heads + 2 * length
    norm, feed_forward = d, d + hparams.filter_size
    encoder, decoder = (n * (attention + norm) + feed_forward + norm for n in (1, 2))
    return hparams.num_hidden_layers * (encoder + decoder) + 2 * norm + d + vocabulary
