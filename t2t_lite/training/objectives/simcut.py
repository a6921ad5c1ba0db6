"""SimCut: an output should not depend on single subwords (Gao et al. 2022, "Bi-SimCut").

A step sees every sentence twice, the second time with some subwords cut: they have no embedding,
in the source and in the targets that the decoder reads. Positions, masks and labels are those of
the whole sentence, and EOS is never cut. With the distributions p of the plain pass and p_cut of
the other, the loss in nats per target token is

    CE + α KL(p ‖ p_cut)

where label smoothing belongs to the cross entropy of the plain pass. As in the authors' code,
gradients flow through both passes.
"""

import tensorflow as tf

from t2t_lite.layers.dense import drop_symbols
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.text.text_encoder import EOS_ID
from t2t_lite.training.features import Features
from t2t_lite.training.objectives.token_distributions import TokenDistributions
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
        return simcut_losses(h.label_smoothing, h.simcut_alpha)


def simcut_losses(label_smoothing: float, alpha: float) -> TokenLosses:
    """Returns what gives the cross entropy and the penalty of each token.

    Args:
        label_smoothing: ε of the plain pass.
        alpha: α of the module's description.
    """

    def token_losses(
        plain: TokenDistributions, cut: TokenDistributions, targets: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        # KL(p ‖ p_cut) = Σ p (log p - log p_cut)
        mean = plain.mean(plain.logits - cut.logits)
        divergences = mean - plain.log_sums + cut.log_sums
        return plain.cross_entropy(targets, label_smoothing), alpha * divergences

    return token_losses
