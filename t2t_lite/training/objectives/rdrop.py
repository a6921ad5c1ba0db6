"""R-Drop: two passes with different dropout masks are trained to agree (Liang et al. 2021).

A step sees every sentence twice. Its loss is the mean cross entropy of the two passes (label
smoothing included), and a penalty for the divergence of their distributions p1 and p2 over the
vocabulary. In nats per target token:

    ½ (CE1 + CE2) + α/4 (KL(p1 ‖ p2) + KL(p2 ‖ p1))

This is half of what the paper (equation 4) and its authors' code minimise,
`CE1 + CE2 + α · ½ (KL(p1 ‖ p2) + KL(p2 ‖ p1))`: the published weights α, such as 1, 3 and 5, mean
the same here. The factor ½ leaves the loss, its gradient and `clip_grad_norm` on their usual scale;
Adam's updates hardly depend on it.
"""

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.auxiliary_losses import hidden_and_statistics
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.features import Features
from t2t_lite.training.objectives.token_distributions import TokenDistributions
from t2t_lite.training.objectives.two_passes import TokenLosses, TwoPasses

# A small rate may drop nothing at once.
_TRIED_LENGTH = 8
_TRIED_MASKS = 8


class RDrop(TwoPasses):
    """The module's description says what it trains for."""

    penalties = ("rdrop",)

    def require_possible(self, hparams: BasicHParams) -> None:
        """Raises `UsageError` if the two passes would be the same without any dropout."""
        # Subword sampling cuts a sentence once for both passes.
        names = [n for n in hparams.names() if n.endswith("dropout") and n != "bpe_dropout"]
        if getattr(hparams, "ffn_layer", "") == "parameter_attention":  # which has no ReLU
            names.remove("relu_dropout")
        if not any(getattr(hparams, name) for name in names):
            raise UsageError(
                f"hparam rdrop_alpha={hparams.rdrop_alpha:g} trains two passes with different "
                f"dropout to agree, but {', '.join(names)} are 0: give one of them a rate, such as "
                "0.1, or set rdrop_alpha=0"
            )

    def require_effect(self, model: Seq2Seq) -> None:
        """Raises `UsageError` if two passes of a model do not differ.

        Some rates have no effect in some models: running the model tells.
        """
        ids = tf.ones([1, _TRIED_LENGTH], tf.int32)
        features = self.read(model, {"inputs": ids, "targets": ids})
        seeds = model.seeds.state
        for number in range(_TRIED_MASKS):
            with keras.StatelessScope([(seeds, tf.constant([number, 0], seeds.dtype))]):
                hidden, _ = hidden_and_statistics(model, features, training=True)
            first, second = tf.split(hidden, 2)
            if tf.reduce_any(first != second):
                return
        raise UsageError(
            f"hparam rdrop_alpha={model.hparams.rdrop_alpha:g} trains two passes with different "
            f"dropout to agree, but those of this {type(model).__name__} are the same: raise "
            "another rate, such as layer_prepostprocess_dropout=0.1, or set rdrop_alpha=0"
        )

    def second(self, model: Seq2Seq, part: Features) -> Features:
        """Returns the part itself: its dropout masks are others."""
        return part

    def token_losses(self, model: Seq2Seq) -> TokenLosses:
        """See `TwoPasses.token_losses`."""
        h = model.hparams
        return rdrop_losses(h.label_smoothing, h.rdrop_alpha)


def rdrop_losses(label_smoothing: float, alpha: float) -> TokenLosses:
    """Returns what gives the cross entropy and the penalty of each token.

    Args:
        label_smoothing: ε.
        alpha: α of the module's description.
    """

    def token_losses(
        first: TokenDistributions, second: TokenDistributions, targets: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        entropies = first.cross_entropy(targets, label_smoothing)
        entropies += second.cross_entropy(targets, label_smoothing)
        # Σ (p1 - p2)(log p1 - log p2), where the logarithms' normalisers cancel.
        difference = first.logits - second.logits
        divergences = first.mean(difference) - second.mean(difference)
        return 0.5 * entropies, 0.25 * alpha * divergences

    return token_losses
