"""Decodes a split of a problem's data, and scores the outputs."""

import dataclasses
import logging
import pathlib
from collections.abc import Iterator, Sequence

from t2t_lite import files
from t2t_lite.data.problem import Problem, split_to_decode
from t2t_lite.decoding.batch_journal import (
    FROM_START,
    BatchJournal,
    BatchRecord,
    ResumePoint,
    lines_in_order,
)
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.decoding_origin import DecodingOrigin
from t2t_lite.decoding.output_files import refuse_overwriting, results_name
from t2t_lite.decoding.output_formats import output_formatter
from t2t_lite.decoding.recorder import Recorder
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UsageError
from t2t_lite.metrics.by_name import check_metrics, metric_files, output_metrics, split_metrics
from t2t_lite.metrics.parts import Part, parts_of, without_split
from t2t_lite.progress import progress
from t2t_lite.runs import run_folder

log = logging.getLogger(__name__)


def decode_split(
    decoder: Decoder,
    trained: Sequence[TrainedModel],
    config: DecoderConfig,
    began: float,
    read: DecodingOrigin,
) -> None:
    """Decodes the chosen split and prints the score; writes files if any is named.

    Raises:
        UserError: the problem is a language model, or the data or flags are invalid.
    """
    from t2t_lite.decoding.dataset_decoding import part_reports, read_parts  # load TensorFlow

    run = trained[0].run
    if not run.problem.has_inputs:
        raise UsageError(
            f"{run.problem.name} is a language model: name a file of prompts (--decode_from_file, "
            "an empty line for none) or of text to score (--score_file); t2t-eval evaluates a split"
        )
    data_dir, split, paths = split_files(trained[0], config)
    run.refuse_other_vocabulary(data_dir)
    parts = _scored_parts(run.problem, split, data_dir, config)
    path, inputs, targets = _split_outputs(config, run, decoder)
    if path:
        scored_by = metric_files(name for part in parts for name in part.metrics)
        refuse_overwriting([path, inputs, targets], [*paths, *read.others, *scored_by], trained)
        read = read.with_data(paths)
    examples = read_parts(decoder, parts, data_dir, split)
    sources = [source for part in examples for source in part.sources]
    references = [text for part in examples for text in part.references]

    def records(start: ResumePoint = FROM_START) -> Iterator[BatchRecord]:
        recorder = Recorder(output_formatter(config.output_format, decoder.hparams), began)
        batches = decoder.decode_batches(sources, f"{split} example", start.known)
        with progress("decoding", len(sources) - start.lines, "sentences") as advance:
            yield from recorder.records(batches, sources, advance)
        recorder.log_speed()

    if path:
        read.require_same_inputs()
        origin = read.of_journal(trained, decoder)
        with BatchJournal(pathlib.Path(path), origin).opened() as journal:
            files.write_text(inputs, _text_of([source.text for source in sources]))
            files.write_text(targets, _text_of(references))
            for record in records(journal.resume_point):
                journal.append(record)
            written = list(journal.lines())
            journal.finish()
        log.info("wrote %s", path)
    else:
        written = lines_in_order(records())
    for line in part_reports(examples, [line.output for line in written]):
        print(line)


def split_files(trained: TrainedModel, config: DecoderConfig) -> tuple[str, str, list[str]]:
    """Returns the folder of the data, the split to decode, and its files."""
    data_dir = config.data_dir or trained.run.data_dir
    split = split_to_decode(config.dataset_split, config.eval_use_test_set)
    return data_dir, split, trained.run.problem.existing_filepaths(data_dir, split)


def _scored_parts(problem: Problem, split: str, data_dir: str, config: DecoderConfig) -> list[Part]:
    """Returns what is scored on its own, each by checked metrics: --metrics, or else its own."""
    given = split_metrics(config.metrics)
    found = []
    for part in parts_of(problem, split, given, data_dir):
        names = given or output_metrics(part.metrics)
        check_metrics(names, part.problem.target_language)
        found.append(dataclasses.replace(part, metrics=names))
    for name in without_split(problem, split, data_dir):
        log.info("%s has no %s split and is left out", name, split)
    return found


def _split_outputs(
    config: DecoderConfig, run: run_folder.RunFolder, decoder: Decoder
) -> tuple[str, str, str]:
    """Returns the files for the outputs, inputs and targets of a split; empty: none is named."""
    if not config.decode_to_file:
        return "", "", ""
    path = results_name(config.decode_to_file, run, decoder.hparams)
    stem = path.removesuffix("decodes")
    return path, f"{stem}inputs", f"{stem}targets"


def _text_of(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
