"""The decoder: text in, hypotheses out, batch by batch; what they are computed with, its engine."""

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from t2t_lite.data.problem import Problem
from t2t_lite.decoding import pivot
from t2t_lite.decoding.config import CTRANSLATE2, FLOAT32, TENSORFLOW, check_compute_type
from t2t_lite.decoding.divergence import NoOutputError, NotANumberError, NothingPermittedError
from t2t_lite.decoding.encoding import StagedCodec
from t2t_lite.decoding.engine import Engine, Target, Worker
from t2t_lite.decoding.engines import open_ctranslate2, open_tensorflow
from t2t_lite.decoding.hypotheses import (
    NO_BATCHES,
    BatchResult,
    Details,
    HypothesesByIndex,
    Hypothesis,
    Source,
)
from t2t_lite.decoding.long_lines import Cutter, PieceJoiner, join_lines
from t2t_lite.decoding.request import NOTHING
from t2t_lite.decoding.term_beams import length_in_batch
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import EOS_ID

if TYPE_CHECKING:
    from t2t_lite.decoding.quality import QualityModel
    from t2t_lite.runs import run_folder
    from t2t_lite.search.parts import SearchPart

log = logging.getLogger(__name__)

# Largest batch, in ids: hypotheses times source length. A shorter source counts as LEAST_LENGTH,
# because a step costs the same whatever the source's length.
BATCH_CELLS = 8192
LEAST_LENGTH = 32

_Item = TypeVar("_Item", Source, Target)


class Decoder:
    """Decodes text; the engine is compiled on first use, for sentences of all lengths.

    Examples:
        >>> decoder = Decoder.from_run(run_folder.RunFolder.open("runs/base"))
        >>> decoder.decode(decoder.text.encode(["The cat sleeps."]))[0][0].output.text
        'Die Katze schläft.'

    Args:
        engine: searches and scores.
        problem: determines how outputs are shown.
        long_input: what is done with sources that are too long: "split" or "truncate".
        with_details: whether hypotheses include their `details`, which takes another pass.
        quality: tells how good outputs are; None: nothing does.

    Raises:
        UsageError: a stage cannot do what the hparams ask.

    Attributes:
        engine: as above.
        problem: as above.
        hparams: the search settings.
        text: encodes sources and targets.
        cutter: cuts sources into pieces.
    """

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        long_input: str = "split",
        with_details: bool = False,
        quality: "QualityModel | None" = None,
    ) -> None:
        self.engine = engine
        self.problem = problem
        self.hparams = engine.hparams
        self._long_input = long_input
        self._with_details = with_details
        self.text = StagedCodec(problem, engine, quality)
        self.text.stages(NOTHING)
        self.cutter = Cutter(self.text, long_input)

    @classmethod
    def from_run(
        cls,
        run: "run_folder.RunFolder",
        checkpoint: str | None = None,
        hparams: DecodeHParams | None = None,
        parts: "Sequence[SearchPart]" = (),
        engine: str = TENSORFLOW,
        compute_type: str = FLOAT32,
        **settings: Any,
    ) -> "Decoder":
        """Restores the model of a run folder.

        Args:
            run: an opened run folder.
            checkpoint: prefix of a checkpoint; None: the newest.
            hparams: search settings; None: the defaults of the run.
            parts: constraints, and at most one penalty or sampler, for the search.
            engine: one of `config.ENGINES`.
            compute_type: what CTranslate2 computes in, one of `config.COMPUTE_TYPES`.
            **settings: the constructor's other arguments.

        Raises:
            UserError: the checkpoint is missing or does not fit.
            UsageError: the engine does not compute in the type.
        """
        check_compute_type(engine, compute_type)
        hparams = hparams or DecodeHParams.of(run)
        trained = TrainedModel(run, checkpoint or "")
        if engine == CTRANSLATE2:
            opened = open_ctranslate2([trained], hparams, compute_type=compute_type, parts=parts)
        else:
            opened = open_tensorflow([trained], hparams, parts=parts)
        return cls(opened.engine, run.problem, **settings)

    def variant(self, return_beams: bool, with_details: bool) -> "Decoder":
        """Returns a decoder of the same models with other settings.

        Args:
            return_beams: whether a search ends only when all hypotheses are final.
            with_details: whether hypotheses include their `details`.
        """
        engine = self.engine.returning_beams(return_beams)
        return Decoder(engine, self.problem, self._long_input, with_details, self.text.quality)

    def decode(
        self,
        sources: Sequence[Source],
        name: str = "line",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of sources.

        A source of several lines is decoded line by line, and a line with too many ids is split
        (see `long_lines.split`), if the problem permits it; else it is cut, with a warning. The
        outputs of its pieces are joined, best with best, and their scores added; a prefix applies
        to the first piece. The stages of a source then change its outputs; with markup they change
        the outputs of each block or line, before they are joined. Where users see other words than
        the model writes, these are the shown ones alone: the best, or with return_beams all.

        Args:
            sources: those without ids get no output, except in a language model.
            name: what messages call a source, before its number.
            advance: called after each batch with the number of sources that it completes.

        Returns:
            The hypotheses of each source, best first. Without return_beams a search ends when
            the first is final; the others are then the best found so far.

        Raises:
            DivergedError: a model outputs NaN for a source.
            NoOutputError: the search settings permit no output for a source.
        """
        return _collect(self.decode_batches(sources, name), len(sources), advance)

    def score(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        name: str = "line",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Scores given targets as a search scores its outputs; a language model's without penalty.

        Args:
            sources: as in `decode`, but those with too many ids are cut.
            targets: the ids of one target for each source, without EOS.
            name: as in `decode`.
            advance: as in `decode`.

        Returns:
            For each source its target alone, or an empty list if the source has no ids.

        Raises:
            DivergedError: as in `decode`.
            UsageError: the search is restricted to well-formed trees, which changes the
                probabilities.
        """
        return _collect(self.score_batches(sources, targets, name), len(sources), advance)

    def details(self, target: Target) -> Details:
        """Returns the details of a given target, whatever the search is restricted to."""
        batches = [[target]]
        [(_, details)] = self.engine.map(lambda worker, b: [*self._details(worker, b)], batches)
        return details[0]

    def decode_batches(
        self,
        sources: Sequence[Source],
        name: str = "line",
        known: Mapping[int, HypothesesByIndex] = NO_BATCHES,
    ) -> Iterator[BatchResult]:
        """Yields the results of `decode` batch by batch, as they are finished.

        Args:
            sources: as in `decode`.
            name: as in `decode`.
            known: the batches to skip, by number, with their `BatchResult.pieces`.
        """
        if not any(map(pivot.has_two_steps, sources)):
            return self._decode_once(sources, name, known)
        plain = self._of_first_step
        return pivot.decode_batches(
            sources,
            known,
            lambda some, done: plain._decode_once(some, name, done),
            lambda some, done: self._decode_once(some, name, done),
            lambda source, text: self.text.encode_again(source, text, name),
        )

    @functools.cached_property
    def _of_first_step(self) -> "Decoder":
        """A decoder of the same models, which tells no details."""
        return Decoder(self.engine, self.problem, self._long_input)

    def _decode_once(
        self, sources: Sequence[Source], name: str, known: Mapping[int, HypothesesByIndex]
    ) -> Iterator[BatchResult]:
        """Yields the results of one step; arguments as in `decode_batches`."""
        texts = [self.cutter.pieces(source, name) for source in sources]
        pieces = [piece for lines in texts for line in lines for piece in line]
        sizes = [[len(line) for line in lines] for lines in texts]
        joiner = PieceJoiner(sizes, known, lambda i, lines: self._joined(sources[i], lines))
        lengths = [self.text.size(piece) for piece in pieces]
        return self._run_batches(self._search, pieces, lengths, joiner, name)

    def _joined(self, source: Source, lines: Sequence[list[Hypothesis]]) -> list[Hypothesis]:
        """Returns the hypotheses of a whole source, of those of its lines or blocks."""
        if source.blocks is None:
            return self._finished(source, lines[0] if len(lines) == 1 else join_lines(lines))
        blocks = [*map(self._finished, source.parts, lines)]
        # What the model did not read is the same in every output.
        count = max(map(len, lines)) or 1
        whole = [own if line else own * count for own, line in zip(blocks, lines, strict=True)]
        return join_lines(whole, source.blocks.joined)

    def _finished(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns the hypotheses of a whole source, or of a block, as users see them."""
        if source.is_rewritten and not self.hparams.return_beams:
            hypotheses = hypotheses[:1]
        after = self.text.stages_of(source).after(source, hypotheses)
        keeps = self._with_details or not source.is_rewritten
        return after if keeps else [h._replace(details=None) for h in after]

    def score_batches(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        name: str = "line",
        known: Mapping[int, HypothesesByIndex] = NO_BATCHES,
    ) -> Iterator[BatchResult]:
        """Yields the results of `score` batch by batch; arguments as in `decode_batches`.

        Raises:
            UsageError: the decode hparam well_formed is set.
        """
        if self.hparams.well_formed:
            raise UsageError(
                "decode hparam well_formed=true: scores of given targets are over all outputs, not "
                "only trees; set it to false"
            )
        pairs = [
            Target(self.cutter.truncated(source, name), [*source.start, *target, EOS_ID])
            for source, target in zip(sources, targets, strict=True)
        ]
        lengths = [max(n, len(p.ids)) if (n := self.text.size(p.source)) else 0 for p in pairs]
        joiner = PieceJoiner(
            [[1]] * len(pairs), known, lambda i, lines: self._finished(sources[i], lines[0])
        )
        return self._run_batches(self._score, pairs, lengths, joiner, name)

    def _run_batches(
        self,
        work: Callable[[Worker, Sequence[_Item]], Sequence[list[Hypothesis]]],
        items: Sequence[_Item],
        lengths: Sequence[int],
        joiner: PieceJoiner,
        name: str,
    ) -> Iterator[BatchResult]:
        """Runs `work` on all items in batches; items of length 0 get no output."""
        empty: list[int] = [i for i, length in enumerate(lengths) if not length]
        h: DecodeHParams = self.hparams
        costs: list[int] = [
            length_in_batch(item, length, h.beam_size) if isinstance(item, Source) else length
            for item, length in zip(items, lengths, strict=True)
        ]
        batches = dict(enumerate([empty, *batches_by_length(costs, h.beam_size, h.batch_size)]))
        left = [n for n, batch in batches.items() if batch and n not in joiner.known]
        if 0 in left:
            left.remove(0)
            yield joiner.add(0, {i: [] for i in empty})
        chosen = [[items[i] for i in batches[number]] for number in left]
        try:
            for index, results in self.engine.map(work, chosen):
                number = left[index]
                by_item = dict(zip(batches[number], results, strict=True))
                for i, hypotheses in by_item.items():
                    self._warn_beyond_positions(items[i], lengths[i], hypotheses, name)
                yield joiner.add(number, by_item)
        except NotANumberError as error:
            raise self.engine.diverged(error.source, f"{name} {error.source.number}") from None
        except NothingPermittedError as error:
            raise NoOutputError(f"{name} {error.source.number}") from None

    def _warn_beyond_positions(
        self, item: _Item, length: int, hypotheses: Sequence[Hypothesis], name: str
    ) -> None:
        """Warns of a source or an output that is longer than the model has learned positions."""
        source = item if isinstance(item, Source) else item.source
        start = self._prompt_size(source)
        size = max(length, *(start + len(best.ids) + 1 for best in hypotheses[:1]))
        if 0 < self.engine.learned_positions < size:
            log.warning(
                "%s %d or its output has %d subwords, but the model has learned %d positions "
                "(max_length): the subwords beyond share the last one, and what follows may be "
                "poor; shorten the line",
                *(name, source.number, size, self.engine.learned_positions),
            )

    # ---- one batch, by a worker of the engine

    def _search(self, worker: Worker, sources: Sequence[Source]) -> list[list[Hypothesis]]:
        limit = self.hparams.output_limit
        least = [len(s.start) + len(s.prefix) + 1 for s in sources]
        limits = [max(limit(self.text.size(s)), n) for s, n in zip(sources, least, strict=True)]
        return self._hypotheses(worker, worker.search(sources, limits))

    def _score(self, worker: Worker, targets: Sequence[Target]) -> list[list[Hypothesis]]:
        return self._hypotheses(worker, [[target] for target in worker.score(targets)])

    def _hypotheses(
        self, worker: Worker, by_source: Sequence[Sequence[Target]]
    ) -> list[list[Hypothesis]]:
        """Decodes targets to text, and adds their details if the decoder was asked for them."""
        flat = [target for targets in by_source for target in targets]
        needed = [
            self._with_details
            or self.text.stages_of(target.source).need_details(
                target, is_shown=rank == 0 or self.hparams.return_beams
            )
            for targets in by_source
            for rank, target in enumerate(targets)
        ]
        explained = self._details(worker, list(itertools.compress(flat, needed)))
        details = iter([next(explained) if is_needed else None for is_needed in needed])
        return [[self._hypothesis(target, next(details)) for target in ts] for ts in by_source]

    def _hypothesis(self, target: Target, details: Details | None) -> Hypothesis:
        ids = [i for i in target.ids[self._prompt_size(target.source) :] if i != EOS_ID]
        output = self.text.output(target.source, ids, details)
        keeps = self._with_details or target.source.is_rewritten
        return Hypothesis(output, ids, target.score, details if keeps else None)

    def _details(self, worker: Worker, targets: Sequence[Target]) -> Iterator[Details]:
        computed = worker.details(targets) if targets else []
        for target, (log_probs, attention) in zip(targets, computed, strict=True):
            start = self._prompt_size(target.source)
            tokens = self.text.target_tokens(target.ids[start:])
            shown = None if attention is None else attention[start:]
            source_tokens, shown = self.text.source_details(target.source, shown)
            is_aligned = self.engine.model_hparams.is_guided
            yield Details(source_tokens, tokens, log_probs[start:], shown, is_aligned)

    def _prompt_size(self, source: Source) -> int:
        """Returns how many ids of a target users do not see: a language, or a prompt."""
        return len(source.start) + (0 if self.problem.has_inputs else len(source.prefix))


def batches_by_length(
    lengths: Sequence[int], beam_size: int, batch_size: int = 0
) -> Iterator[list[int]]:
    """Yields the indices of sentences to decode together, the longest sentences first.

    Args:
        lengths: of the sentences, in ids; those of length 0 are in no batch.
        beam_size: hypotheses per sentence.
        batch_size: sentences per batch; 0: as many as the budget allows.
    """
    order = [i for i in np.argsort(lengths, kind="stable")[::-1].tolist() if lengths[i]]
    while order:
        longest = max(lengths[order[0]], LEAST_LENGTH)
        size = batch_size or max(1, BATCH_CELLS // (longest * beam_size))
        yield order[:size]
        order = order[size:]


def _collect(
    batches: Iterator[BatchResult], count: int, advance: Callable[[int], None]
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of all `count` sources, in their order."""
    by_source: list[list[Hypothesis]] = [[] for _ in range(count)]
    for batch in batches:
        for index, hypotheses in batch.sources.items():
            by_source[index] = hypotheses
        if batch.number:
            advance(len(batch.sources))
    return by_source
