"""The jobs of `t2t-decoder`: decode or score a file, typed lines, or a split of the data."""

import contextlib
import dataclasses
import importlib
import io
import itertools
import logging
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from t2t_lite import files
from t2t_lite.data.problem import Problem
from t2t_lite.decoding import split_job
from t2t_lite.decoding.batch_journal import (
    FROM_START,
    BatchJournal,
    BatchRecord,
    ResumePoint,
    lines_in_order,
    require_file,
)
from t2t_lite.decoding.config import (
    ALIGNMENTS,
    STANDARD_INPUT,
    SUBWORD_ALIGNMENTS,
    TEXT,
    DecoderConfig,
)
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.decoding_origin import DecodingOrigin
from t2t_lite.decoding.engines import faster_engine
from t2t_lite.decoding.hypotheses import (
    NO_BATCHES,
    BatchResult,
    HypothesesByIndex,
    Source,
)
from t2t_lite.decoding.input_lines import InputLine, InputLines, require_pair
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.decoding.output_files import refuse_overwriting, results_name
from t2t_lite.decoding.output_formats import (
    output_formatter,
    score_formatter,
    written_score,
)
from t2t_lite.decoding.perplexity import perplexity
from t2t_lite.decoding.recorder import Recorder
from t2t_lite.decoding.request import TextOptions, read_options
from t2t_lite.decoding.shards import name_of_part, part_of
from t2t_lite.decoding.stages.registered import unaligned
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.by_name import (
    check_metrics,
    metric_files,
    output_metrics,
    score_by_metrics,
    split_metrics,
)
from t2t_lite.progress import progress
from t2t_lite.text.languages import without_labels
from t2t_lite.text.text_files import iterate_lines

log = logging.getLogger(__name__)


def run(config: DecoderConfig) -> None:
    """Decodes a file, typed lines or a split of the problem's data; or scores a file.

    Raises:
        UserError: the settings, the input or the run folder are invalid.
    """
    start = time.monotonic()
    trained = find_models(config)
    reads_lines = config.decode_interactive or config.decode_from_file or config.score_file
    if not reads_lines and trained[0].run.problem.has_inputs:
        split_job.split_files(trained[0], config)  # a missing one is named before a model is loaded
    read = DecodingOrigin.of(config, trained[0].run)
    decoder, trained = load_decoder(config, trained)
    options = _checked_options(decoder, config)
    if line := faster_engine(decoder.engine):
        log.info("%s", line)
    if config.decode_interactive:
        _decode_typed(decoder, config, options)
    elif config.decode_from_file == STANDARD_INPUT:
        for records in _LineDecoder(decoder, config, options, start).windows():
            text = "".join(f"{line.text}\n" for line in lines_in_order(records))
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()
    elif config.decode_from_file or config.score_file:
        lines_decoder = _LineDecoder(decoder, config, options, start)
        _decode_file(lines_decoder, decoder, trained, config, read)
    else:
        split_job.decode_split(decoder, trained, config, start, read)


def _checked_options(decoder: Decoder, config: DecoderConfig) -> TextOptions:
    """Returns what the flags ask of texts; checks before any line is read that the model can."""
    options = read_options(config)
    decoder.text.stages(options)
    if config.output_format not in (ALIGNMENTS, SUBWORD_ALIGNMENTS):
        return options
    reason = ""
    if not decoder.engine.has_source_attention:
        reason = "the model has no attention to a source, which aligns"
    elif name := unaligned(options, config.output_format == SUBWORD_ALIGNMENTS):
        reason = (
            f"with --{name}, users see other words than the model reads and writes; leave out one "
            "of the two"
        )
    if reason:
        raise UsageError(f"--output_format={config.output_format}: {reason}")
    if not decoder.engine.model_hparams.is_guided:
        log.info(
            "the alignments are those of the mean attention of the last layer: better ones come "
            "from a model with hparam guided_alignment_weight"
        )
    return options


def _decode_typed(decoder: Decoder, config: DecoderConfig, options: TextOptions) -> None:
    """Decodes standard input line by line, until its end or a line "q".

    With return_beams each hypothesis is on a separate line, after its score.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # adds a history to `input`
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # invalid UTF-8 should not end the session
    format_line = output_formatter(config.output_format, decoder.hparams)
    in_lines = decoder.hparams.return_beams and config.output_format == TEXT
    for number in itertools.count(1):
        try:
            line = input("> ").strip()
        except EOFError:
            break
        if line == "q":
            break
        try:
            (source,) = decoder.text.encode([line], options, first=number)
        except DataError as error:
            log.warning("%s", error)
            continue
        (beams,) = decoder.decode([source])
        if in_lines:
            for beam in beams:
                print(f"{beam.score:.4f}\t{beam.output.text}")
        else:
            print(format_line(source, beams))


class _LineDecoder:
    """Decodes the lines of a file or of standard input; or scores the targets paired with them.

    Args:
        decoder: the decoder.
        config: names the files.
        options: what is asked of the lines.
        start: when the run began, by `time.monotonic`.
    """

    def __init__(
        self, decoder: Decoder, config: DecoderConfig, options: TextOptions, start: float
    ) -> None:
        problem = decoder.problem
        self.lines = InputLines(config, problem.has_inputs, problem.has_labels)
        self._decoder = decoder
        self._options = options
        self._start = start
        self._find = self._score if config.score_file else self._decode
        self._format = (
            score_formatter(config.output_format)
            if config.score_file
            else output_formatter(config.output_format, decoder.hparams)
        )

    def windows(
        self, start: ResumePoint = FROM_START, part: range | None = None
    ) -> Iterator[Iterator[BatchRecord]]:
        """Yields for each unfinished window the records of its batches, as they are finished.

        The windows, and so the batches, are the same wherever a run resumes. Shows progress, and
        the speed at the end.

        Args:
            start: where to resume.
            part: the lines to decode, in whole windows; None: all of them, their number is unknown.
        """
        recorder = Recorder(self._format, self._start)
        first = 0
        total = None if part is None else len(part) - start.lines
        with progress("decoding", total, "sentences") as advance:
            for window in self.lines.windows():
                if first >= start.window and (part is None or first in part):
                    known = start.known if first == start.window else NO_BATCHES
                    lines = [line.source for line in window]
                    sources = self._decoder.text.encode(
                        lines, self._options, self.lines.name, first + 1
                    )
                    batches = self._find(sources, window, known)
                    yield recorder.records(batches, sources, advance, first)
                first += len(window)
        recorder.log_speed()

    def _decode(
        self,
        sources: list[Source],
        window: Sequence[InputLine],
        known: Mapping[int, HypothesesByIndex],
    ) -> Iterator[BatchResult]:
        if not self._decoder.problem.has_inputs:  # the prefixes are the prompts
            return self._decoder.decode_batches(sources, self.lines.name, known)
        prefixes = self._paired_ids(sources, window)
        prefixed = [s._replace(prefix=ids) for s, ids in zip(sources, prefixes, strict=True)]
        return self._decoder.decode_batches(prefixed, self.lines.name, known)

    def _score(
        self,
        sources: list[Source],
        window: Sequence[InputLine],
        known: Mapping[int, HypothesesByIndex],
    ) -> Iterator[BatchResult]:
        targets = self._paired_ids(sources, window)
        return self._decoder.score_batches(sources, targets, self.lines.name, known)

    def _paired_ids(self, sources: list[Source], window: Sequence[InputLine]) -> list[list[int]]:
        """Returns the ids of the texts that are paired with the sources."""
        return self._decoder.text.encode_targets(
            [line.paired for line in window], self.lines.paired_name, first=sources[0].number
        )


def _decode_file(
    line_decoder: _LineDecoder,
    decoder: Decoder,
    trained: Sequence[TrainedModel],
    config: DecoderConfig,
    read: DecodingOrigin,
) -> None:
    """Writes one line for each line of a file, and prints the score if there is a reference.

    Resumes where a killed run of the same task stopped.
    """
    source, run = config.decode_from_file or config.score_file, trained[0].run
    count = line_decoder.lines.count()
    references = None
    metrics: Sequence[str] = ()
    if config.decode_reference:
        metrics = _metrics(config, decoder)
        references = _references(decoder.problem, source, count, config.decode_reference)
    name = source if config.decode_shards == 1 else name_of_part(source, config.worker_id)
    path = config.decode_to_file or results_name(name, run, decoder.hparams)
    inputs = [*line_decoder.lines.files, config.decode_reference]
    refuse_overwriting([path], [*inputs, *read.others, *metric_files(metrics)], trained)
    with _decoded(line_decoder, decoder, trained, config, path, read, count) as journal:
        outputs = [line.output for line in journal.lines()] if references is not None else []
        is_whole = config.decode_shards == 1
        if config.score_file and is_whole and not decoder.problem.has_inputs:
            scores = (written_score(line.text) for line in journal.lines())
            print(perplexity(scores, iterate_lines(source), decoder.text).report)
        journal.finish()
    log.info("wrote %s", path)
    if references is not None:
        given = outputs, references, list(iterate_lines(source)), _target_language(decoder)
        for score in score_by_metrics(metrics, *given).values():
            print(score.report)


@contextlib.contextmanager
def decoded(
    config: DecoderConfig, trained: Sequence[TrainedModel], read: DecodingOrigin | None = None
) -> Iterator[BatchJournal]:
    """Decodes a file for a caller that makes something else of the outputs.

    Args:
        config: names the file to decode, and `decode_to_file`, beside which the journal lies.
        trained: the models, from `find_models`.
        read: of `config`, before the files were read; None: it is taken here.

    Yields:
        The journal with the outputs of all lines. It stays, so that a caller that is killed
        decodes nothing again, until the caller removes it or calls its `finish`.

    Raises:
        UserError: as in `run`.
    """
    start = time.monotonic()
    read = read or DecodingOrigin.of(config, trained[0].run)
    decoder, trained = load_decoder(config, trained)
    lines = _LineDecoder(decoder, config, _checked_options(decoder, config), start)
    count = lines.lines.count()
    with _decoded(lines, decoder, trained, config, config.decode_to_file, read, count) as journal:
        yield journal


@contextlib.contextmanager
def decoded_texts(
    config: DecoderConfig, trained: Sequence[TrainedModel], texts: Sequence[str]
) -> Iterator[BatchJournal]:
    """Decodes texts that name no language, as `decoded` does with a file.

    Args:
        config: as there; the texts are written to the file to decode, once all else is accepted.
        trained: as there.
        texts: one line each.
    """
    start = time.monotonic()
    read = DecodingOrigin.of(dataclasses.replace(config, decode_from_file=""), trained[0].run)
    decoder, trained = load_decoder(config, trained)
    decoder.text.encoders = without_labels(decoder.text.encoders)
    lines = _LineDecoder(decoder, config, _checked_options(decoder, config), start)
    require_file(pathlib.Path(config.decode_to_file))
    files.write_text(config.decode_from_file, "".join(f"{text}\n" for text in texts))
    read = read.with_data([config.decode_from_file])
    count = lines.lines.count()
    with _decoded(lines, decoder, trained, config, config.decode_to_file, read, count) as journal:
        yield journal


@contextlib.contextmanager
def _decoded(
    line_decoder: _LineDecoder,
    decoder: Decoder,
    trained: Sequence[TrainedModel],
    config: DecoderConfig,
    path: str,
    read: DecodingOrigin,
    count: int,
) -> Iterator[BatchJournal]:
    """Yields the journal of `path` once it has this worker's part of all `count` lines.

    Resumes a killed run's.
    """
    origin = read.of_journal(trained, decoder)
    part = part_of(count, config.decode_shards, config.worker_id)
    with BatchJournal(pathlib.Path(path), origin, read.require_same_inputs).opened() as journal:
        for records in line_decoder.windows(journal.resume_point, part):
            for record in records:
                journal.append(record)
        read.require_same_inputs()  # a file that was replaced by an empty one has no record
        yield journal


def _references(problem: Problem, source: str, count: int, path: str) -> list[str]:
    """Reads the references for the `count` lines of the file `source`."""
    references = list(iterate_lines(path))
    require_pair(source, count, path, len(references))
    for i, line in enumerate(iterate_lines(source)):
        try:
            references[i] = problem.reference(line, references[i])
        except DataError as error:
            raise DataError(f"{path}, line {i + 1}: {error}") from error
    return references


def _metrics(config: DecoderConfig, decoder: Decoder) -> Sequence[str]:
    """Returns the metrics to score by, checked: --metrics, or else the problem's."""
    names = split_metrics(config.metrics) or output_metrics(decoder.problem.metrics)
    check_metrics(names, _target_language(decoder))
    return names


def _target_language(decoder: Decoder) -> str:
    """Returns the language of all outputs; "" if it is not known."""
    chosen = decoder.hparams.target_language.partition("+")[0]  # before a tag
    return chosen or decoder.problem.target_language
