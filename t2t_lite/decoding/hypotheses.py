"""What the decoder takes and returns: sources, and hypotheses with the details of their tokens."""

import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_lite.data.problem import Output
from t2t_lite.decoding.request import NOTHING, TextOptions
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.terms.term_list import TermList
from t2t_lite.text.languages import ANY, Languages
from t2t_lite.text.tags.blocks import Blocks, Lines
from t2t_lite.text.tags.tokens import Token

# 2^32 over the golden ratio: its multiples are far apart, so that no piece meets another line.
_STRIDE = 0x9E3779B1

_NOTHING: Mapping[Any, Any] = types.MappingProxyType({})


class Source(NamedTuple):
    """A text to decode: a sentence, or several lines or blocks."""

    text: str
    ids: Sequence[int]  # EOS included; empty if there is nothing to decode, or in a language model
    number: int = 1  # of its line or example, from 1: for messages, and to seed sampling
    prefix: Sequence[int] = ()  # how every output begins, without EOS; a language model's prompt
    piece: int = 0  # of a text that was split: no other of its pieces has the same
    languages: Languages = ANY  # where they differ from the decoder's
    start: Sequence[int] = ()  # how the target of every piece begins, unseen: with its language
    terms: TermList | None = None  # what the search makes outputs contain, and not contain
    given: str = ""  # `text` before it got the form in which the model reads it; "": the same
    kept: str = ""  # characters of `text` that stay as they are in that form
    line: str = ""  # as users wrote it, where a stage took something out of it; "": `given`
    is_rewritten: bool = False  # whether users see other words than the model reads and writes
    options: TextOptions = NOTHING  # what is asked of it
    tokens: Sequence[Token] = ()  # of its text, if its tags have been read
    notes: Mapping[type, Any] = _NOTHING  # what stages know of it, by their class
    # The text, if it has markup and is decoded by blocks of HTML, or by other lines.
    blocks: Blocks | Lines | None = None
    parts: Sequence["Source"] = ()  # these blocks, each with its own stages; `ids` are theirs

    @property
    def shown(self) -> str:
        """The line as users know it."""
        return self.line or self.given or self.text

    def noted(self, stage: object, note: Any) -> "Source":
        """Returns the source with the note of a stage, which its `after` reads again."""
        return self._replace(notes={**self.notes, type(stage): note})

    def note(self, stage: object) -> Any:
        """Returns the note of a stage."""
        return self.notes[type(stage)]

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
    # What stages tell of it, and of its line, by name: in JSON, over HTTP and in Python.
    fields: Mapping[str, Any] = _NOTHING
    line_fields: Mapping[str, Any] = _NOTHING

    def telling(self, **fields: Any) -> "Hypothesis":
        """Returns the hypothesis with more fields."""
        return self._replace(fields={**self.fields, **fields})


# The hypotheses, best first, of some sentences or pieces, by their index.
HypothesesByIndex = Mapping[int, list[Hypothesis]]

NO_BATCHES: Mapping[int, HypothesesByIndex] = {}


class BatchResult(NamedTuple):
    """The hypotheses from one batch."""

    number: int  # the same whenever the same sources are decoded; 0: the sources without ids
    sources: HypothesesByIndex  # the sources that this batch completes
    pieces: HypothesesByIndex  # its pieces of sources that are still incomplete


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
