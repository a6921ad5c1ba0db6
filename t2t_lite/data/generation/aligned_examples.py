"""Examples with the alignments of their targets, which guide the attention of a model."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from t2t_lite.data.generation.chunks import Chunk, ExampleEncoder
from t2t_lite.protocol_buffers import pack
from t2t_lite.text.alignment.diagonal_aligner import DiagonalAligner
from t2t_lite.text.alignment.id_links import aligned_ids, places_in_text
from t2t_lite.text.alignment.pharaoh import links_of_pairs, parsed_links, written_links
from t2t_lite.text.sample import ALIGNMENT, Sample
from t2t_lite.text.text_encoder import TextEncoder

# Of a larger corpus, so many pairs train the aligner.
_MOST_PAIRS = 1_000_000


class AligningExampleEncoder(ExampleEncoder):
    """Adds to each example which source id each target id is aligned to: `sample.ALIGNMENT`.

    Args:
        problem_name: the problem's name, for errors.
        encoders: the encoders of `inputs` and `targets`.
        aligner: aligns ids; None: samples have alignments of their words.
    """

    def __init__(
        self,
        problem_name: str,
        encoders: Mapping[str, TextEncoder],
        aligner: DiagonalAligner | None,
    ) -> None:
        super().__init__(problem_name, encoders)
        self._aligner = aligner

    def _further(self, chunk: Chunk) -> Iterator[dict[str, bytes]]:
        """Yields the alignment of each sample.

        What is aligned to no word is so to EOS, but nothing of a pair without links is aligned.
        """
        inputs, targets = self.encoders["inputs"], self.encoders["targets"]
        sides = (inputs, self._sources(chunk)), (targets, chunk.targets)
        lines = (encoder.encode_lines(texts) for encoder, texts in sides)
        pairs = [*zip(*lines, strict=True)]
        found = self._by_words(pairs, chunk) if self._aligner is None else self._by_ids(pairs)
        for (source, _), alignment in zip(pairs, found, strict=True):
            eos = len(source) + 1 if any(alignment) else 0
            yield {ALIGNMENT: pack([place or eos for place in [*alignment, eos]])}

    def _by_ids(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Iterator[list[int]]:
        assert self._aligner is not None
        arrays = [(np.array(source), np.array(target)) for source, target in pairs]
        for places in self._aligner.align(arrays):  # -1: no source
            yield (places + 1).tolist()

    def _by_words(
        self, pairs: Sequence[tuple[list[int], list[int]]], chunk: Chunk
    ) -> Iterator[list[int]]:
        inputs, targets = self.encoders["inputs"], self.encoders["targets"]
        columns = zip(pairs, chunk.inputs, chunk.targets, chunk.further[ALIGNMENT], strict=True)
        for (source, target), text, translation, written in columns:
            links = parsed_links(written)
            of_source = places_in_text(inputs, source, text, is_source=True)
            of_target = places_in_text(targets, target, translation)
            if of_source and of_target:
                yield aligned_ids(links, of_source, of_target)
            else:
                self.unlinked += bool(links)
                yield [0] * len(target)


def with_alignments(samples: Iterable[Sample], path: str) -> Iterator[Sample]:
    """Yields samples with the alignments of a file in Pharaoh's format; see `links_of_pairs`."""
    samples, again = itertools.tee(samples)
    pairs = ((sample["inputs"], sample["targets"]) for sample in again)
    for links, sample in zip(links_of_pairs(pairs, path), samples, strict=True):
        yield {**sample, ALIGNMENT: written_links(links)}


def trained_aligner(
    samples: Iterable[Sample], encoders: Mapping[str, TextEncoder]
) -> DiagonalAligner:
    """Returns an aligner of ids, trained on the first million pairs.

    Raises:
        DataError: no pair has text on both sides.
    """
    pairs = []
    for sample in itertools.islice(samples, _MOST_PAIRS):
        inputs, targets = encoders["inputs"], encoders["targets"]
        source = inputs.encode(inputs.as_source(sample["inputs"]))
        sides = source, targets.encode(sample["targets"])
        pairs.append((np.array(sides[0], np.int32), np.array(sides[1], np.int32)))
    return DiagonalAligner.train(pairs)
