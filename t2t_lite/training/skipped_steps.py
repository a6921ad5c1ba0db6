"""What is said of steps whose gradient was not finite, and when there have been too many."""

import logging
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.text.text_encoder import TextEncoder
from t2t_lite.training.train_step import Features, TrainStep

log = logging.getLogger(__name__)

# So many skipped steps in a row end the run: no further one is going to be better.
_MOST_IN_A_ROW = 10
# Of the lines of a batch so many are shown.
_MOST_LINES = 3


class SkippedSteps:
    """Reports every skipped step with the lines that are to blame.

    Args:
        train_step: what skips them.
        encoders: turn `inputs` and `targets` back into text.
    """

    def __init__(self, train_step: TrainStep, encoders: Mapping[str, TextEncoder]) -> None:
        self._train_step = train_step
        self._encoders = encoders
        self._in_a_row = 0

    def check(self, finite: tf.Tensor, features: Features, step: int) -> None:
        """Warns if a step was skipped.

        In float16 some must be, as the loss scale tries how high it can go.

        Args:
            finite: what the step returned.
            features: its batch.
            step: number of steps before it.

        Raises:
            UserError: too many in a row.
        """
        if finite:
            self._in_a_row = 0
            return
        scale = self._train_step.loss_scale
        if scale and not scale.at_its_lowest:
            log.info("step %d: a gradient overflowed in float16; the loss scale is halved", step)
            return
        self._in_a_row += 1
        log.warning(
            "step %d skipped, its gradient is not finite; %s", step, self._why(features, step)
        )
        if self._in_a_row == _MOST_IN_A_ROW:
            raise UserError(
                f"{_MOST_IN_A_ROW} steps in a row were skipped, up to step {step}: their gradients "
                f"are not finite. By --hparams try a lower learning rate, clip_grad_norm=1 or "
                "dtype=float32; look at the lines named above; or go on from a checkpoint before"
            )

    def _why(self, features: Features, step: int) -> str:
        """Names the sentences of `features` whose loss is not finite either."""
        losses = self._train_step.sentence_losses(features, step).numpy()
        bad = np.argwhere(~np.isfinite(losses))  # [number, 2]: part and row
        if not len(bad):
            return "every sentence's loss is, so that the gradient overflowed on its way back"
        lines = [self._text(features, part, row) for part, row in bad[:_MOST_LINES]]
        total = np.count_nonzero(features["targets"][..., 0])
        return f"{len(bad)} of {total} sentences have a loss that is not: {'; '.join(lines)}"

    def _text(self, features: Features, part: int, row: int) -> str:
        texts = (
            encoder.decode(features[name][part, row].numpy().tolist())
            for name, encoder in self._encoders.items()
        )
        return " -> ".join(repr(text) for text in texts)
