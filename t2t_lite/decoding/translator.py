"""Translating from Python: text in, text or n-best lists out."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack, overload

import numpy as np

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Hypothesis, best_output, first_different
from t2t_lite.decoding.input_lines import windows_of
from t2t_lite.decoding.long_lines import with_plain_breaks
from t2t_lite.decoding.request import Options, TextOptions
from t2t_lite.decoding.stages.registered import TOLD
from t2t_lite.errors import UsageError, quoted, surrogate_in
from t2t_lite.text.languages import Languages


@dataclasses.dataclass(frozen=True, eq=False)
class Translation:
    """One output of a model for one text.

    Attributes:
        text: the output, with as many lines as the text, unless line breaks are white space there.
        score: its log-probability over the length penalty.
        tokens: its T subwords as text, EOS included.
        log_probs: [T], of each token, by the model alone, whatever the search forbids.
        source_tokens: the S subwords of the source as text, EOS included.
        attention: [T, S], of the last layer to the source, averaged over its heads; None for a text
            that was split into pieces and is very long.
        fields: the links of its words (`alignment`), and what was made of what was asked, by the
            names of JSON; each is an attribute, too (docs/api.md).
    """

    text: str
    score: float
    tokens: list[str] = dataclasses.field(repr=False)
    log_probs: np.ndarray = dataclasses.field(repr=False)
    source_tokens: list[str] = dataclasses.field(repr=False)
    attention: np.ndarray | None = dataclasses.field(repr=False)
    fields: Mapping[str, Any] = dataclasses.field(repr=False)

    def __getattr__(self, name: str) -> Any:
        """Returns one of the fields."""
        if name != "fields" and name in self.fields:  # else a copy, which has none yet
            return self.fields[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Translator:
    """Translates text with a trained model; create it with `Run.translator`.

    The model is compiled on first use, for texts of all lengths.

    Examples:
        >>> translate = t2t_lite.open_run("runs/base").translator("best", beam_size=4)
        >>> translate("A cat.")
        'Eine Katze.'
        >>> translate(["A cat.", "A dog."], n_best=2)[1][0].score
        -0.31
        >>> for output in translate.stream(open("long.txt")):  # as large as you like
        ...     print(output)
        >>> translate.score("A cat.", "Eine Katze.").log_probs
        array([-0.12, -0.04, -0.15], dtype=float32)

        A model of several languages serves all pairs; those of `Run.translator` are the defaults:

        >>> translate = t2t_lite.open_run("runs/m2m100").translator(source_language="en")
        >>> translate("A cat.", target_language="de")
        'Eine Katze.'

    Args:
        decoder: the model, with its search settings.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    @overload
    def __call__(
        self,
        texts: str,
        n_best: None = None,
        **options: Unpack[Options],
    ) -> str: ...
    @overload
    def __call__(
        self,
        texts: list[str],
        n_best: None = None,
        **options: Unpack[Options],
    ) -> list[str]: ...
    @overload
    def __call__(
        self,
        texts: str,
        n_best: int,
        **options: Unpack[Options],
    ) -> list[Translation]: ...
    @overload
    def __call__(
        self,
        texts: list[str],
        n_best: int,
        **options: Unpack[Options],
    ) -> list[list[Translation]]: ...
    def __call__(
        self,
        texts: str | list[str],
        n_best: int | None = None,
        **options: Any,
    ) -> Any:
        """Translates one text or several.

        Args:
            texts: a text, or a list of texts. A text of several lines is translated line by line,
                and HTML (`markup="html"`) block by block. In HTML, and where an output is for a
                whole text (labels, trees, summaries, what follows a prompt), a line break is white
                space.
            n_best: how many outputs to return for each text, at most `beam_size`, as
                `Translation` objects; None: the text of the best one. An output that the search
                finds several times, made of different pieces, counts once, so that there may be
                fewer.
            **options: what is asked of the texts: the fields of `TextOptions`, from the languages
                to words that outputs must have (docs/api.md). Search settings are those of
                `Run.translator`.

        Returns:
            For one text its output or outputs; for several texts, a list of these. An empty text
            has the output "", and no `Translation`. A translation has the lines of its text, and
            begins and ends with as many line breaks.

        Raises:
            DataError: a text has a token that is not in the vocabulary, or the model needs a
                language.
            DivergedError: the model outputs NaN.
            NoOutputError: the search settings permit no output.
            UsageError: a text is not a string, `n_best` is below 1 or above `beam_size`, or the
                model or the search cannot do what the options ask.
        """
        asked = self._asked(n_best, options)
        outputs = self._translated(_checked(_listed(texts)), 1, n_best, asked)
        return outputs[0] if isinstance(texts, str) else outputs

    @overload
    def stream(
        self,
        texts: Iterable[str],
        n_best: None = None,
        **options: Unpack[Options],
    ) -> Iterator[str]: ...
    @overload
    def stream(
        self,
        texts: Iterable[str],
        n_best: int,
        **options: Unpack[Options],
    ) -> Iterator[list[Translation]]: ...
    def stream(
        self,
        texts: Iterable[str],
        n_best: int | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Translates texts as they are read, however many there are.

        They are read, and translated together, in windows of 16 at first and 4,096 in the end, so
        that memory is bounded. One line break at the end of each text is dropped, because every
        line of a file has one; else the outputs are those that a call for all texts would give.

        Args:
            texts: an iterator, a generator, a file...
            n_best: as in a call.
            **options: as in a call.

        Returns:
            An iterator over the outputs, in the order of the texts. Errors are raised where it
            reaches their window.

        Raises:
            UsageError: `texts` is one text, `n_best` is below 1 or above `beam_size`, or the model
                or the search cannot do what the options ask.
        """
        asked = self._asked(n_best, options)
        self._decoder.text.encode([], asked)  # refuses options before the first text
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise UsageError(  # a text would be read letter by letter
                f"stream: got {quoted(texts)}: expected several texts, such as a list or a file"
            )
        return self._streamed(texts, n_best, asked)

    @overload
    def score(
        self, sources: str, targets: str, *, source_language: str = "", target_language: str = ""
    ) -> Translation | None: ...
    @overload
    def score(
        self,
        sources: list[str],
        targets: list[str],
        *,
        source_language: str = "",
        target_language: str = "",
    ) -> list[Translation | None]: ...
    def score(
        self,
        sources: str | list[str],
        targets: str | list[str],
        *,
        source_language: str = "",
        target_language: str = "",
        **others: Any,
    ) -> Any:
        """Scores given outputs as the search scores its own; a language model's without a penalty.

        Args:
            sources: a text, or a list of texts, of one line each; "" for a language model.
            targets: the output to score for each of them.
            source_language: as in a call.
            target_language: as in a call.
            **others: refused, as in a call.

        Returns:
            For one pair its `Translation`, for several a list of these. For a source without text
            None.

        Raises:
            DataError: a text has a token that is not in the vocabulary, a target is too long, or
                the model needs a language.
            DivergedError: the model outputs NaN.
            UsageError: a text is not a string, there are more sources than targets or fewer, a
                language model is given a source, the search is restricted to trees, or the model
                does not know a language.
        """
        languages = {"source_language": source_language, "target_language": target_language}
        options = TextOptions.of(languages | others, ("sources", "targets"), [*languages])
        texts, outputs = _checked(_listed(sources)), _checked(_listed(targets))
        if isinstance(sources, str) != isinstance(targets, str) or len(texts) != len(outputs):
            raise UsageError(
                f"score: got {len(texts)} sources and {len(outputs)} targets: expected a text and "
                "a text, or two lists of equal length"
            )
        decoder = self._detailed
        if not decoder.problem.has_inputs and any(texts):
            raise UsageError('score: a language model has no source: give "" for it')
        encoded = decoder.text.encode(texts, options, "source")
        chosen = Languages(source_language, target_language)
        ids = decoder.text.encode_targets(outputs, "target", languages=chosen)
        scored = [
            _translation(scored[0]) if scored else None
            for scored in decoder.score(encoded, ids, "source")
        ]
        return scored[0] if isinstance(sources, str) else scored

    def _asked(self, n_best: int | None, options: Mapping[str, Any]) -> TextOptions:
        """Returns what a call asks of its texts, after checking its arguments."""
        asked = TextOptions.of(options, ("texts", "n_best"))
        largest = self._decoder.hparams.beam_size
        if n_best is not None and not 1 <= n_best <= largest:
            raise UsageError(f"n_best={n_best}: expected 1 to beam_size={largest}")
        return asked

    def _streamed(
        self, texts: Iterable[str], n_best: int | None, asked: TextOptions
    ) -> Iterator[Any]:
        first = 1
        for window in windows_of(iter(texts)):
            lines = [text.removesuffix("\n") for text in _checked(window, first)]
            yield from self._translated(lines, first, n_best, asked)
            first += len(window)

    def _translated(
        self,
        texts: Iterable[str],
        first: int,
        n_best: int | None,
        asked: TextOptions,
    ) -> list[Any]:
        """Returns the output or outputs of each text; `first` is the number of the first one."""
        decoder = self._decoder if n_best is None else self._detailed
        frames = [decoder.cutter.framed(text, asked) for text in texts]
        sources = decoder.text.encode([frame.text for frame in frames], asked, first=first)
        found = [*zip(frames, decoder.decode(sources), strict=True)]
        if n_best is None:
            return [frame.framed(best_output(hypotheses).text) for frame, hypotheses in found]
        return [
            [*map(_translation, frame.all_framed(first_different(own, n_best, decoder.hparams)))]
            for frame, own in found
        ]

    @functools.cached_property
    def _detailed(self) -> Decoder:
        """A decoder that searches until all hypotheses are final, and returns their details."""
        return self._decoder.variant(return_beams=True, with_details=True)


def _listed(texts: Any) -> Iterable[Any]:
    """Returns several texts, or a list of the one; raises UsageError if it is something else."""
    if not isinstance(texts, Iterable):
        raise UsageError(f"translator: got {quoted(texts)}: expected a text, or a list of texts")
    return [texts] if isinstance(texts, (str, bytes)) else texts


def _checked(texts: Iterable[Any], first: int = 1) -> list[str]:
    """Returns texts with plain line breaks; raises UsageError unless all are valid strings."""
    checked = []
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            remedy = "; use its .decode()" if isinstance(text, bytes) else ""
            raise UsageError(f"text {number} is {quoted(text)}: expected a str{remedy}")
        if fault := surrogate_in(text):
            raise UsageError(f"text {number} holds {fault}: {quoted(text)}")
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
        {**TOLD, **hypothesis.line_fields, **hypothesis.fields},
    )
