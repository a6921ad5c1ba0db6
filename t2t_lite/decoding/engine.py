"""The engine of a decoder: sentences of ids in, hypotheses of ids out.

The decoder around it knows neither models nor devices: TensorFlow's engine and CTranslate2's offer
what `Engine` and `Worker` say.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from t2t_lite.decoding.divergence import DivergedError
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import TextEncoder

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


class Target(NamedTuple):
    """A hypothesis, or a target to score."""

    source: Source
    ids: list[int]  # EOS included, if it has ended
    score: float = 0.0


class Worker(Protocol):
    """What computes a batch."""

    def search(self, sources: Sequence[Source], limits: Sequence[int]) -> list[list[Target]]:
        """Returns the hypotheses of each source, best first, with at most so many ids.

        Raises:
            NotANumberError: a model outputs NaN.
            NothingPermittedError: the search settings permit no output.
        """

    def score(self, targets: Sequence[Target]) -> list[Target]:
        """Returns targets, all with EOS, with the scores that a search would give them.

        Raises:
            NotANumberError: a model outputs NaN.
        """

    def details(self, targets: Sequence[Target]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Returns for each target its tokens' log-probabilities [T] and attention [T, S].

        The attention is None if the model has none to the source.
        """


class Engine(Protocol):
    """What searches and scores.

    Attributes:
        kind: its name, and what else of it determines outputs.
        encoders: the encoders of "inputs" and "targets", in the languages of the hparams.
        hparams: search settings.
        max_input_size: the ids that a source may have, EOS included; 0: no limit.
        learned_positions: the positions that the models have learned; 0: they know all.
    """

    kind: str
    encoders: Mapping[str, TextEncoder]
    hparams: DecodeHParams
    max_input_size: int
    learned_positions: int

    @property
    def model_hparams(self) -> BasicHParams:
        """The hyperparameters of the model, or of the first of an ensemble."""

    def is_trained_with(self, hparam: str) -> bool:
        """Whether a hyperparameter of training, whose default is 0, is above 0 for all models."""
        return bool(getattr(self.model_hparams, hparam))

    @property
    def has_source_attention(self) -> bool:
        """Whether details have the attention to the source."""

    def returning_beams(self, return_beams: bool) -> Self:
        """Returns an engine of the same models that searches until all hypotheses are final."""

    def map(
        self, work: Callable[[Worker, _Batch], _Result], batches: Sequence[_Batch]
    ) -> Iterator[tuple[int, _Result]]:
        """Calls `work` with a worker for every batch.

        Yields:
            Each batch's index and result, as it finishes.
        """

    def diverged(self, source: Source, place: str) -> DivergedError:
        """Returns the error for a source, called `place`, for which a model outputs NaN."""


def mapped(
    work: Callable[[_Batch], _Result], batches: Sequence[_Batch], threads: int
) -> Iterator[tuple[int, _Result]]:
    """Calls `work` for all batches in threads; yields each batch's index and result when done.

    One batch waits for the next free thread, which need not wait until the caller has written a
    result. No more begin before the caller asks for the next one: while it does something else for
    long, so does the device. After a failure no other batch begins.
    """
    most = max(1, threads) + 1
    left = iter(enumerate(batches))
    running: dict[Future[_Result], int] = {}
    with ThreadPoolExecutor(most - 1) as pool:

        def begin() -> None:
            for index, batch in itertools.islice(left, most - len(running)):
                running[pool.submit(work, batch)] = index

        try:
            begin()
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    index, result = running.pop(future), future.result()
                    begin()
                    yield index, result
        finally:
            pool.shutdown(cancel_futures=True)
