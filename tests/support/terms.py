"""How many roundings lie on the longest path through the small models of the tests.

The terms of every sum on the way, one after another, for `support.rounding`.
"""


def forward_terms(hparams, length: int, vocab: int) -> int:
    """Returns the terms from a Transformer's embeddings to its log-probabilities.

    Args:
        hparams: the model's; widths, layers.
        length: positions of the longer side.
        vocab: ids of the softmax.
    """
    width, inner = hparams.hidden_size, hparams.filter_size
    # Projections in and out and products of queries and keys; softmax and sum over positions.
    attention = 3 * width + 2 * length
    norm = 2 * width  # a mean and a variance
    encoder = attention + width + inner + 2 * norm
    decoder = 2 * attention + width + inner + 3 * norm
    return hparams.num_hidden_layers * (encoder + decoder) + width + vocab


def lstm_terms(hparams, length: int, vocab: int) -> int:
    """As `forward_terms`, of an LSTM that attends: a recurrence over source, then target."""
    width = hparams.hidden_size
    cell = 3 * width  # of input, attention and state
    attention = 2 * width + 2 * length
    return 2 * length * hparams.num_hidden_layers * cell + attention + width + vocab


def step_terms(forward: int, tokens: int) -> int:
    """Returns the terms of one update by SGD: there, back, and the sum over the batch's tokens.

    Adam is no use in a comparison: it makes as large a step of a gradient that is 0 but for
    rounding as of any other.
    """
    return 2 * forward + tokens
