"""What objectives share that read every sentence twice."""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar

import tensorflow as tf

from t2t_lite.layers.dense import OutputProjection
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.features import Features
from t2t_lite.training.losses import real_tokens, rows_at_a_time, sum_over_chunks
from t2t_lite.training.objectives.objective import Loss, Objective
from t2t_lite.training.objectives.token_distributions import TokenDistributions

# Of logits in memory, where batches are short. Shorter chunks cost more loops.
_LEAST_ROWS = 128

# Maps the distributions of both passes and the targets [C] to cross entropies and penalties [C].
TokenLosses = Callable[
    [TokenDistributions, TokenDistributions, tf.Tensor], tuple[tf.Tensor, tf.Tensor]
]


class TwoPasses(Objective):
    """Base of objectives of two passes, which are one batch of 2B sentences, [pass 1, pass 2].

    One draw of dropout masks from (seed, step, part) serves both: the first half belongs to the
    first pass.
    """

    passes: ClassVar[int] = 2

    def read(self, model: Seq2Seq, part: Features) -> Features:
        """Returns `inputs` [2B, S] and `targets` [2B, T]: every sentence once for each pass."""
        second = self.second(model, part)
        return {name: tf.concat([ids, second[name]], axis=0) for name, ids in part.items()}

    @abc.abstractmethod
    def second(self, model: Seq2Seq, part: Features) -> Features:
        """Returns what the second pass reads of a part; see `read`."""

    @abc.abstractmethod
    def token_losses(self, model: Seq2Seq) -> TokenLosses:
        """Returns what gives the losses of each token, by the hyperparameters of a model."""

    def summed_loss(
        self, model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
    ) -> Loss:
        """Returns the cross entropy of the objective, and its penalty."""
        h = model.hparams
        rows = min(rows_at_a_time(model), max(h.batch_size // 2, _LEAST_ROWS))
        total, penalty = summed_pair_losses(
            model.output_projection,
            *real_pairs(model, hidden, targets),
            self.token_losses(model),
            h.loss_chunk_tokens or rows,
            scale,
        )
        return Loss(total, [penalty])


def real_pairs(
    model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Selects the tokens whose logits are needed, as `losses.real_tokens`.

    Args:
        model: whose hparams define the padding.
        hidden: [2B, T, D].
        targets: [B, T].

    Returns:
        `hidden` [2, N, D] and `targets` [N].
    """
    first, second = tf.split(hidden, 2)
    first, ids = real_tokens(model.hparams, first, targets)
    second, _ = real_tokens(model.hparams, second, targets)
    return tf.stack([first, second]), ids


def summed_pair_losses(
    projection: OutputProjection,
    hidden: tf.Tensor,
    targets: tf.Tensor,
    token_losses: TokenLosses,
    chunk_tokens: int,
    scale: tf.Tensor | float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums cross entropy and penalty over tokens.

    Args:
        projection: maps hidden features [C, D] to logits [C, V].
        hidden: [2, N, D], of two passes.
        targets: [N], ids of the correct subwords; 0 is padding, with loss 0.
        token_losses: both losses of each token.
        chunk_tokens: number of rows of logits, of both passes, in memory at a time.
        scale: factor of the loss, see `losses.summed_cross_entropy`.

    Returns:
        The sum in nats times `scale`, a float32 scalar; and the penalty in it, without gradients.
    """

    def summed(logits: Sequence[tf.Tensor], targets: tf.Tensor) -> tf.Tensor:
        first, second = (TokenDistributions.of(projection, of_pass) for of_pass in logits)
        losses = tf.stack(token_losses(first, second, targets))
        return scale * tf.reduce_sum(tf.where(tf.not_equal(targets, 0), losses, 0.0), axis=1)

    length = _chunk_length(tf.shape(targets)[0], (chunk_tokens + 1) // 2)
    missing = _chunks_of(tf.shape(targets)[0], length) * length - tf.shape(targets)[0]
    hidden = tf.pad(hidden, [[0, 0], [0, missing], [0, 0]])
    targets = tf.pad(targets, [[0, missing]])
    loss, losses = sum_over_chunks(projection, summed, hidden, targets, length, count=2, fused=True)
    return loss, losses[1]


def _chunk_length(tokens: tf.Tensor, longest: int) -> tf.Tensor:
    """Returns the length of chunks that takes the least time, one of sixteen.

    XLA compiles once for each. A chunk takes as long as some more tokens would.
    """
    lengths = tf.constant(sorted({max(1, longest * part // 16) for part in range(1, 17)}))
    return lengths[tf.argmin(_chunks_of(tokens, lengths) * (lengths + lengths[0]))]


def _chunks_of(tokens: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns the number of chunks, at least one."""
    return tf.maximum(-(-tokens // length), 1)
