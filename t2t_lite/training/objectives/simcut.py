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
from t2t_lite.training.objectives.two_passes import TokenLosses, TwoPasses

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

    def token_losses(self, model: Seq2Seq) -> TokenLosses:
        """See `TwoPasses.token_losses`."""
        h = model.hparams
        return simcut_losses(model.output_projection, h.label_smoothing, h.simcut_alpha)


def simcut_losses(
    projection: OutputProjection, label_smoothing: float, alpha: float
) -> TokenLosses:
    """Returns what gives the cross entropy and the penalty of each token.

    Args:
        projection: made the logits.
        label_smoothing: ε of the plain pass.
        alpha: α of the module's description.
    """
    cross_entropy = cross_entropy_of(projection)

    def token_losses(
        plain: tf.Tensor, cut: tf.Tensor, targets: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return cross_entropy(plain, targets, label_smoothing), alpha * divergence(plain, cut)

    return token_losses


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
