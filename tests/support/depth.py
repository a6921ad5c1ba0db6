"""How many roundings lie on the path through a model, for the bound in `rounding`."""

import math


def net_terms(model, length: int) -> int:
    """Returns the terms of all sums between the ids and the log-probabilities.

    A product sums as many terms as its matrix has rows, and at most one sum over the positions
    follows it (attention, its softmax); an embedding has a row for each term of the last softmax;
    a norm sums over its channels. Layers beside one another are counted as if one followed the
    other, which widens the bound by the square root of at most 3.

    Args:
        model: any model, built; the path through a step of a recurrent one.
        length: greatest number of positions that are summed over.
    """
    shapes = [tuple(weight.shape) for weight in model.weights]
    products = sum(math.prod(shape[:-1]) + length for shape in shapes if len(shape) > 1)
    norms = sum(weight.shape[0] for weight in model.weights if weight.name == "gamma")
    return products + norms + model.hparams.hidden_size  # of the logits
