"""Whether a class of a user's own computes the same in all its ways.

Training reads `hidden` of a model, Keras `call`, and a search `decode_step`; other programs compute
what a Transformer does. A class that changes one of them alone would give other outputs than it was
trained for.
"""

from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.hparams_model import is_own
from t2t_lite.models.seq2seq import Features, Seq2Seq
from t2t_lite.models.transformer import Transformer

_SENTENCES, _LENGTH = 2, 4  # of the batch that is computed
# Smaller differences, as a share of the largest logit, are of rounding.
_TOLERANCE, _TOLERANCE_OF_16_BITS = 1e-3, 0.1


def require_trained_call(model: Seq2Seq) -> None:
    """Checks that a `call` of a user's own has the logits of `hidden`.

    Raises:
        UsageError: it has not.
    """
    # A model that prepends its sources trains on more than its call returns.
    if not is_own(type(model).call) or getattr(model.hparams, "prepends_inputs", False):
        return
    if not _agree(model, lambda features: model.output_projection(model.hidden(features))):
        raise UsageError(
            f"{type(model).__name__}: call gives other logits than output_projection of hidden, "
            "which is what training reads: change hidden in place of call"
        )


def has_trained_steps(model: Seq2Seq) -> bool:
    """Whether `decode_step` gives the logits of `call`."""
    return not is_own(type(model)) or _agree(model, lambda features: _steps(model, features))


def computes_as_transformer(model: Transformer) -> bool:
    """Whether a model computes what a plain Transformer does that has its weights."""
    if not is_own(type(model)):
        return True
    plain = Transformer(model.hparams, model.inputs_vocab_size, model.targets_vocab_size)
    plain.set_weights(model.get_weights())
    features = _features(model)
    return not _differ(model, model(features), plain(features))


def _features(model: Seq2Seq) -> Features:
    """Returns ids without padding for a small call."""
    random = np.random.default_rng(0)

    def ids(length: int, size: int) -> keras.KerasTensor:
        drawn = random.integers(min(2, size - 1), size, (_SENTENCES, length))
        return ops.convert_to_tensor(drawn, "int32")

    # A classifier's targets are one label.
    targets = ids(1 if model.only_labels else _LENGTH, model.targets_vocab_size)
    source = ids(_LENGTH - 1, model.inputs_vocab_size) if model.takes_inputs else targets[:, :0]
    return {"inputs": source, "targets": targets}


def _steps(model: Seq2Seq, features: Features) -> keras.KerasTensor:
    """Returns the logits [B, T, V] of steps."""
    targets = features["targets"]
    length = targets.shape[1]
    state = model.start_decoding(features["inputs"], 1, length)
    found = []
    for step in range(length):
        ids = targets[:, max(step - 1, 0)][:, None]
        logits, state = model.decode_step(ids, ops.convert_to_tensor(step), state)
        found.append(logits)
    return ops.concatenate(found, axis=1)


def _agree(model: Seq2Seq, other: Callable[[Features], keras.KerasTensor]) -> bool:
    """Whether another way of computing the logits gives those of `call`."""
    features = _features(model)
    try:
        return not _differ(model, model(features), other(features))
    except Exception:  # the user's code may raise anything; who calls it sees that
        return True


def _differ(model: Seq2Seq, *logits: keras.KerasTensor) -> bool:
    """Whether logits differ by more than rounding; those of ids that cannot occur do not count."""
    arrays = [ops.convert_to_numpy(ops.cast(each, "float32")) for each in logits]
    one, other = (np.where(each <= EXCLUDED, np.float32(0), each) for each in arrays)
    is_exact = model.compute_dtype == "float32"
    share = _TOLERANCE if is_exact else _TOLERANCE_OF_16_BITS
    return bool(np.abs(one - other).max() > share * np.abs(one).max())
