"""What the decoder takes and returns: sources, and hypotheses with the details of their tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.data.problem import Output
from t2t_lite.markup.placement import place
from t2t_lite.markup.segment import Segment
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.terms.term_list import TermList, TermUse, uses
from t2t_lite.text.languages import ANY, Languages

# 2^32 over the golden ratio: its multiples are far apart, so that no piece meets another line.
_STRIDE = 0x9E3779B1


class Source(NamedTuple):
    """One sentence to decode."""

    text: str
    ids: Sequence[int]  # EOS included; empty if there is nothing to decode, or in a language model
    number: int = 1  # of its line or example, from 1: for messages, and to seed sampling
    prefix: Sequence[int] = ()  # how every output begins, without EOS; a language model's prompt
    piece: int = 0  # of a text that was split: no other of its pieces has the same
    languages: Languages = ANY  # where they differ from the decoder's
    start: Sequence[int] = ()  # how the target of every piece begins, unseen: with its language
    segment: Segment | None = None  # the line with its markup, which `text` is without
    terms: TermList | None = None  # what outputs must and must not contain
    then: Languages | None = None  # those of a second step, in which outputs are sources: `pivot`
    given: str = ""  # `text` before it got the form in which the model reads it; "": the same

    @property
    def shown(self) -> str:
        """The line as users know it: with its markup."""
        return (self.given or self.text) if self.segment is None else self.segment.source.strip()

    @property
    def draws(self) -> int:
        """Selects the random numbers of sampling: the line's, and others for its later pieces."""
        return (self.number + self.piece * _STRIDE) % (1 << 31)


class Details(NamedTuple):
    """T tokens of an output for S tokens of its source, EOS included."""

    source_tokens: list[str]  # as text
    tokens: list[str]  # as text
    log_probs: np.ndarray  # [T], by the model alone, whatever the search forbids
    # [T, S], of the last layer, averaged over its heads; None if the model has none, or for a line
    # that was split in pieces and is too long to have all of it
    attention: np.ndarray | None
    # Whether the attention is that of a head that has learned to align: to EOS, where to no word.
    is_aligned: bool = False


class Hypothesis(NamedTuple):
    """One output for one sentence."""

    output: Output
    ids: list[int]  # without EOS, the token of a language, and a language model's prompt
    score: float  # log-probability over the length penalty
    details: Details | None = None  # if the decoder was asked for them
    terms: Sequence[TermUse] = ()  # what it made of the terms that its source asks for
    pivot: str = ""  # what it is a translation of, itself a translation of the source: `pivot`


def with_terms(source: Source, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns the hypotheses of a whole source with what each made of its terms."""
    wanted = source.terms.wanted(source.text) if source.terms else ()
    if not wanted:
        return list(hypotheses)
    return [h._replace(terms=uses(wanted, h.output.text)) for h in hypotheses]


def with_markup(source: Source, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns hypotheses, which have details, with the markup of their source.

    A source of markup alone is its own output.
    """
    segment = source.segment
    if segment is None:
        return list(hypotheses)
    if not hypotheses and source.shown:
        return [Hypothesis(Output(source.shown), [], 0.0, Details([], [], np.zeros(0), None))]
    return [_with_markup(segment, hypothesis) for hypothesis in hypotheses]


def _with_markup(segment: Segment, hypothesis: Hypothesis) -> Hypothesis:
    output, details = hypothesis.output, hypothesis.details
    if details is None:
        text = place(segment, output.text)
    else:
        tokens = (details.source_tokens, details.tokens)
        text = place(segment, output.text, *tokens, details.attention)
    return hypothesis._replace(output=output._replace(text=text))


def first_different(
    hypotheses: Sequence[Hypothesis], count: int, hparams: DecodeHParams
) -> list[Hypothesis]:
    """Returns the first `count` hypotheses that have different texts.

    A search finds a text several times if it can be made of different pieces. Equal samples are
    draws of their own.
    """
    if hparams.sampling_method != "random":
        first = {h.output.text: h for h in reversed(hypotheses)}
        hypotheses = [h for h in hypotheses if first[h.output.text] is h]
    return list(hypotheses[:count])


def best_output(hypotheses: Sequence[Hypothesis]) -> Output:
    """Returns the output of the first hypothesis; "" if there is none."""
    return hypotheses[0].output if hypotheses else Output("")
