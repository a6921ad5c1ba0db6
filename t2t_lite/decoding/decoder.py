"""The decoder: sentences in, the model's outputs out, as text; and what `t2t-decoder` does."""

import dataclasses
import functools
import logging
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite import files, run_folder
from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.data.problem import DatasetSplit, Output, Problem
from t2t_lite.data.text_encoder import EOS_ID, TextEncoder
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.beam_search import BeamSearch, Steps, greedy_search
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decode_hparams import DecodeHParams
from t2t_lite.decoding.tree_grammar import TreeGrammar
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.evaluation.metrics import Score, score_outputs
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.progress import progress

log = logging.getLogger(__name__)

# Largest batch, in ids: hypotheses times source length. A source counts as at least the second
# number, because a step costs the same whatever the source's length.
_BATCH_CELLS = 16384
_LEAST_LENGTH = 32

# An output is one line of a file, and one column where all beams are written.
_SEPARATORS = str.maketrans("\n\r\t", "   ")


class Source(NamedTuple):
    """One sentence to decode."""

    text: str
    ids: Sequence[int]  # EOS included; none: there is nothing to decode


class Hypothesis(NamedTuple):
    """One output for one sentence."""

    output: Output
    ids: list[int]  # without EOS
    score: float  # log-probability over the length penalty


class Decoder:
    """Decodes text with one model; compiled when first used, then for sentences of all lengths.

    Example:
        >>> decoder = Decoder.from_run(run_folder.open_run("runs/base"))
        >>> decoder.translate(["The cat sleeps."])
        ['Die Katze schläft.']

    Args:
        model: a trained model; its weights may change between calls.
        problem: says how its outputs are shown.
        encoders: the encoders of "inputs" and "targets".
        hparams: how to search.
    """

    def __init__(
        self,
        model: Seq2Seq,
        problem: Problem,
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
    ) -> None:
        self.model = model
        self.problem = problem
        self.hparams = hparams
        self._inputs = encoders["inputs"]
        self._targets = encoders["targets"]

    @classmethod
    def from_run(
        cls,
        run: run_folder.Run,
        checkpoint: str | None = None,
        hparams: DecodeHParams | None = None,
    ) -> "Decoder":
        """Restores the model of a run folder.

        Args:
            run: an opened run folder.
            checkpoint: prefix of a checkpoint; None: the newest.
            hparams: how to search; None: the problem's defaults.

        Raises:
            UserError: the checkpoint is missing or does not fit.
        """
        model = run.build_model()
        step = run.restore_weights(model, checkpoint)
        log.info("restored %s after step %d", checkpoint or run.folder, step)
        encoders = run.problem.get_feature_encoders(str(run.folder))
        return cls(model, run.problem, encoders, hparams or DecodeHParams.of(run.problem))

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the best output for each line, itself one line; "" for an empty line."""
        return [best_output(beams).text for beams in self.search(self.encode(lines))]

    def encode(self, lines: Sequence[str], name: str = "line") -> list[Source]:
        """Returns each line with its ids; no ids for a line without text.

        Args:
            lines: one sentence each; white space around it is dropped.
            name: what a message calls a line, before its number.

        Raises:
            DataError: a line has a token that the vocabulary lacks.
        """
        encoded = []
        for number, line in enumerate(lines, 1):
            text = self.problem.source(line)
            try:
                ids = self._inputs.encode(text)
            except DataError as error:
                raise DataError(f"{name} {number}: {error}") from error
            encoded.append(Source(text, [*ids, EOS_ID] if ids else []))
        return encoded

    def search(
        self,
        sources: Sequence[Source],
        name: str = "sentence",
        advance: Callable[[int], None] = lambda sentences: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of encoded sentences.

        Args:
            sources: those with more ids than `max_input_size` (or the model's max_length, if
                that is -1) are cut there, with a warning; those without ids get no output.
            name: what a warning calls a source, before its number.
            advance: called with the number of sentences of each batch that is done.

        Returns:
            For each source its hypotheses, best first. Without return_beams a search ends when
            the first is settled; the others are then what had been found so far.
        """
        sources = [self._cut(source, f"{name} {i}") for i, source in enumerate(sources, 1)]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch in self._batches([len(source.ids) for source in sources]):
            for i, hypotheses in zip(batch, self._search([sources[i] for i in batch]), strict=True):
                found[i] = hypotheses
            advance(len(batch))
        return found

    def source_text(self, ids: Sequence[int]) -> str:
        """Returns source ids as one line of text."""
        return self._inputs.decode(ids).translate(_SEPARATORS)

    def target_text(self, ids: Sequence[int]) -> str:
        """Returns target ids as one line of text."""
        return self._targets.decode(ids).translate(_SEPARATORS)

    @functools.cached_property
    def _beam_search(self) -> BeamSearch:
        h = self.hparams
        model: Steps = self.model
        if h.well_formed:
            model = TreeGrammar.of(self.model, self._inputs, self._targets, h.extra_length)
        if h.beam_size == 1:
            return greedy_search(model)
        return BeamSearch(model, h.beam_size, h.alpha, stop_early=not h.return_beams)

    def _search(self, sources: Sequence[Source]) -> list[list[Hypothesis]]:
        """Decodes one batch."""
        limits = np.array([len(source.ids) for source in sources]) + self.hparams.extra_length
        inputs = keras.utils.pad_sequences([s.ids for s in sources], padding="post")  # [B, S]
        found = self._beam_search(inputs, limits)
        return [
            [self._hypothesis(source, *beam) for beam in zip(ids[:, :limit], scores, strict=True)]
            for source, limit, ids, scores in zip(sources, limits, *found, strict=True)
        ]

    def _hypothesis(self, source: Source, ids: np.ndarray, score: np.floating) -> Hypothesis:
        target = ids.tolist()
        if EOS_ID in target:
            target = target[: target.index(EOS_ID)]
        output = self.problem.show(source.text, self.target_text(target))
        return Hypothesis(output, target, float(score))

    def _cut(self, source: Source, name: str) -> Source:
        """Shortens the ids; the text stays, for what is shown is about all of it."""
        limit = self.hparams.max_input_size
        if limit < 0:
            limit = self.model.hparams.max_length
        if not limit or len(source.ids) <= limit:
            return source
        log.warning("%s has %d subwords: cut to %d", name, len(source.ids), limit)
        return Source(source.text, [*source.ids[: limit - 1], EOS_ID])

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yields the numbers of sentences to decode together, the longest sentences first."""
        order = [i for i in np.argsort(lengths, kind="stable")[::-1].tolist() if lengths[i]]
        while order:
            longest = max(lengths[order[0]], _LEAST_LENGTH)
            budget = _BATCH_CELLS // (longest * self.hparams.beam_size)
            size = self.hparams.batch_size or max(1, budget)
            yield order[:size]
            order = order[size:]


def best_output(hypotheses: Sequence[Hypothesis]) -> Output:
    """Returns the output of the first hypothesis; "" if there is none."""
    return hypotheses[0].output if hypotheses else Output("")


class Decodes(NamedTuple):
    """A split of the data, decoded: one entry for each example."""

    sources: list[str]
    references: list[str]  # as they are shown, uncut
    outputs: list[Output]

    def score(self, metric: str) -> Score:
        """Scores the outputs; see `score_outputs`."""
        return score_outputs(metric, self.outputs, self.references)


def decode_examples(decoder: Decoder, paths: Sequence[str]) -> Decodes:
    """Decodes the sources of TFRecord files.

    Raises:
        DataError: a file is damaged.
    """
    sources, references = _examples(decoder, paths)
    outputs = [best_output(beams) for beams in decoder.search(sources)]
    return Decodes([source.text for source in sources], references, outputs)


def evaluate(decoder: Decoder, paths: Sequence[str]) -> Score:
    """Decodes the sources of TFRecord files and scores the outputs against the targets.

    Raises:
        DataError: a file is damaged, or there is no example.
    """
    return decode_examples(decoder, paths).score(decoder.problem.metric)


def _examples(decoder: Decoder, paths: Sequence[str]) -> tuple[list[Source], list[str]]:
    """Reads TFRecord files; returns all sources, and all targets as they are shown, uncut."""
    problem = decoder.problem
    reader = ExampleReader(reverse=problem.was_reversed, copy=problem.was_copy)
    sources, references = [], []
    for ids, target_ids in eval_examples(paths, reader):
        source = Source(decoder.source_text(ids), ids)
        sources.append(source)
        references.append(problem.show(source.text, decoder.target_text(target_ids)).text)
    return sources, references


def _score(
    decoder: Decoder, found: Sequence[Sequence[Hypothesis]], references: Sequence[str]
) -> Score:
    outputs = [best_output(beams) for beams in found]
    return score_outputs(decoder.problem.metric, outputs, references)


# ---- what t2t-decoder does


def run(config: DecoderConfig) -> None:
    """Decodes a file, what is typed, or a split of the problem's data.

    Raises:
        UserError: something in the settings, the input or the run folder is wrong.
    """
    opened = _open_run(config)
    with tf.device(_device(config.worker_gpu)):
        search = DecodeHParams.of(opened.problem, config.decode_hparams)
        decoder = Decoder.from_run(opened, config.checkpoint_path or None, search)
        if config.decode_interactive:
            _decode_interactive(decoder)
        elif config.decode_from_file:
            _decode_file(decoder, opened, config)
        else:
            _decode_split(decoder, opened, config)


def _open_run(config: DecoderConfig) -> run_folder.Run:
    folder = config.output_dir or str(pathlib.Path(config.checkpoint_path).parent)
    opened = run_folder.open_run(folder)
    there = {
        "problem": opened.problem.name,
        "model": opened.model_name,
        "hparams_set": opened.hparams_set,
    }
    for name, value in there.items():
        given = getattr(config, name)
        if given and given != value:
            raise UsageError(
                f"--{name}={given}, but {folder} was trained with {value}: leave the flag out, "
                "or name another run folder"
            )
    hparams = opened.hparams.override(config.hparams).freeze()
    return dataclasses.replace(opened, hparams=hparams)


def _device(worker_gpu: int | None) -> str:
    """Returns the one device to decode on."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    if worker_gpu is not None and worker_gpu > gpus:
        raise UserError(f"--worker_gpu={worker_gpu}, but TensorFlow sees {gpus} GPUs")
    return "CPU:0" if worker_gpu == 0 or not gpus else "GPU:0"


def _decode_interactive(decoder: Decoder) -> None:
    """Decodes line after line from standard input, until its end or a line "q"."""
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            break
        if line == "q":
            break
        for beams in decoder.search(decoder.encode([line])):
            print(_output_line(beams, decoder.hparams))


def _decode_file(decoder: Decoder, opened: run_folder.Run, config: DecoderConfig) -> None:
    """Writes one line for each line of a file, and prints the score if there is a reference."""
    source = config.decode_from_file
    lines = read_lines(source)
    references = None
    if config.decode_reference:
        references = _references(decoder.problem, lines, source, config.decode_reference)
    sources = decoder.encode(lines, f"{source}, line")
    path = config.decode_to_file or _results_name(source, opened, decoder.hparams)
    found = _search_and_write(decoder, sources, f"{source}, line", path)
    if references is not None:
        print(_score(decoder, found, references).report)


def _references(problem: Problem, lines: Sequence[str], source: str, path: str) -> list[str]:
    """Reads the right outputs for the lines of the file `source`."""
    references = read_lines(path)
    if len(references) != len(lines):
        raise DataError(
            f"{source} has {len(lines)} lines but {path} has {len(references)}: they must pair "
            "line by line"
        )
    for i, pair in enumerate(zip(lines, references, strict=True)):
        try:
            references[i] = problem.reference(*pair)
        except DataError as error:
            raise DataError(f"{path}, line {i + 1}: {error}") from error
    return references


def _decode_split(decoder: Decoder, opened: run_folder.Run, config: DecoderConfig) -> None:
    """Decodes the dev or test split and prints the score; writes files if they are named."""
    data_dir = config.data_dir or opened.flags["data_dir"]
    split = DatasetSplit.TEST if config.eval_use_test_set else DatasetSplit.EVAL
    paths = opened.problem.existing_filepaths(data_dir, split)
    opened.refuse_other_vocabulary(data_dir)
    sources, references = _examples(decoder, paths)
    name = f"{split} example"
    if config.decode_to_file:
        path = _results_name(config.decode_to_file, opened, decoder.hparams)
        stem = path.removesuffix("decodes")
        files.write_text(f"{stem}inputs", _joined(source.text for source in sources))
        files.write_text(f"{stem}targets", _joined(references))
        found = _search_and_write(decoder, sources, name, path)
    else:
        found = _search_and_log(decoder, sources, name)
    print(_score(decoder, found, references).report)


def _results_name(prefix: str, opened: run_folder.Run, hparams: DecodeHParams) -> str:
    """T2T's name of a results file that the user has not named."""
    return (
        f"{prefix}.{opened.model_name}.{opened.hparams_set}.{opened.problem.name}"
        f".beam{hparams.beam_size}.alpha{hparams.alpha}.decodes"
    )


def _search_and_write(
    decoder: Decoder, sources: Sequence[Source], name: str, path: str
) -> list[list[Hypothesis]]:
    """Searches, and writes one line for each source; a path that cannot be written fails first."""
    with files.whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        found = _search_and_log(decoder, sources, name)
        file.write(_joined(_output_line(beams, decoder.hparams) for beams in found))
    log.info("wrote %s", path)
    return found


def _search_and_log(
    decoder: Decoder, sources: Sequence[Source], name: str
) -> list[list[Hypothesis]]:
    """Searches; shows progress and, at the end, the speed."""
    start = time.monotonic()
    with progress("decoding", sum(bool(s.ids) for s in sources), "sentences") as advance:
        found = decoder.search(sources, name, advance)
    seconds = time.monotonic() - start
    subwords = sum(len(beams[0].ids) + 1 for beams in found if beams)  # EOS counted
    log.info(
        "decoded %d sentences in %.1f s: %.1f sentences/s, %.0f target subwords/s",
        len(sources),
        seconds,
        len(sources) / seconds,
        subwords / seconds,
    )
    return found


def _output_line(beams: Sequence[Hypothesis], hparams: DecodeHParams) -> str:
    """Returns the best text or, with return_beams, all of them, tab-separated."""
    shown = beams if hparams.return_beams else beams[:1]
    return "\t".join(
        f"{beam.output.text}\t{beam.score:.2f}" if hparams.write_beam_scores else beam.output.text
        for beam in shown
    )


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
