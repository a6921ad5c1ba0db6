"""Errors for sentences without an output: the model diverged, or the search permits none."""

from collections.abc import Sequence

import numpy as np

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.errors import UserError


class NoOutputError(UserError):
    """There is no output to return for a sentence: here, since the search permits none.

    Args:
        place: of the sentence, for the message.
        reason: what is wrong, in short.
        remedy: the cause, and the remedy.

    Attributes:
        summary: place and reason.
    """

    def __init__(
        self,
        place: str,
        reason: str = "the search settings permit no output",
        remedy: str = ": loosen min_length, no_repeat_ngram_size, well_formed or extra_length",
    ) -> None:
        self.summary = f"{place}: {reason}"
        super().__init__(self.summary + remedy)


class DivergedError(NoOutputError):
    """A model outputs NaN instead of probabilities, so that there is no output to return.

    Args:
        place: of the sentence, for the message.
        model: the model at fault.
        reason: the cause, and the remedy.
    """

    def __init__(self, place: str, model: str, reason: str) -> None:
        super().__init__(place, f"{model} outputs NaN instead of probabilities", reason)
        self.summary = f"{place}: the model outputs NaN instead of probabilities"


class NotANumberError(Exception):
    """A model outputs NaN for `source`; `Decoder` raises a `DivergedError` instead."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source


class NothingPermittedError(Exception):
    """A search permits no output for `source`; `Decoder` raises a `NoOutputError` instead."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source


def require_outputs(sources: Sequence[Source], found: Sequence[Sequence[object]]) -> None:
    """Raises NothingPermittedError if a search found no hypothesis of a source."""
    for source, hypotheses in zip(sources, found, strict=True):
        if not hypotheses:
            raise NothingPermittedError(source)


def require_numbers(sources: Sequence[Source], scores: np.ndarray) -> None:
    """Raises NotANumberError if any of the scores [B, K] of a source is NaN."""
    for source, row in zip(sources, np.isnan(scores), strict=True):
        if row.any():
            raise NotANumberError(source)
