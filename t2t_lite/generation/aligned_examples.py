"""Examples with the alignments of their targets, which guide the attention of a model."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from t2t_lite.alignment.diagonal_aligner import DiagonalAligner
from t2t_lite.alignment.id_links import aligned_ids, word_places
from t2t_lite.alignment.pharaoh import parsed_links, read_links, written_links
from t2t_lite.errors import DataError
from t2t_lite.generation.chunks import Chunk, ExampleEncoder
from t2t_lite.protocol_buffers import pack
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
        """Yields the alignment of each sample; what is aligned to no word is so to EOS."""
        sides = (self.encoders["inputs"], chunk.inputs), (self.encoders["targets"], chunk.targets)
        lines = (encoder.encode_lines(texts) for encoder, texts in sides)
        pairs = [*zip(*lines, strict=True)]
        found = self._by_words(pairs, chunk) if self._aligner is None else self._by_ids(pairs)
        for (source, _), alignment in zip(pairs, found, strict=True):
            eos = len(source) + 1
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
        for (source, target), links in zip(pairs, chunk.alignments, strict=True):
            places = word_places(inputs, source), word_places(targets, target)
            yield aligned_ids(parsed_links(links), *places)


def with_alignments(samples: Iterable[Sample], path: str) -> Iterator[Sample]:
    """Yields samples with the alignments of a file in Pharaoh's format, a line for each.

    Raises:
        DataError: a link is not between words of its pair, or the file has more lines or fewer.
    """
    for number, (sample, links) in enumerate(itertools.zip_longest(samples, read_links(path)), 1):
        if sample is None or links is None:
            raise DataError(
                f"{path} has {'more' if sample is None else 'fewer'} lines than the training text "
                "has pairs: align that text, whole and in its order"
            )
        sizes = [len(sample[side].split()) for side in ("inputs", "targets")]
        for link in links:
            if any(place >= size for place, size in zip(link, sizes, strict=True)):
                raise DataError(
                    f"{path}, line {number}: link {link[0]}-{link[1]} is outside of the pair, of "
                    f"{sizes[0]} and {sizes[1]} words between spaces"
                )
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
        sides = (encoders[side].encode(sample[side]) for side in ("inputs", "targets"))
        source, target = (np.array(ids, np.int32) for ids in sides)
        pairs.append((source, target))
    return DiagonalAligner.train(pairs)
