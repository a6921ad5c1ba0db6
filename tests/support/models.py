"""How many roundings lie on the longest path through a model."""

from t2t_lite.models.neural_gpu import NeuralGPU
from t2t_lite.models.recurrent import RecurrentSeq2Seq
from t2t_lite.models.universal_transformer import UniversalTransformer


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


def roundings_of(model, length: int) -> int:
    """Returns the same where each product is summed in float32: one rounding, whatever its size."""
    return len(model.trainable_variables) * _repeats(model, length)


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
    return length if isinstance(model, (RecurrentSeq2Seq, NeuralGPU)) else 1
