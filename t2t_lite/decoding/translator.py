"""Translating from Python: text in, text or n-best lists out."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Hypothesis
from t2t_lite.decoding.long_lines import with_plain_breaks
from t2t_lite.errors import UsageError, quoted


@dataclasses.dataclass(frozen=True, eq=False)
class Translation:
    """One output of a model for one text.

    Attributes:
        text: the output, with as many lines as the text.
        score: its log-probability over the length penalty.
        tokens: its T subwords as text, EOS included.
        log_probs: [T], of each token, by the model alone, whatever the search forbids.
        source_tokens: the S subwords of the source as text, EOS included.
        attention: [T, S], of the last layer to the source, averaged over its heads; None for a text
            that was split into pieces and is very long.
    """

    text: str
    score: float
    tokens: list[str]
    log_probs: np.ndarray
    source_tokens: list[str]
    attention: np.ndarray | None


class Translator:
    """Translates text with a trained model; create it with `Run.translator`.

    The model is compiled on first use, for texts of all lengths.

    Examples:
        >>> translate = t2t_lite.open_run("runs/base").translator("best", beam_size=4)
        >>> translate("A cat.")
        'Eine Katze.'
        >>> translate(["A cat.", "A dog."], n_best=2)[1][0].score
        -0.31

    Args:
        decoder: the model, with its search settings.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    @overload
    def __call__(self, texts: str, n_best: None = None) -> str: ...
    @overload
    def __call__(self, texts: list[str], n_best: None = None) -> list[str]: ...
    @overload
    def __call__(self, texts: str, n_best: int) -> list[Translation]: ...
    @overload
    def __call__(self, texts: list[str], n_best: int) -> list[list[Translation]]: ...
    def __call__(self, texts: str | list[str], n_best: int | None = None) -> Any:
        """Translates one text or several.

        Args:
            texts: a text, or a list of texts. A text of several lines is translated line by line;
                where an output is for a whole text (labels, trees, summaries, what follows a
                prompt), a line break is white space.
            n_best: how many outputs to return for each text, at most `beam_size`, as
                `Translation` objects; None: the text of the best one.

        Returns:
            For one text its output or outputs; for several texts, a list of these. An empty text
            has the output "", and no `Translation`. A translation has the lines of its text.

        Raises:
            DataError: a text has a token that is not in the vocabulary.
            DivergedError: the model outputs NaN.
            NoOutputError: the search settings permit no output.
            UsageError: a text is not a string, or `n_best` is below 1 or above `beam_size`.
        """
        lines = _checked([texts] if isinstance(texts, (str, bytes)) else texts)
        found: list[Any] = (
            self._decoder.translate(lines) if n_best is None else self._n_best(lines, n_best)
        )
        return found[0] if isinstance(texts, str) else found

    def _n_best(self, lines: Sequence[str], count: int) -> list[list[Translation]]:
        largest = self._decoder.hparams.beam_size
        if not 1 <= count <= largest:
            raise UsageError(f"n_best={count}: expected 1 to beam_size={largest}")
        decoder = self._detailed
        found = decoder.decode(decoder.text.encode(lines))
        return [[_translation(h) for h in hypotheses[:count]] for hypotheses in found]

    @functools.cached_property
    def _detailed(self) -> Decoder:
        """A decoder that searches until all hypotheses are final, and returns their details."""
        return self._decoder.variant(return_beams=True, with_details=True)


def _checked(texts: Any) -> list[str]:
    """Returns texts with plain line breaks; raises UsageError unless all are valid strings."""
    if not isinstance(texts, Iterable):
        raise UsageError(f"translator: got {quoted(texts)}: expected a text, or a list of texts")
    checked = []
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            remedy = "; use its .decode()" if isinstance(text, bytes) else ""
            raise UsageError(f"text {number} is {quoted(text)}: expected a str{remedy}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"text {number} holds a lone surrogate, which is not a character: {quoted(text)}"
            ) from None
        checked.append(with_plain_breaks(text))
    return checked


def _translation(hypothesis: Hypothesis) -> Translation:
    details = hypothesis.details
    assert details is not None, "the decoder was asked for details"
    return Translation(
        hypothesis.output.text,
        hypothesis.score,
        details.tokens,
        details.log_probs,
        details.source_tokens,
        details.attention,
    )
