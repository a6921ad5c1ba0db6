"""The decoder: searches for the outputs of sentences, and scores given ones, batch by batch."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from t2t_lite.data.problem import Problem
from t2t_lite.decoding.batching import batches_by_length
from t2t_lite.decoding.devices import Replicas, require_xla_decodes_on
from t2t_lite.decoding.divergence import (
    NoOutputError,
    NotANumberError,
    NothingPermittedError,
    diverged,
    require_numbers,
    require_outputs,
)
from t2t_lite.decoding.hypotheses import Details, Hypothesis, Source, best_output
from t2t_lite.decoding.piece_joining import (
    NO_BATCHES,
    BatchResult,
    HypothesesByIndex,
    PieceJoiner,
    collect,
    join_lines,
)
from t2t_lite.decoding.scoring import Scorer, padded
from t2t_lite.decoding.text_codec import TextCodec
from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search
from t2t_lite.search.parts import DEAD, SearchPart
from t2t_lite.search.penalties import NO_PENALTY
from t2t_lite.search.search_loop import SearchLoop
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder

log = logging.getLogger(__name__)


class _ScoredTarget(NamedTuple):
    """A target of a source, with its score."""

    source: Source
    target: list[int]  # EOS included, if it has ended
    score: float = 0.0


class _Compiled(NamedTuple):
    """The compiled functions of a device."""

    search: SearchLoop
    scorer: Scorer


_Item = TypeVar("_Item", Source, _ScoredTarget)


class Decoder:
    """Decodes text with one model; compiled on first use, for sentences of all lengths.

    Examples:
        >>> decoder = Decoder.from_run(run_folder.RunFolder.open("runs/base"))
        >>> decoder.translate(["The cat sleeps."])
        ['Die Katze schläft.']

    Args:
        model: a trained model, or several that decode together as an ensemble; their weights may
            change between calls.
        problem: determines how its outputs are shown.
        encoders: the encoders of "inputs" and "targets".
        hparams: search settings.
        devices: names of the devices to decode on, starting with the models' own; "": TensorFlow's
            choice.
        long_input: what `decode` does with sources that are too long: "split" or "truncate".
        with_details: whether hypotheses include their `details`, which takes another pass.
        names: what messages call the models.
        parts: constraints, and at most one penalty or sampler, for the search.

    Raises:
        UsageError: the hparams ask for XLA, which cannot use these devices, or to replace unknown
            tokens, which the vocabulary does not have.

    Attributes:
        names: as above; update them after loading the weights of another checkpoint.
        text: encodes sources and targets.
        max_input_size: the ids that a source may have, EOS included; 0: no limit.
    """

    def __init__(
        self,
        model: Seq2Seq | Sequence[Seq2Seq],
        problem: Problem,
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
        devices: Sequence[str] = ("",),
        long_input: str = "split",
        with_details: bool = False,
        names: Sequence[str] = (),
        parts: Sequence[SearchPart] = (),
    ) -> None:
        models = [model] if isinstance(model, Seq2Seq) else model
        self._models = models
        self.model = models[0]
        self.names = names or _default_names(len(models))
        self.problem = problem
        self.hparams = hparams
        self._devices = devices
        self._long_input = long_input
        self._with_details = with_details
        self._parts = parts
        self.encoders = encoders
        self.max_input_size = hparams.source_limit(m.hparams.max_length for m in models)
        self.text = TextCodec(problem, encoders, self.max_input_size, long_input)
        positions = [m.learned_positions for m in models]
        self._learned_positions = min(filter(None, positions), default=0)
        if hparams.replace_unk and self.text.unknown_id is None:
            raise UsageError(
                "decode hparam replace_unk=true: the target vocabulary has no token for unknown "
                "words; leave it out, or train with VocabType.TOKEN and an oov_token"
            )
        if hparams.replace_unk and not all(model.has_source_attention for model in models):
            raise UsageError(
                "decode hparam replace_unk=true: there is no attention to a source, which chooses "
                "the words to copy; leave it out"
            )
        if hparams.xla_compile:
            require_xla_decodes_on(devices)
        self._replicas = Replicas(models, devices, self._compile)

    @classmethod
    def from_run(
        cls,
        run: run_folder.RunFolder,
        checkpoint: str | None = None,
        hparams: DecodeHParams | None = None,
        **settings: Any,
    ) -> "Decoder":
        """Restores the model of a run folder.

        Args:
            run: an opened run folder.
            checkpoint: prefix of a checkpoint; None: the newest.
            hparams: search settings; None: the problem's defaults.
            **settings: the constructor's other arguments.

        Raises:
            UserError: the checkpoint is missing or does not fit.
        """
        hparams = hparams or DecodeHParams.of(run.problem)
        model, step, checkpoint = run.load_model(checkpoint, hparams.dtype)
        log.info("restored %s after step %d", checkpoint, step)
        encoders = run.encoders
        return cls(model, run.problem, encoders, hparams, names=[checkpoint], **settings)

    def variant(self, return_beams: bool, with_details: bool) -> "Decoder":
        """Returns a decoder of the same models with other settings.

        Args:
            return_beams: whether a search ends only when all hypotheses are final.
            with_details: whether hypotheses include their `details`.
        """
        return Decoder(
            self._models,
            self.problem,
            self.encoders,
            self.hparams.copy(return_beams=return_beams),
            self._devices,
            self._long_input,
            with_details,
            self.names,
            self._parts,
        )

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the best output for each text: as many lines as it has; "" for an empty one."""
        return [best_output(beams).text for beams in self.decode(self.text.encode(lines))]

    # ---- all sources at once

    def decode(
        self,
        sources: Sequence[Source],
        name: str = "line",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of texts of any length; arguments as in `search`.

        A source of several lines is decoded line by line, and one that is too long is split (see
        `long_lines.split`) if the decoder's `long_input` allows it; neither unless the problem
        does. The outputs of its pieces are joined, best with best, and their scores added; a prefix
        applies to the first piece.
        """
        texts = [self.text.lines(source, name) for source in sources]
        lines = list(itertools.chain.from_iterable(texts))
        found = iter(collect(self.decode_batches(lines, name), len(lines), advance))
        return [join_lines(list(itertools.islice(found, len(text)))) for text in texts]

    def search(
        self,
        sources: Sequence[Source],
        name: str = "sentence",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of encoded sentences.

        Args:
            sources: those with more ids than `max_input_size` (or the model's max_length, if
                that is -1) are cut there, with a warning; those without ids get no output, except
                in a language model.
            name: what messages call a source, before its number.
            advance: called after each batch with the number of sources that it completes.

        Returns:
            The hypotheses of each source, best first. Without return_beams a search ends when
            the first is final; the others are then the best found so far.

        Raises:
            DivergedError: a model outputs NaN for a sentence.
            NoOutputError: the search settings permit no output for a sentence.
        """
        return collect(self.search_batches(sources, name), len(sources), advance)

    def score(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        name: str = "sentence",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Scores given targets as a search scores its outputs; a language model's without penalty.

        Args:
            sources: as in `search`.
            targets: the ids of one target for each source, without EOS.
            name: as in `search`.
            advance: as in `search`.

        Returns:
            For each source its target alone, or an empty list if the source has no ids.

        Raises:
            DivergedError: as in `search`.
            UsageError: the search is restricted to well-formed trees, which changes the
                probabilities.
        """
        return collect(self.score_batches(sources, targets, name), len(sources), advance)

    # ---- batch by batch

    def decode_batches(
        self,
        sources: Sequence[Source],
        name: str = "line",
        known: Mapping[int, HypothesesByIndex] = NO_BATCHES,
    ) -> Iterator[BatchResult]:
        """Yields the results of `decode` batch by batch, as they are finished.

        Args:
            sources: as in `search`.
            name: as in `search`.
            known: the batches to skip, by number, with their `BatchResult.pieces`.
        """
        return self._search_pieces(
            [self.text.pieces(source, name) for source in sources], name, known
        )

    def search_batches(
        self,
        sources: Sequence[Source],
        name: str = "sentence",
        known: Mapping[int, HypothesesByIndex] = NO_BATCHES,
    ) -> Iterator[BatchResult]:
        """Yields the results of `search` batch by batch; arguments as in `decode_batches`."""
        return self._search_pieces([[source] for source in sources], name, known)

    def score_batches(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        name: str = "sentence",
        known: Mapping[int, HypothesesByIndex] = NO_BATCHES,
    ) -> Iterator[BatchResult]:
        """Yields the results of `score` batch by batch; arguments as in `decode_batches`."""
        if self.hparams.well_formed:
            raise UsageError(
                "decode hparam well_formed=true: scores of given targets are over all outputs, not "
                "only trees; set it to false"
            )
        sources = [self.text.truncated(source, name) for source in sources]
        pairs = [
            _ScoredTarget(source, [*target, EOS_ID])
            for source, target in zip(sources, targets, strict=True)
        ]
        lengths = [max(n, len(p.target)) if (n := self.text.size(p.source)) else 0 for p in pairs]
        joiner = PieceJoiner([1] * len(pairs), known)
        return self._run_batches(self._score, pairs, lengths, joiner, name)

    def _search_pieces(
        self,
        groups: Sequence[Sequence[Source]],
        name: str,
        known: Mapping[int, HypothesesByIndex],
    ) -> Iterator[BatchResult]:
        """Searches for the outputs of sources, each given as its pieces."""
        pieces = [self.text.truncated(piece, name) for group in groups for piece in group]
        lengths = [self.text.size(piece) for piece in pieces]
        joiner = PieceJoiner([len(group) for group in groups], known)
        return self._run_batches(self._search, pieces, lengths, joiner, name)

    def _run_batches(
        self,
        work: Callable[[_Compiled, Sequence[_Item]], Sequence[list[Hypothesis]]],
        items: Sequence[_Item],
        lengths: Sequence[int],
        joiner: PieceJoiner,
        name: str,
    ) -> Iterator[BatchResult]:
        """Runs `work` on all items in batches, on all devices; items of length 0 get no output."""
        empty: list[int] = [i for i, length in enumerate(lengths) if not length]
        h: DecodeHParams = self.hparams
        batches = dict(enumerate([empty, *batches_by_length(lengths, h.beam_size, h.batch_size)]))
        left = [n for n, batch in batches.items() if batch and n not in joiner.known]
        if 0 in left:
            left.remove(0)
            yield joiner.add(0, {i: [] for i in empty})
        chosen = [[items[i] for i in batches[number]] for number in left]
        try:
            for index, results in self._replicas.map(work, chosen):
                number = left[index]
                found = dict(zip(batches[number], results, strict=True))
                for i, hypotheses in found.items():
                    self._warn_beyond_positions(items[i], lengths[i], hypotheses, name)
                yield joiner.add(number, found)
        except NotANumberError as error:
            place = f"{name} {error.source.number}"
            raise diverged(self._models, self.names, error.source, place) from None
        except NothingPermittedError as error:
            raise NoOutputError(f"{name} {error.source.number}") from None

    def _warn_beyond_positions(
        self, item: _Item, length: int, hypotheses: Sequence[Hypothesis], name: str
    ) -> None:
        """Warns of a source or an output that is longer than the model has learned positions."""
        source = item if isinstance(item, Source) else item.source
        start = self._prompt_size(source)
        size = max(length, *(start + len(found.ids) + 1 for found in hypotheses[:1]))
        if 0 < self._learned_positions < size:
            log.warning(
                "%s %d or its output has %d subwords, but the model has learned %d positions "
                "(max_length): the subwords beyond share the last one, and what follows may be "
                "poor; shorten the line",
                *(name, source.number, size, self._learned_positions),
            )

    # ---- one batch

    def _compile(self, models: Sequence[Seq2Seq]) -> _Compiled:
        model = models[0] if len(models) == 1 else Ensemble(models)
        search = make_search(model, self.encoders, self.hparams, self._parts)
        # A language model's score is a log-probability: perplexities are computed from it.
        penalty = search.penalty if self.problem.has_inputs else NO_PENALTY
        return _Compiled(search, Scorer(model, penalty))

    def _search(self, compiled: _Compiled, sources: Sequence[Source]) -> list[list[Hypothesis]]:
        """Decodes one batch."""
        extra = self.hparams.extra_length
        limits = [max(self.text.size(s) + extra, len(s.prefix) + 1) for s in sources]
        found = compiled.search(
            padded([s.ids for s in sources]),  # [B, S]
            np.array(limits),
            padded([s.prefix for s in sources]),  # [B, P]
            np.array([s.draws for s in sources]),
        )
        require_numbers(sources, found.scores)
        scored = [
            [
                _ScoredTarget(source, _through_eos(beam), score)
                for beam, score in zip(ids[:, :limit].tolist(), scores.tolist(), strict=True)
                if score > DEAD
            ]
            for source, limit, ids, scores in zip(sources, limits, *found, strict=True)
        ]
        require_outputs(sources, scored)
        return self._hypotheses(compiled, scored)

    def _score(self, compiled: _Compiled, pairs: Sequence[_ScoredTarget]) -> list[list[Hypothesis]]:
        """Scores the targets of one batch."""
        scores = compiled.scorer.scores([(source.ids, target) for source, target, _ in pairs])
        require_numbers([source for source, *_ in pairs], np.array(scores)[:, None])
        scored = [[pair._replace(score=score)] for pair, score in zip(pairs, scores, strict=True)]
        return self._hypotheses(compiled, scored)

    def _hypotheses(
        self, compiled: _Compiled, scored: Sequence[Sequence[_ScoredTarget]]
    ) -> list[list[Hypothesis]]:
        """Decodes targets to text, and adds their details if the decoder was asked for them."""
        flat = [entry for entries in scored for entry in entries]
        needed = [self._with_details or self._copies(entry) for entry in flat]
        found = iter(self._details(compiled.scorer, list(itertools.compress(flat, needed))))
        details = iter([next(found) if is_needed else None for is_needed in needed])
        return [[self._hypothesis(*entry, next(details)) for entry in group] for group in scored]

    def _copies(self, entry: _ScoredTarget) -> bool:
        """Whether tokens of the source replace some of a target."""
        return self.hparams.replace_unk and self.text.unknown_id in entry.target

    def _hypothesis(
        self, source: Source, target: Sequence[int], score: float, details: Details | None
    ) -> Hypothesis:
        ids = [id_ for id_ in target[self._prompt_size(source) :] if id_ != EOS_ID]
        attention = details.attention if details and self.hparams.replace_unk else None
        output = self.text.output(source, ids, attention)
        return Hypothesis(output, ids, score, details if self._with_details else None)

    def _details(self, scorer: Scorer, flat: Sequence[_ScoredTarget]) -> list[Details]:
        if not flat:
            return []
        found = scorer.details([(source.ids, target) for source, target, _ in flat])
        details = []
        for (source, target, _), (log_probs, attention) in zip(flat, found, strict=True):
            start = self._prompt_size(source)
            tokens = self.text.target_tokens(target[start:])
            source_tokens = self.text.source_tokens(source.ids)
            details.append(Details(source_tokens, tokens, log_probs[start:], attention))
        return details

    def _prompt_size(self, source: Source) -> int:
        """Returns the ids of a target that users do not see: those of a language model's prompt."""
        return 0 if self.problem.has_inputs else len(source.prefix)


def _default_names(count: int) -> list[str]:
    return [f"model {number + 1}" for number in range(count)] if count > 1 else ["the model"]


def _through_eos(ids: list[int]) -> list[int]:
    """Returns ids up to and including EOS, or all."""
    return ids[: ids.index(EOS_ID) + 1] if EOS_ID in ids else ids
