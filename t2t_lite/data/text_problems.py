"""Problems that turn text into text: a subclass only says where the pairs come from.

    @registry.register_problem
    class MyCorpus(text_problems.Text2TextProblem):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            for source, target in my_pairs(tmp_dir, dataset_split):
                yield {"inputs": source, "targets": target}

The members of `Text2TextProblem` list what else a subclass may change.
"""

import abc
import itertools
import logging
import pathlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from t2t_lite.data import members
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.errors import DataError, UsageError, UserError, quoted
from t2t_lite.text.sample import Sample
from t2t_lite.text.source_form import source_form
from t2t_lite.text.text_encoder import (
    ClassLabelEncoder,
    TabEncoder,
    TextEncoder,
    VocabType,
)

__all__ = [
    "Sample",
    "Text2ClassProblem",
    "Text2SelfProblem",
    "Text2TextProblem",
    "TextConcat2ClassProblem",
    "TranslateProblem",
    "TwoVocabularies",
    "VocabType",
]

log = logging.getLogger(__name__)

# The types of the vocabularies whose models read sources in `source_form`, if they are built here.
_OF_SOURCE_FORM = (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM)


class Text2TextProblem(Problem):
    """Pairs of lines."""

    # ---- what a subclass provides

    @abc.abstractmethod
    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields `{"inputs": text, "targets": text}` for each pair; without inputs, `targets` only.

        Args:
            data_dir: folder of the results.
            tmp_dir: folder of the raw files and downloads.
            dataset_split: a `DatasetSplit`; only TRAIN if `is_generate_per_split` is false.
        """

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the samples of `generate_samples`, both sides as text."""
        samples = self.generate_samples(data_dir, tmp_dir, dataset_split)
        return checked_samples(samples, self.base_name, self.sides)

    def samples_by_corpus(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[tuple[str, Iterable[Sample]]]:
        """Yields the samples of `text_samples` by named corpus, for `t2t-datagen --report`."""
        yield self.base_name, self.text_samples(data_dir, tmp_dir, dataset_split)

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Mapping[str, Sequence[int]]]:
        """Yields the samples of a split as ids, EOS included, in an encoding of the subclass's own.

        Data generation calls it where a subclass defines it, and then accepts no `--clean`;
        elsewhere it encodes `generate_samples` in parallel, by `feature_encoders`.
        """
        raise NotImplementedError

    @property
    def reads_pairs(self) -> bool:
        """Whether samples have inputs; for others, `prefixed` may make some."""
        return self.has_inputs

    @property
    def sides_without_text(self) -> Sequence[str]:
        """The sides that records have, but `prefixed` leaves empty in every sample."""
        return ()

    @property
    def encodes_samples(self) -> bool:
        """Whether a subclass defines `generate_encoded_samples`."""
        own = type(self).generate_encoded_samples
        return own is not Text2TextProblem.generate_encoded_samples

    @property
    def is_generate_per_split(self) -> bool:
        """Whether `generate_samples` yields each split; else its samples are spread over all."""
        return True

    # ---- what a subclass may change

    @property
    def vocab_type(self) -> str:
        """A `VocabType`."""
        return VocabType.SUBWORD

    @property
    def approx_vocab_size(self) -> int:
        """Size of the vocabulary to build: approximate for SUBWORD, exact for SentencePiece."""
        return 2**15

    @property
    def additional_reserved_tokens(self) -> Sequence[str]:
        """Tokens that get the ids after EOS (SUBWORD); control symbols (SentencePiece)."""
        return []

    @property
    def max_subtoken_length(self) -> int | None:
        """Upper bound, exclusive, on the characters of a subtoken (SUBWORD); None: no limit."""
        return 200

    @property
    def max_samples_for_vocab(self) -> int | None:
        """Number of pairs the vocabulary is built from; None: all."""
        return None

    @property
    def oov_token(self) -> str | None:
        """The token that replaces unknown tokens (TOKEN)."""
        return None

    @property
    def use_vocab_from_other_problem(self) -> "Text2TextProblem | None":
        """Another problem whose vocabulary this problem uses."""
        return None

    @property
    def inputs_prefix(self) -> str:
        """Text prepended to every source."""
        return ""

    @property
    def targets_prefix(self) -> str:
        """Text prepended to every target."""
        return ""

    @property
    def encoding_settings(self) -> dict[str, Any]:
        """What changes the ids of a text, besides the vocabulary; the data's fingerprint has it."""
        return {"inputs_prefix": self.inputs_prefix, "targets_prefix": self.targets_prefix}

    @property
    def vocab_settings(self) -> dict[str, Any]:
        """What changes the vocabulary built from a text; its fingerprint has it."""
        return {
            "additional_reserved_tokens": list(self.additional_reserved_tokens),
            "max_subtoken_length": self.max_subtoken_length,
            "max_samples_for_vocab": self.max_samples_for_vocab,
        }

    # ---- vocabulary

    @property
    def vocab_filename(self) -> str:
        """T2T's name of the vocabulary file, such as `vocab.{problem}.{size}.subwords`."""
        other = self.use_vocab_from_other_problem
        if other is not None:
            return other.vocab_filename
        if self.vocab_type == VocabType.TOKEN:
            return f"vocab.{self.dataset_filename()}.tokens"
        stem = f"vocab.{self.dataset_filename()}.{self.approx_vocab_size}"
        if self.vocab_type in (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM):
            return f"{stem}.{self.vocab_type}.model"
        return f"{stem}.{VocabType.SUBWORD}"

    def vocab_files(self) -> list[str]:
        """Returns the one vocabulary file; none for bytes."""
        return [] if self.vocab_type == VocabType.CHARACTER else [self.vocab_filename]

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns one encoder for both sides; override for two vocabularies."""
        encoder = self.load_vocab(data_dir)
        return dict.fromkeys(self.sides, encoder)

    def load_vocab(self, data_dir: str) -> TextEncoder:
        """Reads the vocabulary."""
        from t2t_lite.text import text_encoder

        if self.vocab_type == VocabType.CHARACTER:
            return text_encoder.ByteTextEncoder()
        return self._read_vocab(pathlib.Path(data_dir) / self.vocab_filename)

    def _read_vocab(self, path: pathlib.Path) -> TextEncoder:
        from t2t_lite.text import vocabularies

        if not path.is_file():
            raise UserError(
                f"no vocabulary for {self.name!r}: {path} is missing; generate it with "
                f"t2t-datagen --problem={self.generated_by} --data_dir={path.parent}, or, if the "
                "data has moved, name its folder with --data_dir"
                if self.vocab_type != VocabType.TOKEN
                else f"no vocabulary for {self.name!r}: put your tokens, one per line, into {path}"
            )
        return vocabularies.load(self.vocab_type, path, oov_token=self.oov_token)

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes those `vocab_files` that are missing; here from the text of training."""
        other = self.use_vocab_from_other_problem
        if other is not None:
            other.bad_input = self.bad_input
            other.build_vocab(data_dir, tmp_dir)
        elif self.vocab_files() and self.vocab_type != VocabType.TOKEN:
            path = pathlib.Path(data_dir) / self.vocab_filename
            if not path.is_file():
                self._build_vocab(path, self.generate_text_for_vocab(data_dir, tmp_dir))

    def _build_vocab(self, path: pathlib.Path, lines: Iterable[str]) -> None:
        from t2t_lite.text import vocabularies

        log.info("building the vocabulary %s", path)
        vocabularies.build(
            self.vocab_type,
            path,
            lines,
            self.approx_vocab_size,
            reserved_tokens=self.additional_reserved_tokens,
            max_subtoken_length=self.max_subtoken_length,
            reads_source_form=self.reads_source_form,
        )

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the text that the vocabulary is built from: both sides of these samples."""
        for sample in self.samples_for_vocab(data_dir, tmp_dir):
            yield from (sample[side] for side in self.sides)

    def samples_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[Sample]:
        """Yields the samples that the vocabulary is built from: the first of training."""
        samples = self.text_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)
        return self.with_read_sources(itertools.islice(samples, self.max_samples_for_vocab))

    @property
    def reads_source_form(self) -> bool:
        """Whether the models of a vocabulary that is built here read sources in `source_form`."""
        return self.vocab_type in _OF_SOURCE_FORM

    def with_read_sources(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yields samples with their inputs as models of a vocabulary of this type read them."""
        if not (self.has_inputs and self.reads_source_form):
            return iter(samples)
        return ({**sample, "inputs": _as_source(sample["inputs"])} for sample in samples)

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns those files the vocabulary is built from that exist.

        These are the files of the training split; none for TOKEN.
        """
        if self.vocab_type == VocabType.TOKEN:
            return []
        return self.source_files(tmp_dir, DatasetSplit.TRAIN)

    # ---- files

    @property
    def members(self) -> "tuple[Text2TextProblem, ...]":
        """The problems that this one is made of: itself, in general."""
        return (self,)

    def check(self) -> None:
        """Checks the values of the members, before anything is generated."""
        members.check(self)

    @property
    def writes_files(self) -> bool:
        """Whether a subclass overrides `write_files`."""
        return type(self).write_files is not Problem.write_files

    def splits_to_generate(self, tmp_dir: str) -> Sequence[dict[str, Any]]:
        """Returns the entries of `dataset_splits` to generate; override if one is optional."""
        return self.dataset_splits

    def split_settings(self, tmp_dir: str) -> dict[str, Any]:
        """What decides which samples a split has, besides its files; the fingerprint has it.

        Of data whose raw files are gone, nothing is known any more: an empty dictionary.
        """
        return {}

    def prefixed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yields copies of the samples, `inputs_prefix` and `targets_prefix` before the text."""
        inputs, targets = self.inputs_prefix, self.targets_prefix
        if not self.has_inputs:
            return ({"inputs": "", "targets": targets + sample["targets"]} for sample in samples)
        return (
            {**sample, "inputs": inputs + sample["inputs"], "targets": targets + sample["targets"]}
            for sample in samples
        )


def _as_source(line: str) -> str:
    """Returns a source, or several separated by tabs, as models read it."""
    return "\t".join(map(source_form, line.split("\t")))


def checked_samples(samples: Iterable[Any], name: str, sides: Sequence[str]) -> Iterator[Sample]:
    """Yields the samples of `generate_samples`, each with its sides as text.

    They are copies, since a problem may fill the same dictionary again and again.

    Args:
        samples: what the problem's method returned.
        name: the problem's name, for errors.
        sides: those that a sample has.
    """
    for number, sample in _numbered(samples, name):
        try:
            is_text = all(isinstance(sample[side], str) for side in sides)
        except (KeyError, TypeError):
            is_text = False
        if not is_text:
            raise _unexpected(name, number, sample, f"text: `{'` and `'.join(sides)}`")
        yield {side: sample[side] for side in sides}


def _numbered(samples: Any, name: str) -> Iterator[tuple[int, Any]]:
    """Numbers samples from 1; DataError if the problem's method returned no samples at all."""
    if not isinstance(samples, Iterable):
        raise DataError(
            f"{name}: generate_samples returned {quoted(samples)}: expected it to yield "
            "samples, or to return a list of them"
        )
    return enumerate(samples, 1)


def _unexpected(name: str, number: int, sample: Any, expected: str) -> DataError:
    return DataError(
        f"{name}: sample {number} of generate_samples: expected a dictionary with {expected}; "
        f"got {quoted(sample)}"
    )


class Text2SelfProblem(Text2TextProblem):
    """Language models: samples are `{"targets": text}`."""

    has_inputs = False


class Text2ClassProblem(Text2TextProblem):
    """Classification: samples are `{"inputs": text, "label": number}`.

    For models, a label is a target of one symbol, which EOS follows as always: see
    `ClassLabelEncoder`. For users, it is its text.

    Attributes:
        form_of_inputs: what the inputs of a sample are, for errors.
    """

    form_of_inputs: ClassVar[str] = "text"

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

    @property
    def decode_hparams(self) -> str:
        """Scores are log-probabilities; texts may be longer than in training."""
        return "alpha=0,max_input_size=4096" if self.has_labels else super().decode_hparams

    @property
    def can_split_sources(self) -> bool:
        """No: a label is of the whole text."""
        return not self.has_labels and super().can_split_sources

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples with their labels as text."""
        labels: dict[Hashable, str] = {}
        samples: Iterable[Any] = self.generate_samples(data_dir, tmp_dir, dataset_split)
        for number, sample in _numbered(samples, self.base_name):
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

    def numbered_source(self, number: int, sample: Any) -> str:
        """Returns the inputs of a sample as one text."""
        try:
            return self.source_line(sample["inputs"])
        except (KeyError, TypeError):
            expected = f"`inputs` ({self.form_of_inputs}) and `label`"
            raise _unexpected(self.base_name, number, sample, expected) from None

    def source_line(self, inputs: Any) -> str:
        """Returns the inputs of a sample as one text.

        Raises:
            TypeError: they are not text.
        """
        if not isinstance(inputs, str):
            raise TypeError(type(inputs))
        return inputs

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts without their labels."""
        return (sample["inputs"] for sample in self.samples_for_vocab(data_dir, tmp_dir))

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoder of text, and that of labels."""
        labels = ClassLabelEncoder(self._checked_labels(data_dir))
        if len(labels.labels) != self.num_classes:
            raise UsageError(
                f"{self.base_name}: num_classes is {self.num_classes}, but class_labels returns "
                f"{len(labels.labels)} labels"
            )
        return {"inputs": self.load_vocab(data_dir), "targets": labels}


class TextConcat2ClassProblem(Text2ClassProblem):
    """Classification of several texts: samples are `{"inputs": [text, ...], "label": number}`.

    On one line, tabs separate the texts. The model sees the first id of `CONCAT_TOKEN` there.
    """

    CONCAT_TOKEN: ClassVar[str] = "$"
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
        """Returns the encoder of tab-separated texts, and that of labels."""
        encoders = super().feature_encoders(data_dir)
        return {**encoders, "inputs": TabEncoder(encoders["inputs"], self.CONCAT_TOKEN)}


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
        for side, name in zip(("inputs", "targets"), self.vocab_files(), strict=True):
            path = pathlib.Path(data_dir) / name
            if not path.is_file():
                samples = self.samples_for_vocab(data_dir, tmp_dir)
                self._build_vocab(path, (sample[side] for sample in samples))
