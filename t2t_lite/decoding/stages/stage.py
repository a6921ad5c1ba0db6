"""What a feature of decoding may do to a text, before and after the model."""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.hypotheses import Details, Hypothesis, Source
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.text_codec import TextCodec
from t2t_lite.errors import UsageError

NO_FIELDS: Mapping[str, Any] = types.MappingProxyType({})


class RefusedError(UsageError):
    """The problem, the engine or the search cannot do what an option asks.

    Attributes:
        option: the field of `TextOptions`.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(reason)
        self.option = option


class Cost(NamedTuple):
    """What a text costs a server apart from the model; amounts of one kind add up."""

    amount: int
    most: int  # of all texts of a request
    kind: str  # for the message, with {} for the sum
    per_output: bool  # whether each output costs it again
    option: str  # the field of `TextOptions` that asks for it


class Stage:
    """One feature, for the texts of some options. A hook that a feature leaves out does nothing.

    `before` and `after` see whole sources: with markup, each block or line. Others of several
    lines, and long ones, are cut into pieces; `read`, `unread` and `written` see a piece. The
    stages of a source run in the order of `registered.STAGES`, `after`, `unread` and `written` in
    the opposite one.

    Args:
        options: what is asked.
        codec: the model's problem, engine and encoders.
    """

    # Its fields of `TextOptions`; without any, it is always there.
    fields: ClassVar[Sequence[str]] = ()
    # What it tells of outputs (see `Hypothesis.fields`), with what holds if nothing is told.
    tells: ClassVar[Mapping[str, Any]] = NO_FIELDS
    # Whether outputs have other words than those that the model writes.
    rewrites: ClassVar[bool] = False

    def __init__(self, options: TextOptions, codec: TextCodec) -> None:
        self.options = options
        self.codec = codec

    @classmethod
    def is_asked(cls, options: TextOptions) -> bool:
        """Whether options ask for it."""
        return not cls.fields or any(getattr(options, name) for name in cls.fields)

    @classmethod
    def has(cls, hook: str) -> bool:
        """Whether it does anything in a method that it may leave out."""
        return getattr(cls, hook) is not getattr(Stage, hook)

    @classmethod
    def origin(cls, flags: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Any]:
        """Returns what the outputs of a file are made from, for its journal: values for JSON.

        Args:
            flags: by name: texts, or the paths of files.
            digest: of a file; of "" it is "".
        """
        return {name: flags[name] for name in cls.fields if flags[name]}

    def refused(self) -> str:
        """Returns why the problem, the engine or the search cannot do this; "": they can."""
        return ""

    def before(self, source: Source, place: str) -> Source:
        """Returns a source with another text, notes, or what the engine must obey.

        Args:
            source: the source.
            place: what messages call it.
        """
        del place
        return source

    def read(self, source: Source, text: str) -> str:
        """Returns what the model reads in place of a piece of a source's text."""
        del source
        return text

    def unread(
        self, source: Source, tokens: list[str], attention: np.ndarray | None
    ) -> tuple[list[str], np.ndarray | None]:
        """Undoes `read`.

        Args:
            source: the piece.
            tokens: the S tokens that the model reads, as text, EOS included.
            attention: to them, [T, S]; None: not known.
        """
        del source
        return tokens, attention

    def needs_details(self, target: Target, is_shown: bool) -> bool:
        """Whether `written` or `after` need the details of a hypothesis of a piece.

        Args:
            target: the hypothesis.
            is_shown: whether it is among those that users see.
        """
        del target, is_shown
        return False

    def written(
        self, source: Source, ids: Sequence[int], text: str, details: Details | None
    ) -> str:
        """Returns an output of a piece as another text.

        Args:
            source: the piece.
            ids: of the output.
            text: the output.
            details: if they are known.
        """
        del source, ids, details
        return text

    def after(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns the hypotheses of a whole source as others, or with more fields."""
        del source
        return hypotheses

    def costs(self, source: Source, subwords: int) -> Iterator[Cost]:
        """Yields what a source costs a server.

        Args:
            source: the source.
            subwords: their number.
        """
        del source, subwords
        yield from ()
