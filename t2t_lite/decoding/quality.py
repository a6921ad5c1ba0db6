"""A quality model: how good an output is for its source, as a regressor has learned it.

Its problem has the two texts as inputs, and one number as target, such as `quality_tmpdir`.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_lite.data.text_problems import SeveralTextsProblem
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UserError
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import LONGEST, DecodeHParams
from t2t_lite.text.text_encoder import EOS_ID

_MOST_TOGETHER = 4096  # ids that are read at once: attention takes memory for all pairs of them
# So that what a number does not say does not depend on the batch.
_DIGITS = 4


class QualityModel:
    """Tells the confidence of outputs, from 0 to 1.

    Args:
        folder: the run folder of a model of numbers, whose newest checkpoint is read.

    Raises:
        UserError: it is not such a folder, or its model is of something else.

    Attributes:
        longest: how many ids a source and an output may have together, EOS included: those of
            longer ones are not known to training, and take memory by the square of their number.
    """

    def __init__(self, folder: str) -> None:
        from t2t_lite.search.number_search import NumberSearch  # loads TensorFlow

        run = RunFolder.open(os.path.expanduser(folder))
        targets = run.encoders["targets"]
        is_of_two = isinstance(run.problem, SeveralTextsProblem) and run.problem.has_numbers
        if not is_of_two or getattr(targets, "count", 0) != 1:
            raise UserError(
                f"--quality_run={folder}: its problem, {run.problem.name}, does not give a source "
                "and its output one number: name the run of a quality model (quality_tmpdir)"
            )
        model, self.trained = TrainedModel(run, "").load()
        self._inputs, self._targets = run.encoders["inputs"], targets
        self._folder = folder
        self.longest: int = model.hparams.max_length or LONGEST
        self._search = NumberSearch([model], DecodeHParams.of(run))

    def origin(self) -> Any:
        """Returns what its numbers are made from, as a value for JSON."""
        return self.trained.origin()

    def confidences(self, source: str, outputs: Sequence[str]) -> list[float | None]:
        """Returns the confidence of each output for a source; None if both are too long.

        Raises:
            UserError: the model outputs NaN.
        """
        # A tab would begin a third text.
        source = source.replace("\t", " ")
        rows = [self._ids("\t".join([source, text.replace("\t", " ")])) for text in outputs]
        fitting = [i for i, row in enumerate(rows) if len(row) <= self.longest]
        numbers = dict(zip(fitting, self._numbers([rows[i] for i in fitting]), strict=True))
        return [numbers.get(i) for i in range(len(rows))]

    def _numbers(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Returns the number of each row of ids, from 0 to 1."""
        longest = max(map(len, rows), default=1)
        padded = np.array([[*row, *[0] * (longest - len(row))] for row in rows], np.int32)
        together = max(1, _MOST_TOGETHER // longest)
        parts = [padded[i : i + together] for i in range(0, len(rows), together)]
        found = [beams for part in parts for beams in self._search(part, 0)[0]]
        # NaN has no text.
        numbers = [float(self._targets.decode(beams[0].tolist()) or "nan") for beams in found]
        if not np.isfinite(numbers).all():
            raise UserError(
                f"--quality_run={self._folder}: its newest checkpoint gives numbers that are not "
                "finite: the training has diverged; train it again, with a lower learning rate"
            )
        return [round(min(max(number, 0.0), 1.0), _DIGITS) for number in numbers]

    def _ids(self, line: str) -> list[int]:
        return [*self._inputs.encode(self._inputs.as_source(line)), EOS_ID]
