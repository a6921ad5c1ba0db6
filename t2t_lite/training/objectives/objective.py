"""The seam between the training step and what it trains for."""

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import tensorflow as tf

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.features import Features


class Loss(NamedTuple):
    """The loss of a part of a batch, summed over its target tokens.

    Attributes:
        total: what is differentiated, a scalar in nats; penalties included.
        penalties: each of `Objective.penalties`, scalars without gradients.
    """

    total: tf.Tensor
    penalties: Sequence[tf.Tensor]


class Objective(abc.ABC):
    """What the outputs for a part of a batch should be.

    The training step adds up losses and gradients over parts and replicas, and adds auxiliary
    losses of layers; it knows nothing else of an objective. So an objective is the same on any
    number of devices if the loss of a part depends on that part alone.

    Attributes:
        passes: how many times the model reads each sentence; the operations of a step are counted
            so many times.
        penalties: the names of what the loss has besides the cross entropy. The metrics of
            training have each as `NAME_loss`, per target token.
    """

    passes: ClassVar[int] = 1
    penalties: ClassVar[tuple[str, ...]] = ()

    def require_possible(self, hparams: BasicHParams) -> None:  # noqa: B027 (as below)
        """Raises `UsageError` if a model with such hparams could not be trained for it."""

    def require_effect(self, model: Seq2Seq) -> None:  # noqa: B027 (most have nothing to refuse)
        """Raises `UsageError` if the objective would train a model for nothing."""

    @abc.abstractmethod
    def read(self, model: Seq2Seq, part: Features) -> Features:
        """Returns what the model reads, [passes · B, L], of a part's features [B, L].

        Args:
            model: will read it. Its `seeds` give random numbers that depend on (seed, step, part).
            part: the features of the part.
        """

    @abc.abstractmethod
    def summed_loss(
        self, model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
    ) -> Loss:
        """Returns `scale` times the loss of a part.

        Args:
            model: projects `hidden` to logits.
            hidden: [passes · B, T, D], the decoder's output for what `read` returned.
            targets: [B, T], ids; 0 is padding, with loss 0.
            scale: factor of the loss, see `losses.summed_cross_entropy`.
        """
