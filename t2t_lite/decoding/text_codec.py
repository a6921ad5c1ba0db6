"""From text to ids and back: what a model reads for a text, and what users see of its outputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.data.problem import Problem
from t2t_lite.decoding.engine import Engine
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.errors import DataError
from t2t_lite.search.decode_hparams import LONGEST
from t2t_lite.text.languages import ANY, Languages, speaking
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TextEncoder

if TYPE_CHECKING:
    from t2t_lite.decoding.quality import QualityModel

# An output is one line of a file, and one column where all beams are written.
SEPARATORS = str.maketrans("\n\r\t", "   ")


class TextCodec:
    """Encodes the text that a model reads, and decodes the ids that it outputs.

    Args:
        problem: converts lines to sources, and outputs to what users see.
        engine: knows the encoders of "inputs" and "targets", and what the model has learned.
        quality: tells how good outputs are; None: nothing does.

    Attributes:
        problem: as above.
        engine: as above.
        quality: as above.
        encoders: those of the engine.
        has_inputs: whether the model reads sources; else the lines are prompts.
        max_input_size: the ids that a source may have, EOS included; 0: no limit.
    """

    def __init__(
        self, problem: Problem, engine: Engine, quality: "QualityModel | None" = None
    ) -> None:
        self.quality = quality
        self.problem = problem
        self.engine = engine
        self.encoders = engine.encoders
        self.has_inputs = problem.has_inputs
        self.max_input_size = engine.max_input_size

    @property
    def reads_source_form(self) -> bool:
        """Whether the model reads sources in `source_form`."""
        return self.has_inputs and self.encoders["inputs"].reads_source_form

    def as_source(self, text: str, kept: str) -> str:
        """Returns a text in the form in which the model reads it; some characters stay."""
        return self.encoders["inputs"].as_source(text, kept) if self.has_inputs else text

    def encode_targets(
        self, lines: Sequence[str], name: str, first: int = 1, languages: Languages = ANY
    ) -> list[list[int]]:
        """Returns the ids of target texts, without EOS and language.

        Args:
            lines: one text each; surrounding white space is dropped.
            name: what messages call a line, before its number.
            first: the number of the first line.
            languages: where they differ from those of the encoders.

        Raises:
            DataError: a line has a token that is not in the vocabulary, or is too long to be
                scored.
        """
        return [
            self.target_ids(line, f"{name} {number}", languages)
            for number, line in enumerate(lines, first)
        ]

    def target_ids(self, line: str, place: str, languages: Languages = ANY) -> list[int]:
        """Returns the ids of a target text, as `encode_targets` does.

        Raises:
            DataError: the text has too many subwords.
        """
        encoder = speaking(self.encoders, languages)["targets"]
        ids = encoded_text(encoder, line.strip(), place)[len(encoder.start_ids()) :]
        if len(ids) > LONGEST:
            raise DataError(
                f"{place}: {len(ids)} subwords, more than {LONGEST}: memory grows with the square "
                "of this number; shorten the line, or leave it out"
            )
        return ids

    def start_of(self, ids: Sequence[int]) -> Sequence[int]:
        """Returns the start of a target's ids that its text does not show, such as its language.

        A target without any, as in a test set without references, has the encoder's own.
        """
        encoder = self.encoders["targets"]
        return encoder.start_of(ids) or encoder.start_ids()

    def size(self, source: Source) -> int:
        """Returns how many ids a model reads, EOS included; 0: there is nothing to decode."""
        return len(source.ids) if self.has_inputs else len(source.prefix) + 1

    def is_too_long(self, ids: Sequence[int]) -> bool:
        """Whether a source has too many ids."""
        return 0 < self.max_input_size < len(ids)

    def source_text(self, ids: Sequence[int]) -> str:
        """Returns source ids as one line of text."""
        return self.encoders["inputs"].decode(ids).translate(SEPARATORS)

    def target_text(self, ids: Sequence[int]) -> str:
        """Returns target ids as one line of text."""
        return self.encoders["targets"].decode(ids).translate(SEPARATORS)

    def reference_text(self, ids: Sequence[int]) -> str:
        """Returns target ids as one line of text in which no unknown word matches an output's."""
        return self.encoders["targets"].decode_reference(ids).translate(SEPARATORS)

    def source_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns each source id as text, EOS included."""
        return _token_texts(self.encoders["inputs"], ids)

    def target_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns each target id as text, EOS included."""
        return _token_texts(self.encoders["targets"], ids)

    @property
    def unknown_id(self) -> int | None:
        """The target id of unknown tokens; None if the vocabulary has none."""
        return self.encoders["targets"].oov_id


def encoded_text(encoder: TextEncoder, text: str, place: str) -> list[int]:
    """Returns the ids of a text.

    Raises:
        DataError: it has a token that is not in the vocabulary; the message names the place.
    """
    try:
        return encoder.encode(text)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


def _token_texts(encoder: TextEncoder, ids: Sequence[int]) -> list[str]:
    """Returns each id as text; one that no text shows, such as a language, by its name."""
    return [
        RESERVED_TOKENS[i] if 0 <= i <= EOS_ID else encoder.decode([i]) or encoder.symbol(i)
        for i in ids
    ]
