"""The decoder: sentences in, the model's outputs out, as text."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from t2t_lite.data.problem import Problem
from t2t_lite.decoding import long_input
from t2t_lite.decoding.details import Details, Scorer, padded
from t2t_lite.decoding.devices import Replicas, require_xla_decodes_on
from t2t_lite.decoding.divergence import NotANumberError, diverged, require_numbers
from t2t_lite.decoding.pieces import (
    NOTHING,
    Assembly,
    Batch,
    Found,
    Hypothesis,
    Source,
    best_output,
    collected,
)
from t2t_lite.errors import DataError, UsageError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.search import make_search, penalty_of
from t2t_lite.search.search_loop import DEAD, SearchLoop
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TextEncoder

log = logging.getLogger(__name__)

# Largest batch, in ids: hypotheses times source length. A source counts as at least the second
# number, because a step costs the same whatever the source's length.
BATCH_CELLS = 8192
LEAST_LENGTH = 32

# Most subwords of a target that is given: each attends to all before it.
_MAX_TARGET = 4096

# An output is one line of a file, and one column where all beams are written.
_SEPARATORS = str.maketrans("\n\r\t", "   ")


class _Scored(NamedTuple):
    """A target of a source."""

    source: Source
    target: list[int]  # EOS included, if it is there
    score: float = 0.0


class _Compiled(NamedTuple):
    """What a device computes with."""

    search: SearchLoop
    scorer: Scorer


_Item = TypeVar("_Item", Source, _Scored)


class Decoder:
    """Decodes text with one model; compiled when first used, then for sentences of all lengths.

    Examples:
        >>> decoder = Decoder.from_run(run_folder.open_run("runs/base"))
        >>> decoder.translate(["The cat sleeps."])
        ['Die Katze schläft.']

    Args:
        model: a trained model, or several, which then decode together as an ensemble; their weights
            may change between calls.
        problem: says how its outputs are shown.
        encoders: the encoders of "inputs" and "targets".
        hparams: how to search.
        devices: names of the devices to decode on, the models' own first; "": wherever TensorFlow
            computes.
        long_input: what `decode` does with sources that are too long: "split" or "truncate".
        with_details: whether hypotheses come with their `details`, which takes another pass.
        names: what messages call the models.

    Raises:
        UsageError: the hparams ask for XLA, which cannot use these devices.

    Attributes:
        names: as above; to be set anew when the weights are those of another checkpoint.
        max_input_size: the ids that a source may have, EOS included; 0: any number.
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
    ) -> None:
        models = [model] if isinstance(model, Seq2Seq) else model
        self._models = models
        self.model = models[0]
        self.names = names or _names(len(models))
        self.problem = problem
        self.hparams = hparams
        self._devices = devices
        self._long_input = long_input
        self._splits = long_input == "split" and problem.can_split_sources
        self._with_details = with_details
        self.encoders = encoders
        self.max_input_size = hparams.max_input_size
        if hparams.max_input_size < 0:
            limits = [m.hparams.max_length for m in models if m.hparams.max_length]
            self.max_input_size = min(limits, default=0)
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
            hparams: how to search; None: the problem's defaults.
            **settings: the constructor's other arguments.

        Raises:
            UserError: the checkpoint is missing or does not fit.
        """
        checkpoint = checkpoint or run.latest_checkpoint()
        model, step = run.load_model(checkpoint)
        log.info("restored %s after step %d", checkpoint, step)
        encoders = run.encoders
        hparams = hparams or DecodeHParams.of(run.problem)
        return cls(model, run.problem, encoders, hparams, names=[checkpoint], **settings)

    def variant(self, return_beams: bool, with_details: bool) -> "Decoder":
        """Returns a decoder of the same models, which goes on for all hypotheses or explains them.

        Args:
            return_beams: whether a search ends only when all hypotheses are settled.
            with_details: whether hypotheses come with their `details`.
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
        )

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the best output for each line, itself one line; "" for an empty line."""
        return [best_output(beams).text for beams in self.decode(self.encode(lines))]

    # ---- text to ids

    def encode(self, lines: Sequence[str], name: str = "line", first: int = 1) -> list[Source]:
        """Returns each line with its ids; no ids for a line without text.

        Args:
            lines: one sentence each; white space around it is dropped.
            name: what a message calls a line, before its number.
            first: the number of the first line.

        Raises:
            DataError: a line has a token that the vocabulary lacks.
        """
        encoded = []
        for number, line in enumerate(lines, first):
            text = self.problem.source(line)
            encoded.append(Source(text, self._source_ids(text, f"{name} {number}"), number))
        return encoded

    def encode_targets(self, lines: Sequence[str], name: str, first: int = 1) -> list[list[int]]:
        """Returns the ids of target texts, without EOS; arguments and errors as in `encode`.

        Raises:
            DataError: also if a target is too long to be scored.
        """
        targets = []
        for number, line in enumerate(lines, first):
            place = f"{name} {number}"
            ids = _encode(self.encoders["targets"], line.strip(), place)
            if len(ids) > _MAX_TARGET:
                raise DataError(
                    f"{place}: {len(ids)} subwords, more than {_MAX_TARGET}, the memory for which "
                    "grows with their square; shorten the line, or leave it out"
                )
            targets.append(ids)
        return targets

    def source_text(self, ids: Sequence[int]) -> str:
        """Returns source ids as one line of text."""
        return self.encoders["inputs"].decode(ids).translate(_SEPARATORS)

    def target_text(self, ids: Sequence[int]) -> str:
        """Returns target ids as one line of text."""
        return self.encoders["targets"].decode(ids).translate(_SEPARATORS)

    # ---- search

    def decode(
        self,
        sources: Sequence[Source],
        name: str = "line",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of text, however long it is; arguments as in `search`.

        What is too long is split (`long_input.split`) where that is asked for and the problem
        allows it. The outputs of its pieces are then joined, best with best, and their scores
        added; a prefix is the first piece's.
        """
        return collected(self.decode_batches(sources, name), len(sources), advance)

    def search(
        self,
        sources: Sequence[Source],
        name: str = "sentence",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of encoded sentences.

        Args:
            sources: those with more ids than `max_input_size` (or the model's max_length, if
                that is -1) are cut there, with a warning; those without ids get no output.
            name: what a message calls a source, before its number.
            advance: called after each batch with the number of sources that are done with it.

        Returns:
            For each source its hypotheses, best first. Without return_beams a search ends when
            the first is settled; the others are then what had been found so far.

        Raises:
            DivergedError: a model gives NaN for a sentence.
        """
        return collected(self.search_batches(sources, name), len(sources), advance)

    def score(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        name: str = "sentence",
        advance: Callable[[int], None] = lambda sources: None,
    ) -> list[list[Hypothesis]]:
        """Scores given targets as a search scores its outputs.

        Args:
            sources: as in `search`.
            targets: the ids of one target for each source, without EOS.
            name: as in `search`.
            advance: as in `search`.

        Returns:
            For each source its target alone, or nothing if the source has no ids.

        Raises:
            DivergedError: as in `search`.
            UsageError: the search is among well-formed trees, which changes the probabilities.
        """
        return collected(self.score_batches(sources, targets, name), len(sources), advance)

    # ---- batches

    def decode_batches(
        self, sources: Sequence[Source], name: str = "line", known: Mapping[int, Found] = NOTHING
    ) -> Iterator[Batch]:
        """Does what `decode` does; yields batch by batch, as they are done.

        Args:
            sources: as in `search`.
            name: as in `search`.
            known: the batches to leave out, by number, with their `Batch.pieces`.
        """
        return self._searched([self._pieces(source, name) for source in sources], name, known)

    def search_batches(
        self,
        sources: Sequence[Source],
        name: str = "sentence",
        known: Mapping[int, Found] = NOTHING,
    ) -> Iterator[Batch]:
        """Does what `search` does, as `decode_batches` what `decode` does."""
        return self._searched([[source] for source in sources], name, known)

    def score_batches(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        name: str = "sentence",
        known: Mapping[int, Found] = NOTHING,
    ) -> Iterator[Batch]:
        """Does what `score` does, as `decode_batches` what `decode` does."""
        if self.hparams.well_formed:
            raise UsageError(
                "decode hparam well_formed=true: given targets are scored among all; set it to "
                "false"
            )
        sources = [self._cut(source, name) for source in sources]
        pairs = [
            _Scored(source, [*target, EOS_ID])
            for source, target in zip(sources, targets, strict=True)
        ]
        lengths = [max(len(s.ids), len(target)) if s.ids else 0 for s, target, _ in pairs]
        return self._mapped(self._score, pairs, lengths, Assembly([1] * len(pairs), known), name)

    def _searched(
        self, groups: Sequence[Sequence[Source]], name: str, known: Mapping[int, Found]
    ) -> Iterator[Batch]:
        """Searches for the outputs of sources that are in pieces."""
        pieces = [self._cut(piece, name) for group in groups for piece in group]
        lengths = [len(piece.ids) for piece in pieces]
        assembly = Assembly([len(group) for group in groups], known)
        return self._mapped(self._search, pieces, lengths, assembly, name)

    def _mapped(
        self,
        work: Callable[[_Compiled, Sequence[_Item]], Sequence[list[Hypothesis]]],
        items: Sequence[_Item],
        lengths: Sequence[int],
        assembly: Assembly,
        name: str,
    ) -> Iterator[Batch]:
        """Does the work for all items, in batches on all devices; those of length 0 get nothing."""
        empty: list[int] = [i for i, length in enumerate(lengths) if not length]
        batches = dict(enumerate([empty, *self._batches(lengths)]))
        left = [n for n, batch in batches.items() if batch and n not in assembly.known]
        if 0 in left:
            left.remove(0)
            yield assembly.add(0, {i: [] for i in empty})
        chosen = [[items[i] for i in batches[number]] for number in left]
        try:
            for index, results in self._replicas.map(work, chosen):
                number = left[index]
                yield assembly.add(number, dict(zip(batches[number], results, strict=True)))
        except NotANumberError as error:
            place = f"{name} {error.source.number}"
            raise diverged(self._models, self.names, error.source, place) from None

    def _compile(self, models: Sequence[Seq2Seq]) -> _Compiled:
        model = models[0] if len(models) == 1 else Ensemble(models)
        search = make_search(model, self.encoders, self.hparams)
        return _Compiled(search, Scorer(model, penalty_of(self.hparams)))

    def _search(self, compiled: _Compiled, sources: Sequence[Source]) -> list[list[Hypothesis]]:
        """Decodes one batch."""
        extra = self.hparams.extra_length
        limits = [max(len(s.ids) + extra, len(s.prefix) + 1) for s in sources]
        found = compiled.search(
            padded([s.ids for s in sources]),  # [B, S]
            np.array(limits),
            padded([s.prefix for s in sources]),  # [B, P]
            np.array([s.number for s in sources]),
        )
        require_numbers(sources, found.scores)
        return self._hypotheses(
            compiled,
            [
                [
                    _Scored(source, _ended(beam), score)
                    for beam, score in zip(ids[:, :limit].tolist(), scores.tolist(), strict=True)
                    if score > DEAD
                ]
                for source, limit, ids, scores in zip(sources, limits, *found, strict=True)
            ],
        )

    def _score(self, compiled: _Compiled, pairs: Sequence[_Scored]) -> list[list[Hypothesis]]:
        """Scores the targets of one batch."""
        scores = compiled.scorer.scores([(source.ids, target) for source, target, _ in pairs])
        require_numbers([source for source, *_ in pairs], np.array(scores)[:, None])
        scored = [[pair._replace(score=score)] for pair, score in zip(pairs, scores, strict=True)]
        return self._hypotheses(compiled, scored)

    def _hypotheses(
        self, compiled: _Compiled, scored: Sequence[Sequence[_Scored]]
    ) -> list[list[Hypothesis]]:
        """Makes text of targets, and adds their details if they are asked for."""
        flat = [entry for entries in scored for entry in entries]
        explained: Iterator[Details | None] = itertools.repeat(None)
        if self._with_details:
            explained = iter(self._details(compiled.scorer, flat))
        return [[self._hypothesis(*entry, next(explained)) for entry in group] for group in scored]

    def _hypothesis(
        self, source: Source, target: Sequence[int], score: float, explained: Details | None
    ) -> Hypothesis:
        ids = [id_ for id_ in target if id_ != EOS_ID]
        output = self.problem.postprocess(source.text, self.target_text(ids))
        return Hypothesis(output, ids, score, explained)

    def _details(self, scorer: Scorer, flat: Sequence[_Scored]) -> list[Details]:
        found = scorer.details([(source.ids, target) for source, target, _ in flat])
        return [
            Details(
                token_texts(self.encoders["inputs"], source.ids),
                token_texts(self.encoders["targets"], target),
                *rows,
            )
            for (source, target, _), rows in zip(flat, found, strict=True)
        ]

    # ---- lengths

    def _source_ids(self, text: str, place: str) -> list[int]:
        ids = _encode(self.encoders["inputs"], text, place)
        return [*ids, EOS_ID] if ids else []

    def _is_too_long(self, ids: Sequence[int]) -> bool:
        return 0 < self.max_input_size < len(ids)

    def _pieces(self, source: Source, name: str) -> list[Source]:
        """Returns a source in pieces that are short enough, if it may be split; else itself."""
        if not self._splits or not self._is_too_long(source.ids):
            return [source]
        place, size = f"{name} {source.number}", len(source.ids)
        texts = long_input.split(
            source.text, lambda text: not self._is_too_long(self._source_ids(text, place))
        )
        log.info("%s has %d subwords: split into %d pieces", place, size, len(texts))
        first, *others = texts
        return [
            source._replace(text=first, ids=self._source_ids(first, place)),
            *(Source(t, self._source_ids(t, place), source.number) for t in others),
        ]

    def _cut(self, source: Source, name: str) -> Source:
        """Shortens the ids; the text stays, for what is shown is about all of it."""
        if not self._is_too_long(source.ids):
            return source
        size, limit = len(source.ids), self.max_input_size
        log.warning("%s %d has %d subwords: cut to %d", name, source.number, size, limit)
        return source._replace(ids=[*source.ids[: limit - 1], EOS_ID])

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yields the numbers of sentences to decode together, the longest sentences first."""
        order = [i for i in np.argsort(lengths, kind="stable")[::-1].tolist() if lengths[i]]
        while order:
            longest = max(lengths[order[0]], LEAST_LENGTH)
            budget = BATCH_CELLS // (longest * self.hparams.beam_size)
            size = self.hparams.batch_size or max(1, budget)
            yield order[:size]
            order = order[size:]


def _names(count: int) -> list[str]:
    return [f"model {number + 1}" for number in range(count)] if count > 1 else ["the model"]


def _encode(encoder: TextEncoder, text: str, place: str) -> list[int]:
    try:
        return encoder.encode(text)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


def _ended(ids: list[int]) -> list[int]:
    """Returns ids up to EOS, or all."""
    return ids[: ids.index(EOS_ID) + 1] if EOS_ID in ids else ids


def token_texts(encoder: TextEncoder, ids: Sequence[int]) -> list[str]:
    """Returns each token as text, EOS included."""
    return [RESERVED_TOKENS[i] if i <= EOS_ID else encoder.decode([i]) for i in ids]
