"""Decodes and scores a split of a problem's data."""

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.data.problem import Output
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Source, best_output
from t2t_lite.metrics.base import Score
from t2t_lite.metrics.by_name import score_by_metrics, segment_scores
from t2t_lite.metrics.parts import Part, combined, mean_summaries
from t2t_lite.text.text_encoder import UNKNOWN_WORD

log = logging.getLogger(__name__)

_SEVERAL = 10  # sources that ought to have different outputs


class Decodes(NamedTuple):
    """A decoded split of the data: one entry for each example."""

    sources: list[str]
    references: list[str]  # as users see them, not truncated
    outputs: list[Output]
    language: str = ""  # the code of the references'; empty if unknown

    def score(self, metrics: Iterable[str]) -> dict[str, Score]:
        """Scores the outputs; see `score_by_metrics`."""
        given = self.outputs, self.references, self.sources, self.language
        return score_by_metrics(metrics, *given)

    def only_output(self) -> str | None:
        """Returns the output if it is the same whatever the source; None: it is not, or may be.

        With few sources or one reference, that says nothing.
        """
        texts = {output.text for output in self.outputs}
        if len(texts) > 1 or len({*self.sources}) < _SEVERAL or len({*self.references}) < 2:
            return None
        return texts.pop()

    def segment_records(self, metrics: Iterable[str]) -> Iterator[dict[str, str | float]]:
        """Yields a record of each output: its texts, and its scores alone."""
        given = self.outputs, self.references, self.sources, self.language
        scores = segment_scores(metrics, *given)
        texts = zip(self.sources, self.outputs, self.references, strict=True)
        for (source, output, reference), own in zip(texts, scores, strict=True):
            yield {"source": source, "output": output.text, "reference": reference, **own}


def decode_examples(decoder: Decoder, paths: Sequence[str], name: str = "example") -> Decodes:
    """Decodes the sources of TFRecord files; those of a language model have none, and no outputs.

    Args:
        decoder: the decoder.
        paths: the files.
        name: what messages call an example, before its number.

    Raises:
        DataError: a file is damaged.
        DivergedError: a model outputs NaN for an example.
    """
    if not decoder.problem.has_inputs:
        return Decodes([], [], [])
    sources, references = read_examples(decoder, paths, name)
    outputs = [best_output(beams) for beams in decoder.decode(sources, name)]
    texts = [source.text for source in sources]
    return Decodes(texts, references, outputs, decoder.problem.target_language)


def evaluate(decoder: Decoder, paths: Sequence[str]) -> Score:
    """Decodes the sources of TFRecord files; scores the outputs by the problem's first metric.

    Raises:
        DataError: a file is damaged, or there are no examples.
        DivergedError: a model outputs NaN for an example.
    """
    metric = decoder.problem.metrics[0]
    return decode_examples(decoder, paths).score([metric])[metric]


class PartExamples(NamedTuple):
    """The examples of a part of a problem: of all of it, or of a member of a mixture."""

    part: Part
    sources: list[Source]
    references: list[str]


def read_parts(
    decoder: Decoder, parts: Iterable[Part], data_dir: str, split: str
) -> list[PartExamples]:
    """Reads the examples of a split as `read_examples` does, numbered throughout."""
    found = []
    first = 1
    for part in parts:
        paths = part.problem.existing_filepaths(data_dir, split)
        sources, references = read_examples(decoder, paths, f"{split} example", first)
        found.append(PartExamples(part, sources, references))
        first += len(sources)
    return found


def part_reports(examples: Sequence[PartExamples], outputs: Sequence[Output]) -> Iterator[str]:
    """Yields lines of scores: of each part by its metrics, and of the means over parts.

    Args:
        examples: those of the parts.
        outputs: of all parts, in their order.
    """
    found = {}
    first = 0
    for part, sources, references in examples:
        own = outputs[first : first + len(sources)]
        first += len(sources)
        texts = [source.text for source in sources]
        language = part.problem.target_language
        scores = score_by_metrics(part.metrics, own, references, texts, language).values()
        for score in scores:
            for line in score.report.split("\n"):
                yield f"{part.label}: {line}" if part.label else line
        found[part.label] = {name: v for score in scores for name, v in score.values.items()}
    if len(found) > 1:
        means = mean_summaries([each.part for each in examples], combined(found))
        yield f"mean of {len(found)}: {'  '.join(means)}"


def read_examples(
    decoder: Decoder, paths: Sequence[str], name: str = "example", first: int = 1
) -> tuple[list[Source], list[str]]:
    """Reads TFRecord files; returns all sources, and all targets as users see them.

    Sources with too many ids are cut, as in training, whatever the decoder does with long lines.

    The records have no text: a target's unknown words are `UNKNOWN_WORD`, which no output matches.

    Args:
        decoder: the decoder.
        paths: the files.
        name: what messages call an example, before its number.
        first: the number of the first example.
    """
    problem = decoder.problem
    reader = ExampleReader.of_decoding(problem, decoder.engine.model_hparams)
    sources, references = [], []
    unknown = words = 0
    for number, (ids, target_ids) in enumerate(eval_examples(paths, reader), first):
        start = decoder.text.start_of(target_ids)
        source = Source(decoder.text.source_text(ids), ids, number, start=start)
        source = decoder.cutter.truncated(source, name)
        sources.append(source)
        text = decoder.text.reference_text(target_ids)
        references.append(problem.postprocess(source.text, text).text)
        unknown += text.count(UNKNOWN_WORD)
        words += len(text.split())
    if unknown:
        _log_unknown(unknown, words, paths[0])
    return sources, references


@functools.cache  # once, not in every evaluation of a training
def _log_unknown(unknown: int, words: int, path: str) -> None:
    log.info(
        "%s of %s reference words are not in the vocabulary: they count as wrong (%s)",
        *(f"{unknown:,}", f"{words:,}", path),
    )
