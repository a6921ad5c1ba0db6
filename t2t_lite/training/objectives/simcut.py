"""SimCut: an output should not depend on single subwords (Gao et al. 2022, "Bi-SimCut").

A step sees every sentence twice, the second time with some subwords cut: they have no embedding,
in the source and in the targets that the decoder reads. Positions, masks and labels are those of
the whole sentence, and EOS is never cut. With the distributions p of the plain pass and p_cut of
the other, the loss in nats per target token is

    CE + α KL(p ‖ p_cut)

where label smoothing belongs to the cross entropy of the plain pass. As in the authors' code,
gradients flow through both passes.
"""

from collections.abc import Callable

import tensorflow as tf

from t2t_lite.layers.dense import OutputProjection, drop_symbols
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.text.text_encoder import EOS_ID
from t2t_lite.training.features import Features
from t2t_lite.training.losses import cross_entropy_of
from t2t_lite.training.objectives.objective import Loss
from t2t_lite.training.objectives.two_passes import TwoPasses, real_pairs, summed_pair_losses

_SIDES = ("inputs", "targets")


class SimCut(TwoPasses):
    """The module's description says what it trains for."""

    penalties = ("simcut",)

    def second(self, model: Seq2Seq, part: Features) -> Features:
        """Returns the part with `DROPPED_ID` in the place of cut subwords."""

        def cut(ids: tf.Tensor) -> tf.Tensor:
            some = drop_symbols(ids, model.hparams.simcut_rate, model.seeds)
            return tf.where(tf.equal(ids, EOS_ID), ids, some)

        return part | {side: cut(part[side]) for side in _SIDES}

    def summed_loss(
        self, model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
    ) -> Loss:
        """Returns the cross entropy of the plain pass, and the penalty."""
        h = model.hparams
        total, penalty = summed_simcut_loss(
            model.output_projection,
            *real_pairs(model, hidden, targets),
            h.label_smoothing,
            h.simcut_alpha,
            h.loss_chunk_tokens,
            scale,
        )
        return Loss(total, [penalty])


def summed_simcut_loss(
    projection: OutputProjection,
    hidden: tf.Tensor,
    targets: tf.Tensor,
    label_smoothing: float,
    alpha: float,
    chunk_tokens: int = 0,
    scale: tf.Tensor | float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums cross entropy and penalty over tokens.

    Args:
        projection: maps hidden features [C, D] to logits [C, V].
        hidden: [2, N, D], of the plain pass and of the cut one.
        targets: [N], ids of the correct subwords; 0 is padding, with loss 0.
        label_smoothing: ε of the plain pass.
        alpha: α of the module's description.
        chunk_tokens: see `summed_pair_losses`.
        scale: factor of the loss, see `losses.summed_cross_entropy`.

    Returns:
        The sum in nats times `scale`, a float32 scalar; and the penalty in it, without gradients.
    """
    cross_entropy = cross_entropy_of(projection)

    def token_losses(
        plain: tf.Tensor, cut: tf.Tensor, targets: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return cross_entropy(plain, targets, label_smoothing), alpha * divergence(plain, cut)

    return summed_pair_losses(projection, hidden, targets, token_losses, chunk_tokens, scale)


@tf.custom_gradient
def divergence(
    z1: tf.Tensor, z2: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
    """Returns KL(p1 ‖ p2) of the distributions with logits z1 and z2.

    Args:
        z1: [N, V], float32.
        z2: [N, V], float32.

    Returns:
        [N] in nats.
    """
    p1, p2 = tf.nn.softmax(z1), tf.nn.softmax(z2)  # in a graph, the first is the cross entropy's
    # log p = z - max z + log max p
    tops = [tf.reduce_max(z, axis=1, keepdims=True) for z in (z1, z2)]
    difference = (z1 - tops[0]) - (z2 - tops[1])
    mean = tf.reduce_sum(p1 * difference, axis=1)  # [N]
    normalisers = tf.math.log(tf.reduce_max(p1, axis=1)) - tf.math.log(tf.reduce_max(p2, axis=1))

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        by_z1 = p1 * (difference - mean[:, None])
        return by_z1 * upstream[:, None], (p2 - p1) * upstream[:, None]

    return mean + normalisers, backward
