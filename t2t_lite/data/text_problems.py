"""Problems that turn text into text: a subclass only says where the pairs come from.

    @registry.register_problem
    class MyCorpus(text_problems.Text2TextProblem):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            for source, target in my_pairs(tmp_dir, dataset_split):
                yield {"inputs": source, "targets": target}

The members of `Text2TextProblem` list what else a subclass may change.
"""

import abc
import pathlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar

from t2t_lite.data import members
from t2t_lite.data.text2text_problem import Text2TextProblem, numbered, unexpected
from t2t_lite.errors import DataError, UsageError, quoted
from t2t_lite.text.number_encoder import NumberEncoder, counted, text_of
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import (
    ClassLabelEncoder,
    TabEncoder,
    TextEncoder,
    VocabType,
)

__all__ = [
    "Sample",
    "Text2ClassProblem",
    "Text2RealProblem",
    "Text2SelfProblem",
    "Text2TextProblem",
    "TextConcat2ClassProblem",
    "TextConcat2RealProblem",
    "TranslateProblem",
    "TwoVocabularies",
    "VocabType",
]


# What Python iterates over, too: bytes as their codes, for example.
_NOT_NUMBERS = (str, bytes, bytearray, Mapping, Set)


class Text2SelfProblem(Text2TextProblem):
    """Language models: samples are `{"targets": text}`."""

    has_inputs = False


class WholeTextProblem(Text2TextProblem):
    """Problems whose targets describe a whole text: a label, or numbers.

    Attributes:
        form_of_inputs: what the inputs of a sample are, for errors.
        target_member: the member of a sample that is its target, likewise.
    """

    form_of_inputs: ClassVar[str] = "text"
    target_member: ClassVar[str]

    @property
    def decode_hparams(self) -> str:
        """Scores are log-probabilities; texts may be longer than in training."""
        return super().decode_hparams if self.has_text_targets else "alpha=0,max_input_size=4096"

    @property
    def can_split_sources(self) -> bool:
        """No: a target is of the whole text."""
        return self.has_text_targets and super().can_split_sources

    def numbered_source(self, number: int, sample: Any) -> str:
        """Returns the inputs of a sample as one text."""
        try:
            return self.source_line(sample["inputs"])
        except (KeyError, TypeError):
            expected = f"`inputs` ({self.form_of_inputs}) and `{self.target_member}`"
            raise unexpected(self.base_name, number, sample, expected) from None

    def source_line(self, inputs: Any) -> str:
        """Returns the inputs of a sample as one text.

        Raises:
            TypeError: they are not text.
        """
        if not isinstance(inputs, str):
            raise TypeError(type(inputs))
        return inputs

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts without their targets."""
        return (sample["inputs"] for sample in self.samples_for_vocab(data_dir, tmp_dir))


class SeveralTextsProblem(WholeTextProblem):
    """Problems of which a source is several texts.

    On one line, tabs separate the texts. The model sees the first id of `CONCAT_TOKEN` there, or
    EOS if that is None.
    """

    CONCAT_TOKEN: ClassVar[str | None] = "$"
    form_of_inputs: ClassVar[str] = "a list of texts"

    def source(self, line: str) -> str:
        """Drops the white space around a line, but not the tabs of empty texts."""
        return line.strip(" \r\n")

    def source_line(self, inputs: Any) -> str:
        """Returns the texts of a sample, separated by tabs.

        Raises:
            TypeError: they are not a list of texts.
        """
        if not isinstance(inputs, list | tuple):  # the letters of one text would be texts, too
            raise TypeError(type(inputs))
        texts = map(super().source_line, inputs)
        return "\t".join(text.replace("\t", " ") for text in texts)

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of each sample, one after another."""
        for line in super().generate_text_for_vocab(data_dir, tmp_dir):
            yield from line.split("\t")

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoder of tab-separated texts, and that of targets."""
        encoders = super().feature_encoders(data_dir)
        return {**encoders, "inputs": TabEncoder(encoders["inputs"], self.CONCAT_TOKEN)}


class Text2ClassProblem(WholeTextProblem):
    """Classification: samples are `{"inputs": text, "label": number}`.

    For models, a label is a target of one symbol, which EOS follows as always: see
    `ClassLabelEncoder`. For users, it is its text.
    """

    target_member: ClassVar[str] = "label"

    @property
    @abc.abstractmethod
    def num_classes(self) -> int:
        """Number of labels."""

    def class_labels(self, data_dir: str) -> Sequence[str]:
        """Returns the text of each label, in the order of their numbers.

        If it reads a file of `data_dir`, add the file's name to `vocab_files()`: runs get a copy.
        """
        del data_dir
        return [f"ID_{number}" for number in range(self.num_classes)]

    @property
    def has_labels(self) -> bool:
        """Yes, unless sides are exchanged."""
        return not (self.was_reversed or self.was_copy)

    @property
    def metrics(self) -> Sequence[str]:
        """The share of texts whose label is right."""
        return ("exact_match",) if self.has_labels else super().metrics

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples with their labels as text."""
        labels: dict[Hashable, str] = {}
        samples: Iterable[Any] = self.generate_samples(data_dir, tmp_dir, dataset_split)
        for number, sample in numbered(samples, self.base_name):
            line = self.numbered_source(number, sample)
            # Not earlier: generate_samples may write the file that class_labels reads.
            labels = labels or dict(enumerate(self._checked_labels(data_dir)))
            given = sample.get("label")
            label = labels.get(given) if isinstance(given, Hashable) else None
            if label is None:
                raise DataError(
                    f"{self.base_name}: sample {number} of generate_samples: label "
                    f"{given!r}: expected a number from 0 to {len(labels) - 1}"
                )
            yield {"inputs": line, "targets": label}

    def _checked_labels(self, data_dir: str) -> Sequence[str]:
        labels = self.class_labels(data_dir)
        members.require(self, "class_labels", labels, members.is_texts(labels), "a list of texts")
        return labels

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoder of text, and that of labels."""
        labels = ClassLabelEncoder(self._checked_labels(data_dir))
        if len(labels.labels) != self.num_classes:
            raise UsageError(
                f"{self.base_name}: num_classes is {self.num_classes}, but class_labels returns "
                f"{len(labels.labels)} labels"
            )
        return {"inputs": self.load_vocab(data_dir), "targets": labels}


class TextConcat2ClassProblem(SeveralTextsProblem, Text2ClassProblem):
    """Classification of several texts: samples are `{"inputs": [text, ...], "label": number}`."""


class Text2RealProblem(WholeTextProblem):
    """Regression: samples are `{"inputs": text, "targets": [number, ...]}`, or one number alone.

    In examples, targets are floats. For models, they are ids, which EOS follows as always: see
    `NumberEncoder`. For users, they are text, with spaces between several numbers.
    """

    target_member: ClassVar[str] = "targets"
    has_numbers = True

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        if was_reversed or was_copy:
            raise UsageError(
                f"problem {self.base_name!r} has numbers as targets, so that there is no _rev or "
                "_copy of it"
            )

    @property
    def ntasks(self) -> int:
        """How many numbers each text has."""
        return 1

    @property
    def metrics(self) -> Sequence[str]:
        """The error, which chooses the best checkpoints, and two correlations."""
        return ("rmse", "pearson", "spearman")

    @property
    def decode_hparams(self) -> str:
        """There is no search; texts may be longer than in training."""
        return f"{super().decode_hparams},beam_size=1"

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples with their numbers as text."""
        samples: Iterable[Any] = self.generate_samples(data_dir, tmp_dir, dataset_split)
        for number, sample in numbered(samples, self.base_name):
            line = self.numbered_source(number, sample)
            given = sample.get("targets")
            try:
                targets = text_of(given if isinstance(given, Iterable) else [given])
            except (TypeError, ValueError, OverflowError):
                targets = ""
            if len(targets.split()) != self.ntasks or isinstance(given, _NOT_NUMBERS):
                raise DataError(
                    f"{self.base_name}: sample {number} of generate_samples: targets "
                    f"{quoted(given)}: expected {counted(self.ntasks)}"
                )
            yield {"inputs": line, "targets": targets}

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoder of text, and that of numbers."""
        return {"inputs": self.load_vocab(data_dir), "targets": NumberEncoder(self.ntasks)}


class TextConcat2RealProblem(SeveralTextsProblem, Text2RealProblem):
    """Regression of several texts: samples are `{"inputs": [text, ...], "targets": numbers}`."""


class TranslateProblem(Text2TextProblem):
    """Translation: T2T's base class for translation problems."""


class TwoVocabularies(Text2TextProblem):
    """Text with a vocabulary of the sources and one of the targets, of the same type and size.

    Their files are called as one vocabulary would be, followed by `.en` and `.zh` or the like.
    """

    @property
    @abc.abstractmethod
    def vocab_languages(self) -> tuple[str, str]:
        """The languages of sources and targets, at the end of the names of the files."""

    def vocab_files(self) -> list[str]:
        """Returns the vocabularies of the sources and of the targets."""
        return [f"{self.vocab_filename}.{language}" for language in self.vocab_languages]

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns an encoder for each side."""
        inputs, targets = (pathlib.Path(data_dir) / name for name in self.vocab_files())
        return {"inputs": self._read_vocab(inputs), "targets": self._read_vocab(targets)}

    def load_vocab(self, data_dir: str) -> TextEncoder:
        """Returns the encoder of the targets."""
        return self.feature_encoders(data_dir)["targets"]

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes the missing vocabularies, each from its side of the text."""
        if self.use_vocab_from_other_problem is not None:
            super().build_vocab(data_dir, tmp_dir)
            return
        for side, name in zip(("inputs", "targets"), self.vocab_files(), strict=True):
            path = pathlib.Path(data_dir) / name
            if not path.is_file():
                samples = self.samples_for_vocab(data_dir, tmp_dir)
                self._build_vocab(path, (sample[side] for sample in samples))
