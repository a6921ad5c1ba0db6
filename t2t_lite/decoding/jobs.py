"""What `t2t-decoder` does: it decodes or scores a file, what is typed, or a split of the data."""

import contextlib
import importlib
import io
import itertools
import logging
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite import files
from t2t_lite.data.problem import DatasetSplit, Output, Problem
from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.examples import read_examples
from t2t_lite.decoding.lines import Row as InputRow
from t2t_lite.decoding.lines import Rows, require_pair
from t2t_lite.decoding.loading import Trained, find_trained, load_decoder
from t2t_lite.decoding.outputs import Writer, score_writer, writer
from t2t_lite.decoding.part_file import NOT_BEGUN, WRITTEN_BESIDE, Done, PartFile, Record, Row
from t2t_lite.decoding.pieces import NOTHING, Batch, Found, Hypothesis, Source, best_output
from t2t_lite.errors import DataError
from t2t_lite.evaluation.metrics import (
    check_metrics,
    output_metrics,
    score_by_metrics,
    split_metrics,
)
from t2t_lite.progress import progress
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.version import __version__

log = logging.getLogger(__name__)


def run(config: DecoderConfig) -> None:
    """Decodes a file, what is typed, or a split of the problem's data; or scores a file.

    Raises:
        UserError: something in the settings, the input or the run folder is wrong.
    """
    start = time.monotonic()
    trained = find_trained(config)
    decoder = load_decoder(config, trained)
    if config.decode_interactive:
        _decode_typed(decoder, config)
    elif config.decode_from_file == STANDARD_INPUT:
        for records in _Lines(decoder, config, start).windows():
            sys.stdout.buffer.write(_joined([row.line for row in _in_order(records)]).encode())
            sys.stdout.buffer.flush()
    elif config.decode_from_file or config.score_file:
        _decode_file(_Lines(decoder, config, start), decoder, trained, config)
    else:
        _decode_split(decoder, trained, config, start)


def _decode_typed(decoder: Decoder, config: DecoderConfig) -> None:
    """Decodes line after line from standard input, until its end or a line "q".

    With return_beams each hypothesis has a line of its own, behind its score.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # gives `input` a history
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what is no UTF-8 should not end the session
    write = writer(config.output_format, decoder.hparams)
    in_lines = decoder.hparams.return_beams and config.output_format == "text"
    for number in itertools.count(1):
        try:
            line = input("> ").strip()
        except EOFError:
            break
        if line == "q":
            break
        try:
            (source,) = decoder.encode([line], first=number)
        except DataError as error:
            log.warning("%s", error)
            continue
        (beams,) = decoder.decode([source])
        if in_lines:
            for beam in beams:
                print(f"{beam.score:.4f}\t{beam.output.text}")
        else:
            print(write(source, beams))


class _Recorder:
    """Makes records of batches, and keeps count of what has been decoded.

    Args:
        write: makes the lines.
        start: when the run began, by `time.monotonic`.
    """

    def __init__(self, write: Writer, start: float) -> None:
        self._write = write
        self._start = start
        self._began = time.monotonic()
        self._sentences = self._subwords = 0

    def records(
        self,
        batches: Iterable[Batch],
        sources: Sequence[Source],
        advance: Callable[[int], None],
        window: int = 0,
    ) -> Iterator[Record]:
        """Yields the record of each batch of a window.

        Args:
            batches: what has been found for `sources`.
            sources: those of the whole window.
            advance: is told of the sources that are done.
            window: the row of the first source.
        """
        for batch in batches:
            rows = {
                window + place: Row(self._write(sources[place], beams), best_output(beams))
                for place, beams in batch.sources.items()
            }
            yield Record(window, batch.number, rows, batch.pieces)
            if rows and not self._sentences:
                log.info("first output after %.1f s", time.monotonic() - self._start)
            self._sentences += len(rows)
            self._subwords += _subwords(batch.sources.values())
            advance(len(rows))

    def log_speed(self) -> None:
        """Says how much was decoded in which time."""
        seconds = time.monotonic() - self._began
        log.info(
            "decoded %d sentences in %.1f s: %.1f sentences/s, %.0f target subwords/s",
            self._sentences,
            seconds,
            self._sentences / seconds,
            self._subwords / seconds,
        )


class _Lines:
    """Decodes the lines of a file, or of standard input; or scores the targets beside them.

    Args:
        decoder: does it.
        config: names the files.
        start: when the run began, by `time.monotonic`.
    """

    def __init__(self, decoder: Decoder, config: DecoderConfig, start: float) -> None:
        self.rows = Rows(config)
        self._decoder = decoder
        self._start = start
        self._find = self._score if config.score_file else self._decode
        self._write = (
            score_writer(config.output_format)
            if config.score_file
            else writer(config.output_format, decoder.hparams)
        )

    def windows(
        self, done: Done = NOT_BEGUN, total: int | None = None
    ) -> Iterator[Iterator[Record]]:
        """Yields for each window that is not done the records of its batches, as they are done.

        The windows, and so the batches, are the same wherever one goes on. Shows progress and, at
        the end, the speed.

        Args:
            done: what to leave out.
            total: how many rows there are in all; None: unknown.
        """
        recorder = _Recorder(self._write, self._start)
        first = 0
        with progress("decoding", total and total - done.rows, "sentences") as advance:
            for window in self.rows.windows():
                if first >= done.window:
                    known = done.known if first == done.window else NOTHING
                    lines = [row.source for row in window]
                    sources = self._decoder.encode(lines, self.rows.name, first=first + 1)
                    batches = self._find(sources, window, known)
                    yield recorder.records(batches, sources, advance, first)
                first += len(window)
        recorder.log_speed()

    def _decode(
        self, sources: list[Source], window: Sequence[InputRow], known: Mapping[int, Found]
    ) -> Iterator[Batch]:
        prefixes = self._beside(sources, window)
        prefixed = [s._replace(prefix=ids) for s, ids in zip(sources, prefixes, strict=True)]
        return self._decoder.decode_batches(prefixed, self.rows.name, known)

    def _score(
        self, sources: list[Source], window: Sequence[InputRow], known: Mapping[int, Found]
    ) -> Iterator[Batch]:
        targets = self._beside(sources, window)
        return self._decoder.score_batches(sources, targets, self.rows.name, known)

    def _beside(self, sources: list[Source], window: Sequence[InputRow]) -> list[list[int]]:
        """Returns the ids of what stands beside the sources."""
        return self._decoder.encode_targets(
            [row.beside for row in window], self.rows.beside, first=sources[0].number
        )


def _decode_file(
    lines: _Lines, decoder: Decoder, trained: Sequence[Trained], config: DecoderConfig
) -> None:
    """Writes one line for each line of a file, and prints the score if there is a reference.

    Goes on where a killed run of the same task stopped.
    """
    source, run = config.decode_from_file or config.score_file, trained[0].run
    count = lines.rows.count()
    references = None
    metrics: Sequence[str] = ()
    if config.decode_reference:
        metrics = _metrics(config, decoder)
        references = _references(decoder.problem, source, count, config.decode_reference)
    path = config.decode_to_file or _results_name(source, run, decoder.hparams)
    _refuse_overwriting([path], [*lines.rows.files, config.decode_reference], trained)
    origin = _origin(lines.rows.files, decoder, trained, config)
    with PartFile(pathlib.Path(path), origin).opened() as part:
        for records in lines.windows(part.done, count):
            for record in records:
                part.append(record)
        outputs = [row.output for row in part.rows()] if references is not None else []
        part.finish()
    log.info("wrote %s", path)
    if references is not None:
        _print_scores(metrics, outputs, references, list(iterate_lines(source)))


def _refuse_overwriting(
    outputs: Sequence[str], inputs: Sequence[str], trained: Sequence[Trained]
) -> None:
    """Raises UserError if an output is one of the inputs, or belongs to a run folder."""
    own = [path for one in trained for path in one.files()]
    for path in outputs:
        files.refuse_overwriting(path, [*filter(None, inputs), *own], WRITTEN_BESIDE)


def _origin(
    inputs: Sequence[str], decoder: Decoder, trained: Sequence[Trained], config: DecoderConfig
) -> dict[str, Any]:
    """Returns all that decides what is written, by names for people."""
    return {
        "release": __version__,
        "task": "score" if config.score_file else "decode",
        "input": [files.digest(path) for path in inputs],
        "checkpoint": [one.origin() for one in trained],
        "decode_hparams": decoder.hparams.to_dict(),
        "long_input": config.long_input,
        "output_format": config.output_format,
    }


def _references(problem: Problem, source: str, count: int, path: str) -> list[str]:
    """Reads the right outputs for the lines of the file `source`, which has `count` of them."""
    references = list(iterate_lines(path))
    require_pair(source, count, path, len(references))
    for i, line in enumerate(iterate_lines(source)):
        try:
            references[i] = problem.reference(line, references[i])
        except DataError as error:
            raise DataError(f"{path}, line {i + 1}: {error}") from error
    return references


def _decode_split(
    decoder: Decoder, trained: Sequence[Trained], config: DecoderConfig, start: float
) -> None:
    """Decodes the dev or test split and prints the score; writes files if they are named."""
    opened = trained[0].run
    data_dir = config.data_dir or opened.flags["data_dir"]
    split = DatasetSplit.TEST if config.eval_use_test_set else DatasetSplit.EVAL
    paths = opened.problem.existing_filepaths(data_dir, split)
    opened.refuse_other_vocabulary(data_dir)
    metrics = _metrics(config, decoder)
    sources, references = read_examples(decoder, paths)
    texts = [source.text for source in sources]

    def records(done: Done = NOT_BEGUN) -> Iterator[Record]:
        recorder = _Recorder(writer(config.output_format, decoder.hparams), start)
        batches = decoder.search_batches(sources, f"{split} example", done.known)
        with progress("decoding", len(sources) - done.rows, "sentences") as advance:
            yield from recorder.records(batches, sources, advance)
        recorder.log_speed()

    if config.decode_to_file:
        path = _results_name(config.decode_to_file, opened, decoder.hparams)
        stem = path.removesuffix("decodes")
        beside = {f"{stem}inputs": texts, f"{stem}targets": references}
        _refuse_overwriting([path, *beside], paths, trained)
        origin = _origin(paths, decoder, trained, config)
        with PartFile(pathlib.Path(path), origin).opened() as part:
            for name, lines in beside.items():
                files.write_text(name, _joined(lines))
            for record in records(part.done):
                part.append(record)
            rows = list(part.rows())
            part.finish()
        log.info("wrote %s", path)
    else:
        rows = _in_order(records())
    _print_scores(metrics, [row.output for row in rows], references, texts)


def _metrics(config: DecoderConfig, decoder: Decoder) -> Sequence[str]:
    """Returns the metrics to score by, which can: those that are asked for, or the problem's."""
    names = split_metrics(config.metrics) or output_metrics(decoder.problem.metrics)
    check_metrics(names)
    return names


def _print_scores(
    metrics: Sequence[str],
    outputs: Sequence[Output],
    references: Sequence[str],
    sources: Sequence[str],
) -> None:
    for score in score_by_metrics(metrics, outputs, references, sources).values():
        print(score.report)


def _results_name(prefix: str, opened: run_folder.RunFolder, hparams: DecodeHParams) -> str:
    """T2T's name of a results file that the user has not named."""
    return (
        f"{prefix}.{opened.model_name}.{opened.hparams_set}.{opened.problem.name}"
        f".beam{hparams.beam_size}.alpha{hparams.alpha}.decodes"
    )


def _in_order(records: Iterable[Record]) -> list[Row]:
    """Returns the rows of a window in their order."""
    rows = {number: row for record in records for number, row in record.rows.items()}
    return [rows[number] for number in sorted(rows)]


def _subwords(found: Iterable[Sequence[Hypothesis]]) -> int:
    """Counts the subwords of the best outputs, EOS included."""
    return sum(len(beams[0].ids) + 1 for beams in found if beams)


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
