"""How many roundings lie on the longest path through a model, for `support.rounding`.

They are the terms of every sum on the way, one after another.
"""

from t2t_lite.models.recurrent import RecurrentSeq2Seq
from t2t_lite.models.universal_transformer import UniversalTransformer
from t2t_lite.systems.neural_gpu import ExtendedNeuralGPU, NeuralGPU


def terms_of(model, length: int) -> int:
    """Returns the terms of all sums of a model, one after another, for `assert_close`.

    Args:
        model: any `Seq2Seq`.
        length: positions of the longer side, source or target.
    """
    products = sum(_terms(variable) for variable in model.trainable_variables)
    # The softmax adds up all positions, and so does the mean that it weights.
    attention = sum(2 * length for layers in model.attention_layers().values() for _ in layers)
    return (products + attention) * _repeats(model, length)


def log_prob_terms(model, length: int) -> int:
    """Returns the terms from the ids to the log-probabilities, whose softmax sums over V."""
    return terms_of(model, length) + model.targets_vocab_size


def roundings_of(model, length: int) -> int:
    """Returns the same where each product is summed in float32: one rounding, whatever its size."""
    return len(model.trainable_variables) * _repeats(model, length)


def forward_terms(hparams, length: int, vocab: int) -> int:
    """As `log_prob_terms`, where there are only the hyperparameters of a Transformer.

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

    Do not compare updates by Adam: a gradient that is only rounding moves a weight as far as any
    other gradient.
    """
    return 2 * forward + tokens


def _terms(variable) -> int:
    """The sum that a weight takes part in."""
    if len(variable.shape) == 1:  # a norm's mean and variance; else it is added or multiplied
        return 2 * variable.shape[0] if variable.name == "gamma" else 1
    # An embedding [V, D] is the softmax matrix, too; a kernel is [..., inputs, outputs].
    return variable.shape[-1] if variable.name == "matrix" else variable.shape[-2]


def _repeats(model, length: int) -> int:
    """How often a value passes through the same weights."""
    if isinstance(model, UniversalTransformer):
        return max(model.hparams.num_rec_steps, model.hparams.act_max_steps)
    return length if isinstance(model, (RecurrentSeq2Seq, NeuralGPU, ExtendedNeuralGPU)) else 1
