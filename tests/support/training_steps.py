"""Training steps of small models, and batches [W, B, L] of parts with unlike numbers of tokens."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.step import TrainStep

VOCAB = 30
DRY = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
DROPOUT = "layer_prepostprocess_dropout=0.3,attention_dropout=0.2,relu_dropout=0.1"
# Beside this epsilon, Adam's step is in proportion to the gradient, and not of the same size for
# one that is but a rounding.
EQUAL_PARTS = "optimizer=multistep_adam,optimizer_adam_epsilon=1,learning_rate_constant=2"
# Results of a Transformer of one layer that a half precision rounds, one after another: of
# products, norms, sums and dropout, 10 in the encoder and 16 in the decoder, and the embedding and
# the logits.
OPERATIONS = 28


def make_step(
    strategy: tf.distribute.Strategy, parts: int, make: Callable[[], Seq2Seq], seed: int = 11
) -> TrainStep:
    """Returns the step of the model that `make` returns, with the same weights in every call."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = make()
        optimizer = make_optimizer(model.hparams)
        optimizer.build(model.trainable_variables)
    return TrainStep(strategy, model, optimizer, parts, seed=seed)


def weights_of(model: Seq2Seq) -> np.ndarray:
    """Returns all weights as one vector."""
    return np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])


def ragged_batches(steps: int, parts: int = 8) -> list[dict[str, tf.Tensor]]:
    """Returns so many batches."""
    rng = np.random.default_rng(7)
    batches = []
    for _ in range(steps):
        features = {}
        for name, length in (("inputs", 6), ("targets", 7)):
            ids = rng.integers(2, VOCAB, (parts, 3, length))
            ends = rng.integers(1, length, (parts, 3, 1))
            ids = np.where(np.arange(length) < ends, ids, 0)
            features[name] = tf.constant(ids, tf.int32)
        batches.append(features)
    return batches


def ragged_batch(parts: int = 2) -> dict[str, tf.Tensor]:
    """Returns the first of these batches."""
    return ragged_batches(1, parts)[0]


def joined(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns all parts of a batch as one."""
    return {name: tf.reshape(ids, [1, -1, ids.shape[-1]]) for name, ids in batch.items()}


def values_of(variables: Sequence[tf.Variable]) -> list[np.ndarray]:
    """Returns copies of the values of variables."""
    return [variable.numpy() for variable in variables]
