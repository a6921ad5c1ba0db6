"""Splits of a problem's data, decoded and scored."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.data.problem import Output
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.pieces import Source, best_output
from t2t_lite.evaluation.metric import Score
from t2t_lite.evaluation.metrics import score_by_metrics


class Decodes(NamedTuple):
    """A split of the data, decoded: one entry for each example."""

    sources: list[str]
    references: list[str]  # as they are shown, uncut
    outputs: list[Output]

    def score(self, metrics: Iterable[str]) -> dict[str, Score]:
        """Scores the outputs; see `score_by_metrics`."""
        return score_by_metrics(metrics, self.outputs, self.references, self.sources)


def decode_examples(decoder: Decoder, paths: Sequence[str], name: str = "example") -> Decodes:
    """Decodes the sources of TFRecord files.

    Args:
        decoder: does it.
        paths: the files.
        name: what a message calls an example, before its number.

    Raises:
        DataError: a file is damaged.
        DivergedError: a model gives NaN for an example.
    """
    sources, references = read_examples(decoder, paths)
    outputs = [best_output(beams) for beams in decoder.search(sources, name)]
    return Decodes([source.text for source in sources], references, outputs)


def evaluate(decoder: Decoder, paths: Sequence[str]) -> Score:
    """Decodes TFRecord files' sources and scores the outputs by the problem's first metric.

    Raises:
        DataError: a file is damaged, or there is no example.
        DivergedError: a model gives NaN for an example.
    """
    metric = decoder.problem.metrics[0]
    return decode_examples(decoder, paths).score([metric])[metric]


def read_examples(decoder: Decoder, paths: Sequence[str]) -> tuple[list[Source], list[str]]:
    """Reads TFRecord files; returns all sources, and all targets as they are shown, uncut."""
    problem = decoder.problem
    reader = ExampleReader(reverse=problem.was_reversed, copy=problem.was_copy)
    sources, references = [], []
    for number, (ids, target_ids) in enumerate(eval_examples(paths, reader), 1):
        source = Source(decoder.source_text(ids), ids, number)
        sources.append(source)
        references.append(problem.postprocess(source.text, decoder.target_text(target_ids)).text)
    return sources, references
