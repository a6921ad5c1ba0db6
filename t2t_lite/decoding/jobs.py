"""What `t2t-decoder` does: it decodes or scores a file, what is typed, or a split of the data."""

import contextlib
import importlib
import io
import itertools
import logging
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from t2t_lite import files, run_folder
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.text_files import iterate_lines
from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.decoding.decode_hparams import DecodeHParams
from t2t_lite.decoding.decoder import Decoder, Hypothesis, Source, best_output
from t2t_lite.decoding.examples import read_examples
from t2t_lite.decoding.lines import Row, Rows, require_pair
from t2t_lite.decoding.loading import Trained, find_trained, load_decoder
from t2t_lite.decoding.outputs import score_writer, writer
from t2t_lite.decoding.part_file import PartFile, Record
from t2t_lite.errors import DataError
from t2t_lite.evaluation.metrics import score_outputs
from t2t_lite.progress import progress
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
        for records in _Lines(decoder, config, start).records():
            sys.stdout.buffer.write("".join(f"{record.line}\n" for record in records).encode())
            sys.stdout.buffer.flush()
    elif config.decode_from_file or config.score_file:
        _decode_file(_Lines(decoder, config, start), decoder, trained, config)
    else:
        _decode_split(decoder, trained[0].run, config)


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

    def records(self, done: int = 0, total: int | None = None) -> Iterator[list[Record]]:
        """Yields the records of all rows behind the first `done`, window by window.

        Shows progress and, at the end, the speed.

        Args:
            done: rows to leave out.
            total: how many there are in all; None: unknown.
        """
        number, subwords = done, 0
        begin = time.monotonic()
        with progress("decoding", total and total - done, "sentences") as advance:
            for window in self.rows.windows(done):
                sources = [row.source for row in window]
                encoded = self._decoder.encode(sources, self.rows.name, first=number + 1)
                found = self._find(encoded, window, advance)
                advance(sum(not source.ids for source in encoded))
                yield [
                    Record(self._write(source, beams), best_output(beams))
                    for source, beams in zip(encoded, found, strict=True)
                ]
                if number == done:
                    log.info("first output after %.1f s", time.monotonic() - self._start)
                number += len(window)
                subwords += _subwords(found)
        _log_speed(number - done, subwords, time.monotonic() - begin)

    def _decode(
        self, sources: list[Source], window: Sequence[Row], advance: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        prefixes = self._beside(sources, window)
        prefixed = [s._replace(prefix=ids) for s, ids in zip(sources, prefixes, strict=True)]
        return self._decoder.decode(prefixed, self.rows.name, advance)

    def _score(
        self, sources: list[Source], window: Sequence[Row], advance: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        return self._decoder.score(sources, self._beside(sources, window), self.rows.name, advance)

    def _beside(self, sources: list[Source], window: Sequence[Row]) -> list[list[int]]:
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
    if config.decode_reference:
        references = _references(decoder.problem, source, count, config.decode_reference)
    path = config.decode_to_file or _results_name(source, run, decoder.hparams)
    origin = _origin(lines, decoder, trained, config)
    with PartFile(pathlib.Path(path), origin).opened() as part:
        for records in lines.records(part.done, count):
            part.append(records)
        outputs = [record.output for record in part.records()] if references is not None else []
        part.finish()
    log.info("wrote %s", path)
    if references is not None:
        print(score_outputs(decoder.problem.metric, outputs, references).report)


def _origin(
    lines: _Lines, decoder: Decoder, trained: Sequence[Trained], config: DecoderConfig
) -> dict[str, Any]:
    """Returns all that decides what is written, by names for people."""
    return {
        "release": __version__,
        "task": "score" if config.score_file else "decode",
        "input": [files.digest(path) for path in lines.rows.files],
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


def _decode_split(decoder: Decoder, opened: run_folder.Run, config: DecoderConfig) -> None:
    """Decodes the dev or test split and prints the score; writes files if they are named."""
    data_dir = config.data_dir or opened.flags["data_dir"]
    split = DatasetSplit.TEST if config.eval_use_test_set else DatasetSplit.EVAL
    paths = opened.problem.existing_filepaths(data_dir, split)
    opened.refuse_other_vocabulary(data_dir)
    sources, references = read_examples(decoder, paths)
    name = f"{split} example"
    if config.decode_to_file:
        path = _results_name(config.decode_to_file, opened, decoder.hparams)
        stem = path.removesuffix("decodes")
        files.write_text(f"{stem}inputs", _joined([source.text for source in sources]))
        files.write_text(f"{stem}targets", _joined(references))
        write = writer(config.output_format, decoder.hparams)
        with files.whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            found = _search_and_log(decoder, sources, name)
            file.write(_joined([write(*result) for result in zip(sources, found, strict=True)]))
        log.info("wrote %s", path)
    else:
        found = _search_and_log(decoder, sources, name)
    outputs = [best_output(beams) for beams in found]
    print(score_outputs(decoder.problem.metric, outputs, references).report)


def _results_name(prefix: str, opened: run_folder.Run, hparams: DecodeHParams) -> str:
    """T2T's name of a results file that the user has not named."""
    return (
        f"{prefix}.{opened.model_name}.{opened.hparams_set}.{opened.problem.name}"
        f".beam{hparams.beam_size}.alpha{hparams.alpha}.decodes"
    )


def _search_and_log(
    decoder: Decoder, sources: Sequence[Source], name: str
) -> list[list[Hypothesis]]:
    """Searches; shows progress and, at the end, the speed."""
    start = time.monotonic()
    with progress("decoding", sum(bool(s.ids) for s in sources), "sentences") as advance:
        found = decoder.search(sources, name, advance)
    _log_speed(len(sources), _subwords(found), time.monotonic() - start)
    return found


def _subwords(found: Sequence[Sequence[Hypothesis]]) -> int:
    """Counts the subwords of the best outputs, EOS included."""
    return sum(len(beams[0].ids) + 1 for beams in found if beams)


def _log_speed(sentences: int, subwords: int, seconds: float) -> None:
    log.info(
        "decoded %d sentences in %.1f s: %.1f sentences/s, %.0f target subwords/s",
        sentences,
        seconds,
        sentences / seconds,
        subwords / seconds,
    )


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
