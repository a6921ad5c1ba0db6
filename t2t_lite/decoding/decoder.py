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
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.text_encoder import EOS_ID, TextEncoder
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.beam_search import BeamSearch, greedy_search
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decode_hparams import DecodeHParams
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.evaluation.bleu import BleuScore, corpus_bleu
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.progress import progress

log = logging.getLogger(__name__)

# Largest batch, in ids: hypotheses times source length. A source counts as at least the second
# number, because a step costs the same whatever the source's length.
_BATCH_CELLS = 16384
_LEAST_LENGTH = 32

# An output is one line of a file, and one column where all beams are written.
_SEPARATORS = str.maketrans("\n\r\t", "   ")


class Hypothesis(NamedTuple):
    """One output for one sentence."""

    text: str
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
        encoders: the encoders of "inputs" and "targets".
        hparams: how to search.
    """

    def __init__(
        self, model: Seq2Seq, encoders: Mapping[str, TextEncoder], hparams: DecodeHParams
    ) -> None:
        self.model = model
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
            hparams: how to search; None: the defaults.

        Raises:
            UserError: the checkpoint is missing or does not fit.
        """
        model = run.build_model()
        step = run.restore_weights(model, checkpoint)
        log.info("restored %s after step %d", checkpoint or run.folder, step)
        encoders = run.problem.get_feature_encoders(str(run.folder))
        return cls(model, encoders, hparams or DecodeHParams())

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the best output for each line, itself one line; "" for an empty line."""
        return [best_text(beams) for beams in self.search(self.encode(lines))]

    def encode(self, lines: Sequence[str], name: str = "line") -> list[list[int]]:
        """Returns the ids of each line, EOS included; no ids for a line without text.

        Args:
            lines: one sentence each; white space around it is dropped.
            name: what a message calls a line, before its number.

        Raises:
            DataError: a line has a token that the vocabulary lacks.
        """
        encoded = []
        for number, line in enumerate(lines, 1):
            try:
                ids = self._inputs.encode(line.strip())
            except DataError as error:
                raise DataError(f"{name} {number}: {error}") from error
            encoded.append([*ids, EOS_ID] if ids else [])
        return encoded

    def search(
        self,
        sources: Sequence[Sequence[int]],
        name: str = "sentence",
        advance: Callable[[int], None] = lambda sentences: None,
    ) -> list[list[Hypothesis]]:
        """Searches for the outputs of encoded sentences.

        Args:
            sources: ids that end in EOS; longer ones than `max_input_size` (or the model's
                max_length, if that is -1) are cut there, with a warning; empty ones get no output.
            name: what a warning calls a source, before its number.
            advance: called with the number of sentences of each batch that is done.

        Returns:
            For each source its hypotheses, best first. Without return_beams a search ends when
            the first is settled; the others are then what had been found so far.
        """
        sources = [self._cut(ids, f"{name} {i}") for i, ids in enumerate(sources, 1)]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch in self._batches([len(ids) for ids in sources]):
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
        if h.beam_size == 1:
            return greedy_search(self.model)
        return BeamSearch(self.model, h.beam_size, h.alpha, stop_early=not h.return_beams)

    def _search(self, sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        """Decodes one batch."""
        limits = np.array([len(ids) for ids in sources]) + self.hparams.extra_length
        inputs = keras.utils.pad_sequences(sources, padding="post")  # [B, S]
        found = self._beam_search(inputs, limits)
        return [
            [self._hypothesis(*beam) for beam in zip(ids[:, :limit], scores, strict=True)]
            for ids, scores, limit in zip(*found, limits, strict=True)
        ]

    def _hypothesis(self, ids: np.ndarray, score: np.floating) -> Hypothesis:
        output = ids.tolist()
        if EOS_ID in output:
            output = output[: output.index(EOS_ID)]
        return Hypothesis(self.target_text(output), output, float(score))

    def _cut(self, ids: Sequence[int], name: str) -> Sequence[int]:
        limit = self.hparams.max_input_size
        if limit < 0:
            limit = self.model.hparams.max_length
        if not limit or len(ids) <= limit:
            return ids
        log.warning("%s has %d subwords: cut to %d", name, len(ids), limit)
        return [*ids[: limit - 1], EOS_ID]

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yields the numbers of sentences to decode together, the longest sentences first."""
        order = [i for i in np.argsort(lengths, kind="stable")[::-1].tolist() if lengths[i]]
        while order:
            longest = max(lengths[order[0]], _LEAST_LENGTH)
            budget = _BATCH_CELLS // (longest * self.hparams.beam_size)
            size = self.hparams.batch_size or max(1, budget)
            yield order[:size]
            order = order[size:]


def best_text(hypotheses: Sequence[Hypothesis]) -> str:
    """Returns the text of the first hypothesis; "" if there is none."""
    return hypotheses[0].text if hypotheses else ""


def evaluate_bleu(decoder: Decoder, problem: Problem, paths: Sequence[str]) -> BleuScore:
    """Decodes the sources of TFRecord files and scores the outputs against the targets.

    Raises:
        DataError: a file is damaged, or there is no example.
    """
    sources, references = _examples(decoder, problem, paths)
    outputs = [best_text(beams) for beams in decoder.search(sources)]
    return corpus_bleu(outputs, references)


def _examples(
    decoder: Decoder, problem: Problem, paths: Sequence[str]
) -> tuple[list[list[int]], list[str]]:
    """Reads TFRecord files; returns the ids of all sources and the text of all targets, uncut."""
    reader = ExampleReader(reverse=problem.was_reversed, copy=problem.was_copy)
    examples = eval_examples(paths, reader)
    return [source for source, _ in examples], [decoder.target_text(ids) for _, ids in examples]


# ---- what t2t-decoder does


def run(config: DecoderConfig) -> None:
    """Decodes a file, what is typed, or a split of the problem's data.

    Raises:
        UserError: something in the settings, the input or the run folder is wrong.
    """
    opened = _open_run(config)
    with tf.device(_device(config.worker_gpu)):
        decoder = Decoder.from_run(opened, config.checkpoint_path or None, config.decode_hparams)
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
    """Writes one line for each line of a file, and prints BLEU if there is a reference."""
    source = config.decode_from_file
    lines = read_lines(source)
    reference = read_lines(config.decode_reference) if config.decode_reference else None
    if reference is not None and len(reference) != len(lines):
        raise DataError(
            f"{source} has {len(lines)} lines but {config.decode_reference} has "
            f"{len(reference)}: they must pair line by line"
        )
    sources = decoder.encode(lines, f"{source}, line")
    path = config.decode_to_file or _results_name(source, opened, decoder.hparams)
    found = _search_and_write(decoder, sources, f"{source}, line", path)
    if reference is not None:
        _print_bleu(found, reference)


def _decode_split(decoder: Decoder, opened: run_folder.Run, config: DecoderConfig) -> None:
    """Decodes the dev or test split and prints BLEU; writes files if a name for them is given."""
    data_dir = config.data_dir or opened.flags["data_dir"]
    split = DatasetSplit.TEST if config.eval_use_test_set else DatasetSplit.EVAL
    paths = opened.problem.existing_filepaths(data_dir, split)
    sources, references = _examples(decoder, opened.problem, paths)
    name = f"{split} example"
    if config.decode_to_file:
        path = _results_name(config.decode_to_file, opened, decoder.hparams)
        stem = path.removesuffix("decodes")
        files.write_text(f"{stem}inputs", _joined(map(decoder.source_text, sources)))
        files.write_text(f"{stem}targets", _joined(references))
        found = _search_and_write(decoder, sources, name, path)
    else:
        found = _search_and_log(decoder, sources, name)
    _print_bleu(found, references)


def _results_name(prefix: str, opened: run_folder.Run, hparams: DecodeHParams) -> str:
    """T2T's name of a results file that the user has not named."""
    return (
        f"{prefix}.{opened.model_name}.{opened.hparams_set}.{opened.problem.name}"
        f".beam{hparams.beam_size}.alpha{hparams.alpha}.decodes"
    )


def _search_and_write(
    decoder: Decoder, sources: Sequence[Sequence[int]], name: str, path: str
) -> list[list[Hypothesis]]:
    """Searches, and writes one line for each source; a path that cannot be written fails first."""
    with files.whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        found = _search_and_log(decoder, sources, name)
        file.write(_joined(_output_line(beams, decoder.hparams) for beams in found))
    log.info("wrote %s", path)
    return found


def _search_and_log(
    decoder: Decoder, sources: Sequence[Sequence[int]], name: str
) -> list[list[Hypothesis]]:
    """Searches; shows progress and, at the end, the speed."""
    start = time.monotonic()
    with progress("decoding", sum(map(bool, sources)), "sentences") as advance:
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
        f"{beam.text}\t{beam.score:.2f}" if hparams.write_beam_scores else beam.text
        for beam in shown
    )


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _print_bleu(found: Sequence[Sequence[Hypothesis]], references: Sequence[str]) -> None:
    bleu = corpus_bleu([best_text(beams) for beams in found], references)
    print(f"BLEU_cased = {bleu.score:6.2f}")
    print(f"BLEU_cased signature: {bleu.signature}")
