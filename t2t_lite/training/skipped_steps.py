"""Reports steps that were skipped for a gradient that is not finite, and stops at too many."""

import logging
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UntrainableError
from t2t_lite.text.text_encoder import TextEncoder
from t2t_lite.training.diagnosis import Diagnosis
from t2t_lite.training.features import Features
from t2t_lite.training.step import TrainStep

log = logging.getLogger(__name__)

# This many skipped steps in a row end the run: it will not recover by itself.
_MAX_IN_A_ROW = 10
_MAX_LINES = 3  # lines of a batch shown in a message


class SkippedSteps:
    """Reports every skipped step with the lines that caused it.

    Args:
        train_step: the training step.
        encoders: decode `inputs` and `targets` to text.
    """

    def __init__(self, train_step: TrainStep, encoders: Mapping[str, TextEncoder]) -> None:
        self._loss_scale = train_step.loss_scale
        self._diagnosis = Diagnosis(train_step)
        self._encoders = encoders
        self._in_a_row = 0

    def check(self, finite: tf.Tensor, features: Features, step: int) -> None:
        """Warns if a step was skipped.

        In float16 some skipped steps are normal: the loss scale grows until gradients overflow.

        Args:
            finite: the result of the step.
            features: the batch.
            step: number of steps before it.

        Raises:
            UntrainableError: too many steps in a row were skipped.
        """
        if finite:
            self._in_a_row = 0
            return
        scale = self._loss_scale
        if scale and not scale.at_its_lowest:
            log.info("step %d: a gradient overflowed in float16; the loss scale is halved", step)
            return
        self._in_a_row += 1
        log.warning(
            "step %d skipped: its gradient is not finite; %s", step, self._cause(features, step)
        )
        if self._in_a_row == _MAX_IN_A_ROW:
            raise UntrainableError(
                f"{_MAX_IN_A_ROW} steps in a row were skipped, up to step {step}: their gradients "
                f"are not finite. With --hparams, try a lower learning rate, clip_grad_norm=1 or "
                "dtype=float32; check the lines named above; or resume from an earlier checkpoint"
            )

    def _cause(self, features: Features, step: int) -> str:
        """Names the sentences of `features` whose loss is not finite."""
        losses = self._diagnosis.sentence_losses(features, step).numpy()
        bad = np.argwhere(~np.isfinite(losses))  # [number, 2]: part and row
        if not len(bad):
            return "all losses are finite, so the gradient overflowed in the backward pass"
        lines = [self._text(features, part, row) for part, row in bad[:_MAX_LINES]]
        total = np.count_nonzero(features["targets"][..., 0])
        return f"{len(bad)} of {total} sentences have a loss that is not finite: {'; '.join(lines)}"

    def _text(self, features: Features, part: int, row: int) -> str:
        texts = (
            encoder.decode(features[name][part, row].numpy().tolist())
            for name, encoder in self._encoders.items()
        )
        return " -> ".join(repr(text) for text in texts)
