"""Records of decoded batches, for the journal, and the speed of a job."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_lite.decoding.batch_journal import BatchRecord, OutputLine
from t2t_lite.decoding.hypotheses import BatchResult, Hypothesis, Source, best_output
from t2t_lite.decoding.output_formats import Formatter

log = logging.getLogger(__name__)


class Recorder:
    """Converts the results of batches to records, and measures the speed.

    Args:
        format_line: formats the outputs.
        start: when the run began, by `time.monotonic`.
    """

    def __init__(self, format_line: Formatter, start: float) -> None:
        self._format = format_line
        self._start = start
        self._began = time.monotonic()
        self._sentences = self._subwords = 0

    def records(
        self,
        batches: Iterable[BatchResult],
        sources: Sequence[Source],
        advance: Callable[[int], None],
        window: int = 0,
    ) -> Iterator[BatchRecord]:
        """Yields the record of each batch of a window.

        Args:
            batches: the results for `sources`.
            sources: those of the whole window.
            advance: called after each batch with the number of sources that it completes.
            window: the line of the first source, from 0.
        """
        for batch in batches:
            lines = {
                window + i: OutputLine(self._format(sources[i], beams), best_output(beams))
                for i, beams in batch.sources.items()
            }
            yield BatchRecord(window, batch.number, lines, batch.pieces)
            if lines and not self._sentences:
                log.info("first output after %.1f s", time.monotonic() - self._start)
            self._sentences += len(lines)
            self._subwords += _subwords(batch.sources.values())
            advance(len(lines))

    def log_speed(self) -> None:
        """Logs how much was decoded in how much time."""
        seconds = time.monotonic() - self._began
        log.info(
            "decoded %d sentences in %.1f s: %.1f sentences/s, %.0f target subwords/s",
            self._sentences,
            seconds,
            self._sentences / seconds,
            self._subwords / seconds,
        )


def _subwords(found: Iterable[Sequence[Hypothesis]]) -> int:
    """Counts the subwords of the best outputs, EOS included."""
    return sum(len(beams[0].ids) + 1 for beams in found if beams)
