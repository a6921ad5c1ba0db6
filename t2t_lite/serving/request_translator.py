"""Translates requests with the decoder, and formats the answers as JSON."""

import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from t2t_lite.decoding.config import CTRANSLATE2
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.decoding.hypotheses import Hypothesis, Source, first_different
from t2t_lite.decoding.loading import opened_quality
from t2t_lite.decoding.long_lines import FramedText, with_plain_breaks
from t2t_lite.decoding.output_formats import fields_of
from t2t_lite.decoding.stages.stage import RefusedError
from t2t_lite.decoding.term_beams import CHARACTERS_OF_ID, length_in_batch
from t2t_lite.errors import UserError
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_limits import RequestLimits
from t2t_lite.serving.requests import MOST_TOGETHER, OptionRefusal, TranslationRequest
from t2t_lite.serving.worker import Answers
from t2t_lite.text.text_encoder import EOS_ID

log = logging.getLogger(__name__)

# Most subwords of a request with attention, times n_best: answers grow with the square of this.
_MAX_ATTENTION = 1000


class RequestTranslator:
    """Answers requests with one model.

    Args:
        decoder: finds the best outputs; the decoders for n-best and attention share its model.
        metrics: counts texts and subwords.
        limits: `max_subwords` and `timeout` apply.
    """

    def __init__(self, decoder: Decoder, metrics: ServerMetrics, limits: ServerConfig) -> None:
        self._decoders = {(decoder.hparams.return_beams, False): decoder}
        self._plain = decoder
        self._metrics = metrics
        self._limits = limits

    @classmethod
    def load(
        cls,
        run: run_folder.RunFolder,
        checkpoint: str | None,
        hparams: DecodeHParams,
        metrics: ServerMetrics,
        limits: ServerConfig,
    ) -> "RequestTranslator":
        """Restores a model, by default the newest of the run, and compiles its search."""
        if hparams.shortlist and limits.engine == CTRANSLATE2:
            # It lends a line's candidates to the others of its batch: those of other clients.
            hparams = hparams.copy(batch_size=1)
        decoder = Decoder.from_run(
            *(run, checkpoint, hparams),
            engine=limits.engine,
            compute_type=limits.compute_type,
            quality=opened_quality(limits.quality_run),
        )
        decoder.decode([Source("", [EOS_ID])])  # the first client should not wait for compilation
        return cls(decoder, metrics, limits)

    def __call__(self, requests: Sequence[TranslationRequest]) -> Answers:
        """Translates all texts, together where they need the same search.

        Pauses between batches of texts; meanwhile it may be called for other requests.

        Args:
            requests: the requests.

        Raises:
            TimeoutError: the requests have timed out.
        """
        end = time.monotonic() + self._limits.timeout
        answers: dict[int, bytes | HTTPException] = {}
        groups: dict[tuple[bool, bool], dict[int, list[Source]]] = defaultdict(dict)
        frames = [self._frames(request) for request in requests]
        for number, request in enumerate(requests):
            try:
                sources = self._sources(request, frames[number])
            except HTTPException as error:
                answers[number] = error
            else:
                groups[request.n_best > 1, request.attention][number] = sources
        for (is_n_best, attention), group in groups.items():
            decoder = self._decoder(is_n_best, attention)
            found = yield from self._decode_group(decoder, group, end)
            for number, sources in group.items():
                hypotheses = found[number]
                if isinstance(hypotheses, HTTPException):
                    answers[number] = hypotheses
                else:
                    count = requests[number].n_best
                    shown = [first_different(h, count, decoder.hparams) for h in hypotheses]
                    lines = [*map(_line, frames[number], sources, shown)]
                    answers[number] = requests[number].answer(lines)
        return [answers[number] for number in range(len(requests))]

    def _decode_group(
        self,
        decoder: Decoder,
        group: Mapping[int, Sequence[Source]],
        end: float,
    ) -> Generator[None, None, dict[int, list[list[Hypothesis]] | HTTPException]]:
        """Decodes the texts of some requests together; requests that fail get an error."""
        sources = [*itertools.chain(*group.values())]
        numbers = [number for number, own in group.items() for _ in own]  # of each source's request
        hypotheses: dict[int, list[Hypothesis]] = {}
        alone: dict[int, list[list[Hypothesis]] | HTTPException] = {}
        try:
            for first, part in _slices(sources, decoder.hparams.beam_size):
                for batch in decoder.decode_batches(part, "text"):
                    if time.monotonic() > end:
                        raise TimeoutError
                    if batch.sources:
                        self._count(part, batch.sources)
                    hypotheses |= {first + i: found for i, found in batch.sources.items()}
                    if len(hypotheses) < len(sources):
                        yield
        except UserError as error:
            if len(group) == 1:
                return dict.fromkeys(group, _failure(error))
            unfinished = {number for i, number in enumerate(numbers) if i not in hypotheses}
            for number in sorted(unfinished):
                alone |= yield from self._decode_group(decoder, {number: group[number]}, end)
        found: dict[int, list[list[Hypothesis]]] = {number: [] for number in group}
        for i, number in enumerate(numbers):
            found[number].append(hypotheses.get(i, []))
        return found | alone

    def _count(
        self, sources: Sequence[Source], completed: Mapping[int, Sequence[Hypothesis]]
    ) -> None:
        self._metrics.batch_texts.observe(len(completed))
        self._metrics.source_tokens.inc(self._subwords([sources[i] for i in completed]))
        self._metrics.target_tokens.inc(
            sum(len(h.ids) for beams in completed.values() for h in beams[:1])
        )

    def _frames(self, request: TranslationRequest) -> list[FramedText]:
        """Returns the texts of a request, with their outer line breaks set aside."""
        framed = self._plain.cutter.framed
        return [framed(with_plain_breaks(text), request.options) for text in request.texts]

    def _sources(self, request: TranslationRequest, frames: Sequence[FramedText]) -> list[Source]:
        """Encodes the texts of a request, after checking it against the limits."""
        beams = self._plain.hparams.beam_size
        if request.n_best > beams:
            message = f"n_best is {request.n_best}, but the search keeps {beams}"
            raise HTTPException(422, f"{message}; start t2t-serve with a larger beam_size")
        shows_all = request.n_best > 1 or self._plain.hparams.return_beams
        limits = RequestLimits(self._limits.max_subwords, beams if shows_all else 1)
        try:
            stages = self._plain.text.stages(request.options)
            sources = []
            for number, frame in enumerate(frames, 1):
                (source,) = self._plain.text.encode([frame.text], request.options, "text", number)
                for part in source.parts or [source]:  # before others are encoded
                    limits.add(part, stages.then or stages, self._plain.text.size(part))
                sources.append(source)
        except RefusedError as error:
            raise OptionRefusal(error.option, str(error)) from error
        except UserError as error:
            raise HTTPException(422, str(error)) from error
        if request.attention and request.n_best * limits.subwords > _MAX_ATTENTION:
            message = f"attention to {request.n_best * limits.subwords} subwords (times n_best)"
            raise HTTPException(413, f"{message}: at most {_MAX_ATTENTION} are allowed")
        return sources

    def _subwords(self, sources: Sequence[Source]) -> int:
        return sum(map(self._plain.text.size, sources))

    def _decoder(self, is_n_best: bool, attention: bool) -> Decoder:
        """Returns a decoder that completes all hypotheses for n-best, or adds their details."""
        plain = self._plain
        key = (is_n_best or plain.hparams.return_beams, attention)
        if key not in self._decoders:
            self._decoders[key] = plain.variant(*key)
        return self._decoders[key]


def _slices(sources: Sequence[Source], beam_size: int) -> Iterator[tuple[int, list[Source]]]:
    """Yields sources that cost half as much as what is translated together, and the first's place.

    A decoder works ahead while its caller does something else, but not beyond a slice. Half, since
    what others wait for then runs beside it.
    """
    most = MOST_TOGETHER // 2 // CHARACTERS_OF_ID
    first, size = 0, 0
    for i, source in enumerate(sources):
        own = length_in_batch(source, len(source.shown) // CHARACTERS_OF_ID + 1, beam_size)
        if i > first and size + own > most:
            yield first, [*sources[first:i]]
            first, size = i, 0
        size += own
    if sources:
        yield first, [*sources[first:]]


def _line(frame: FramedText, source: Source, hypotheses: Sequence[Hypothesis]) -> dict[str, Any]:
    """Returns the JSON object of a text, with its outer line breaks."""
    fields = fields_of(source, frame.all_framed(hypotheses))
    return fields | {"source": frame.framed(fields["source"])}


def _failure(error: UserError) -> HTTPException:
    """Returns the answer to a request that decoding refuses."""
    if not isinstance(error, NoOutputError):  # in a text's second line, say
        return HTTPException(422, str(error))
    log.error("a request failed: %s", error)
    return HTTPException(500, f"{error.summary}: see the server's log")
